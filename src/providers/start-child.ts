/** How the providers of this folder make a one-shot child; they differ in what it begins with. */
import { ArgumentError } from '../../protocol/errors.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import {
  childMeta,
  childOptions,
  composeChild,
  readableMessage,
} from '../subagents/child-composition.ts';
import { assertMaxDepth, childDepth } from '../subagents/depth.ts';
import type {
  ResolvedSubagentStartRequest,
  SubagentCapabilities,
  SubagentRun,
} from '../subagents/provider.ts';
import type { ProviderServices } from '../subagents/provider-services.ts';
import { installStructuredOutput } from '../subagents/structured.ts';
import type { StructuredCapture } from '../subagents/structured.ts';
import { WorkerRun } from './worker-run.ts';

/** What a child that runs in a thread of this harness can be asked for. */
export const WORKER_CAPABILITIES: SubagentCapabilities = Object.freeze({
  outputSchema: true,
  depthLimit: true,
  toolFilter: true,
  persona: true,
});

/**
 * Make a child in a thread of its own, with its parent as its owner. Everything that can be
 * refused is refused before the first await, in the caller's tick.
 *
 * @param seed what its log begins with: finished turns of its parent
 */
export async function startChild(
  { agents }: ProviderServices,
  request: ResolvedSubagentStartRequest,
  seed?: readonly SessionEvent[],
): Promise<SubagentRun> {
  const { parent, signal, outputSchema, descriptor, limits } = request;
  if (request.maxDepth !== undefined) assertMaxDepth(request.maxDepth);
  if (signal.aborted) {
    throw new ArgumentError('Cannot start a child: its signal was aborted already.', {
      cause: signal.reason,
    });
  }
  const depth = childDepth(parent, request.maxDepth);
  const prompt = readableMessage(request.prompt);
  let capture: StructuredCapture | undefined;
  const handle = await agents.create({
    meta: {
      ...childMeta(parent, depth),
      ...(seed === undefined ? {} : { seedLength: seed.length }),
    },
    ...(seed === undefined ? {} : { seed }),
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
  try {
    return new WorkerRun({ handle, prompt, signal, capture, observers: agents.observers });
  } catch (error) {
    // A signal that does not let itself be listened to: nobody holds this child.
    await handle.dispose().catch(() => {});
    throw error;
  }
}
