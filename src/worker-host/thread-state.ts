/** The states of a thread, and the one way through them. */
export type ThreadStateName =
  /** Made; no sign of life yet. */
  | 'starting'
  /** It is up, and has no agent. */
  | 'waiting'
  /** It serves its one agent. */
  | 'assigned'
  /** Told to end, by force; it counts until it is gone. */
  | 'killing'
  /** It did not end for so long that its end was told without it. Nothing of it is heard any more. */
  | 'stuck'
  /** It is gone. */
  | 'dead';

const NEXT: { readonly [S in ThreadStateName]: readonly ThreadStateName[] } = {
  starting: ['waiting', 'killing', 'dead'],
  waiting: ['assigned', 'killing', 'dead'],
  assigned: ['killing', 'dead'],
  killing: ['stuck', 'dead'],
  stuck: ['dead'],
  dead: [],
};

export class ThreadState {
  #name: ThreadStateName = 'starting';

  get name(): ThreadStateName {
    return this.#name;
  }

  is(...names: readonly ThreadStateName[]): boolean {
    return names.includes(this.#name);
  }

  /** False, and nothing happens, when there is no way from here to there. */
  to(next: ThreadStateName): boolean {
    if (!NEXT[this.#name].includes(next)) return false;
    this.#name = next;
    return true;
  }
}
