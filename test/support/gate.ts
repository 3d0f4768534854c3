/** Holds whoever waits until a test opens it; once open it stays open. */
export interface Gate {
  readonly isOpen: boolean;
  open(): void;
  wait(): Promise<void>;
}

export function gate(): Gate {
  let isOpen = false;
  let release!: () => void;
  const opened = new Promise<void>((resolve) => (release = resolve));
  return {
    get isOpen() {
      return isOpen;
    },
    open() {
      isOpen = true;
      release();
    },
    wait: () => opened,
  };
}
