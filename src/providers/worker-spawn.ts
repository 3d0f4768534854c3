import { ArgumentError } from '../../protocol/errors.ts';
import { createUserMessage } from '../agent/agent.ts';
import { childMeta, childOptions, composeChild } from '../subagents/child-composition.ts';
import { assertMaxDepth, childDepth } from '../subagents/depth.ts';
import type { ResolvedSubagentStartRequest, SubagentRun } from '../subagents/provider.ts';
import type { ProviderFactory, ProviderServices } from '../subagents/provider-services.ts';
import { installStructuredOutput } from '../subagents/structured.ts';
import type { StructuredCapture } from '../subagents/structured.ts';
import { WorkerRun } from './worker-run.ts';

/** The provider `spawn`: a fresh child, in a thread of its own, that knows nothing of its parent. */
export function spawn(): ProviderFactory {
  return (services) => ({
    name: 'spawn',
    capabilities: { outputSchema: true, depthLimit: true, toolFilter: true, persona: true },
    inheritsParentContext: false,
    start: (request) => startChild(services, request),
  });
}

/** Everything that can be refused is refused before the first await, in the caller's tick. */
async function startChild(
  { agents }: ProviderServices,
  request: ResolvedSubagentStartRequest,
): Promise<SubagentRun> {
  const { parent, signal, outputSchema, descriptor, limits } = request;
  if (request.maxDepth !== undefined) assertMaxDepth(request.maxDepth);
  if (signal.aborted) {
    throw new ArgumentError('Cannot start a child: its signal was aborted already.', {
      cause: signal.reason,
    });
  }
  const depth = childDepth(parent, request.maxDepth);
  const prompt = createUserMessage(request.prompt, { kind: 'user' });
  let capture: StructuredCapture | undefined;
  const handle = await agents.create({
    meta: childMeta(parent, depth),
    agentOptions: childOptions(parent, request.agentOptions, depth),
    signal,
    owner: parent,
    descriptor,
    ...(limits === undefined ? {} : { limits }),
    setup(child) {
      composeChild(child, request);
      if (outputSchema !== undefined) capture = installStructuredOutput(child, outputSchema);
    },
  });
  return new WorkerRun({ handle, prompt, signal, capture, observers: agents.observers });
}
