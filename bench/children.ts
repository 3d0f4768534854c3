/** One delegation through the public API, in threads or, for comparison, in this one. */
import { systemClock } from '../src/base/clock.ts';
import { buildHarness } from '../src/harness.ts';
import type { Harness, HarnessParts } from '../src/harness.ts';
import type { HarnessOptions } from '../src/harness-options.ts';
import type { Agent } from '../src/index.ts';
import { scriptedModel } from '../src/testing.ts';
import type { Script } from '../src/testing.ts';
import { inProcessThreads } from '../test/support/in-process-threads.ts';

export interface Delegator extends AsyncDisposable {
  readonly harness: Harness;
  readonly parent: Agent;
  /** Milliseconds from asking for a child to its result; the child is gone when this resolves. */
  delegate(prompt: string): Promise<number>;
}

export async function delegator(
  options: HarnessOptions & { readonly script: Script; readonly inProcess?: boolean },
): Promise<Delegator> {
  const { script, inProcess = false, ...rest } = options;
  const parts: HarnessParts = inProcess
    ? { threads: () => inProcessThreads({ clock: systemClock }).factory }
    : {};
  const models = { script: scriptedModel(script) };
  const harness = await buildHarness({ ...rest, models }, parts);
  const { agent: parent } = await harness.agents.createHost({ onMessage() {} });
  return {
    harness,
    parent,
    async delegate(prompt) {
      const start = performance.now();
      const run = await harness.subagents.start('spawn', {
        parent,
        prompt: [{ type: 'text', text: prompt }],
        signal: new AbortController().signal,
        agentOptions: { provider: 'script', model: 'bench' },
      });
      const { stopReason, diagnostic } = await run.result;
      const time = performance.now() - start;
      await run.dispose();
      if (stopReason !== 'completed') throw new Error(`A child ended ${stopReason}: ${diagnostic}`);
      return time;
    },
    [Symbol.asyncDispose]: () => harness.dispose(),
  };
}
