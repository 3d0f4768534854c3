/**
 * What this library holds open in this process, counted by kind: threads, ports, stores. Shared
 * by every loaded copy of the library, so that whoever looks sees all of it.
 */
const SHARED = Symbol.for('subagent-runtime.census');
const holder = globalThis as { [SHARED]?: Map<string, number> };
const counts: Map<string, number> = (holder[SHARED] ??= new Map());

export const census = {
  /** Something is open from this line on. Returns the idempotent function that says it is not. */
  add(kind: string): () => void {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      const left = (counts.get(kind) ?? 1) - 1;
      if (left === 0) counts.delete(kind);
      else counts.set(kind, left);
    };
  },

  /** Counts of what is open now; a kind of which nothing is open is absent. */
  open(): Record<string, number> {
    return Object.fromEntries(counts);
  },
};
