/** Faults that such systems are known to have, as changes of the product's own source. */

/**
 * `from`: it is rare, and seeds before that are known to miss it. Each change is of one place: it has to be there, once.
 * @type {readonly { name: string, from?: number, changes: readonly { file: string, from: string, to: string }[] }[]}
 */
export const PLANTED = [
  {
    name: 'ends a child, and not what is below it',
    from: 690,
    changes: [
      {
        file: 'src/subagents/activations.ts',
        from: `resolve(this.#release(activation, this.endOwned(activation, pending)));`,
        to: 'resolve(this.#release(activation, []));',
      },
      {
        file: 'src/subagents/drain.ts',
        from: `const owned = activations.endOwned(activation, pending);`,
        to: 'const owned: Promise<void>[] = [];',
      },
    ],
  },
  {
    name: 'settles a thread at its error, without what its port still holds',
    changes: [
      {
        file: 'src/worker-host/thread.ts',
        from: `worker.on('error', (error: unknown) => (this.#thrown ??= { error }));`,
        to: `worker.on('error', (error: unknown) => {
          this.#thrown ??= { error };
          this.#settle(this.#verdict(1));
        });`,
      },
    ],
  },
  {
    name: 'drops a message for an agent that is busy',
    changes: [
      {
        file: 'src/agent/intake.ts',
        from: `const problem = shapeProblem('user/message', message);`,
        to: `if (agent.status === 'running') return;
        const problem = shapeProblem('user/message', message);`,
      },
    ],
  },
  {
    name: 'publishes a child that was being made when its parent was drained',
    changes: [
      {
        file: 'src/subagents/activations.ts',
        from: `ending.throwIfAborted();
        this.assertAdmits(parent);`,
        to: '',
      },
      {
        file: 'src/subagents/activations.ts',
        from: `ending.abort(new SubagentError(isClosed ? 'DRAINING' : 'ACTIVATION_CLOSING', text));`,
        to: 'void [isClosed, text, ending];',
      },
      {
        file: 'src/subagents/activations.ts',
        from: `signal.throwIfAborted();
    this.assertAdmits(parent);
    if (activation.disposal !== undefined) {`,
        to: 'if (activation.disposal !== undefined) {',
      },
    ],
  },
  {
    name: 'brings a child back twice at once',
    from: 260,
    changes: [
      {
        file: 'src/subagents/followup.ts',
        from: `activations.lock.run(childId, async () => {`,
        to: '((_id: unknown, run: () => Promise<never>) => run())(childId, async () => {',
      },
    ],
  },
  {
    name: 'acknowledges a message before it is kept',
    from: 140,
    changes: [
      {
        file: 'src/subagents/activations.ts',
        from: `return { kept };`,
        to: 'return { kept: Promise.resolve() };',
      },
    ],
  },
];

/** @returns a transform for \`bundle\`, and what tells whether all of it was applied */
export function plant({ name, changes }) {
  const applied = new Map(changes.map((change) => [change, 0]));
  return {
    change(id, text) {
      let changed = text;
      for (const change of changes) {
        if (!id.endsWith(`/${change.file}`)) continue;
        const places = changed.split(change.from).length - 1;
        applied.set(change, applied.get(change) + places);
        changed = changed.replace(change.from, () => change.to);
      }
      return changed === text ? undefined : changed;
    },
    assertApplied() {
      for (const [{ file, from }, places] of applied) {
        if (places === 1) continue;
        throw new Error(
          `"${name}" is to change one place of ${file}, and there are ${places}: ${from}`,
        );
      }
    },
  };
}
