import type { ProviderFactory } from '../subagents/provider-services.ts';
import { startChild, WORKER_CAPABILITIES } from './start-child.ts';

/** The provider `spawn`: a fresh child, in a thread of its own, that knows nothing of its parent. */
export function spawn(): ProviderFactory {
  return (services) => ({
    name: 'spawn',
    capabilities: WORKER_CAPABILITIES,
    inheritsParentContext: false,
    start: (request) => startChild(services, request),
    prepareContinuable: async ({ signal }) => {
      signal.throwIfAborted();
      return {};
    },
  });
}
