/** One observation of a harness for all who watch it: what a change comes to is found out once. */
import type { Harness } from '../harness.ts';
import { observeRuntime } from './runtime-events.ts';
import type { RuntimeEvent } from './runtime-events.ts';

type Listener = (event: RuntimeEvent) => void;

interface Feed {
  readonly listeners: Set<Listener>;
  /** Idempotent. */
  stop(): void;
}

const feeds = new WeakMap<Harness, Feed>();

/** As `observeRuntime`; all are told the same object. */
export function watchRuntime(harness: Harness, listener: Listener): () => void {
  const feed = feeds.get(harness) ?? begin(harness);
  const { listeners } = feed;
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) feed.stop();
  };
}

/** For as long as it has listeners. */
function begin(harness: Harness): Feed {
  const listeners = new Set<Listener>();
  const off = observeRuntime(harness, (event) => {
    for (const listener of listeners) listener(event);
  });
  const feed: Feed = {
    listeners,
    stop() {
      off();
      if (feeds.get(harness) === feed) feeds.delete(harness);
    },
  };
  feeds.set(harness, feed);
  return feed;
}
