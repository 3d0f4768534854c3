/** Holds whoever waits until it is opened. For tests and scripted models. */
export interface Gate {
  readonly isOpen: boolean;
  /** How many wait now. */
  readonly waiting: number;
  /** Let everyone through, now and later. */
  open(): void;
  /** Resolves once it is open. */
  wait(): Promise<void>;
  /** Resolves when `count` waits have begun in all; at once when they already have. */
  arrived(count?: number): Promise<void>;
}

/** A gate, closed. */
export function gate(): Gate {
  let isOpen = false;
  let begun = 0;
  let held: (() => void)[] = [];
  let watchers: { count: number; resolve: () => void }[] = [];
  return {
    get isOpen() {
      return isOpen;
    },
    get waiting() {
      return held.length;
    },
    open() {
      isOpen = true;
      const released = held;
      held = [];
      for (const release of released) release();
    },
    wait() {
      begun++;
      for (const watcher of watchers) if (watcher.count <= begun) watcher.resolve();
      watchers = watchers.filter((watcher) => watcher.count > begun);
      return isOpen ? Promise.resolve() : new Promise((resolve) => held.push(resolve));
    },
    arrived(count = 1) {
      if (begun >= count) return Promise.resolve();
      return new Promise((resolve) => watchers.push({ count, resolve }));
    },
  };
}
