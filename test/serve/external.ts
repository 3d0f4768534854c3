import { SessionId } from '../../protocol/ids.ts';
import { deferred } from '../../src/base/deferred.ts';
import { NO_START_CAPABILITIES } from '../../src/subagents/provider.ts';
import type { SubagentProvider, SubagentResult } from '../../src/subagents/provider.ts';

/** A provider whose one run is nowhere in this process, and ends when it is told to. */
export function externalProvider(): { readonly provider: SubagentProvider; finish(): void } {
  const result = deferred<SubagentResult>();
  return {
    finish: () => result.resolve({ output: [], stopReason: 'completed' }),
    provider: {
      name: 'external',
      capabilities: NO_START_CAPABILITIES,
      inheritsParentContext: false,
      start: async () => ({
        id: SessionId('run-far'),
        localAgent: undefined,
        result: result.promise,
        dispose: async () => {},
      }),
    },
  };
}
