import type { ProviderFactory } from '../subagents/provider-services.ts';
import { startChild, WORKER_CAPABILITIES } from './start-child.ts';

/**
 * The provider `fork`: a child, in a thread of its own, that begins with the finished turns of its
 * parent as of the call. The open turn is left out: it may still be taken back. A parent without
 * a finished turn gets a fresh child.
 */
export function fork(): ProviderFactory {
  return (services) => ({
    name: 'fork',
    capabilities: WORKER_CAPABILITIES,
    inheritsParentContext: true,
    // Read in the tick of the call: what the parent does while the child is made is not seen.
    start: (request) => startChild(services, request, request.parent.session.completedTurns()),
    prepareContinuable: async ({ parent, signal }) => {
      signal.throwIfAborted();
      const seed = parent.session.completedTurns();
      return seed === undefined ? {} : { seed };
    },
  });
}
