/** How a child is told something although parents between it and a live agent have settled. */
import type { ContentBlock } from '../../protocol/content.ts';
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../agent/agent.ts';
import type { ContinuableContext } from './continuable.ts';
import { assertParent } from './activations.ts';
import { followup, resume } from './followup.ts';
import type { SubagentFollowupOptions } from './followup.ts';

/**
 * Tell the last of a chain of children something, each the child of the one before it and the
 * first a child of `top`. Those in between are brought back when they have settled, told nothing,
 * and stay at least until the message is accepted; then each is settled when nothing below it runs.
 *
 * Rejects as `followup` for the first that cannot be brought back or told.
 */
export async function reach(
  context: ContinuableContext,
  top: Agent,
  chain: readonly SessionId[],
  content: readonly ContentBlock[] | string,
  options: SubagentFollowupOptions,
): Promise<{ messageId: MessageId }> {
  const releases: (() => void)[] = [];
  try {
    let parent = top;
    for (const id of chain.slice(0, -1)) {
      const held = await hold(context, parent, id, options.signal);
      releases.push(held.release);
      parent = held.agent;
    }
    return await followup(context, parent, chain.at(-1) as SessionId, content, options);
  } finally {
    // From the bottom up: each is judged when what it owns is known.
    for (const release of releases.toReversed()) release();
  }
}

interface Held {
  readonly agent: Agent;
  readonly release: () => void;
}
interface Released {
  readonly released: Promise<void>;
}

/** A child of this parent that does not settle before it is released. */
async function hold(
  context: ContinuableContext,
  parent: Agent,
  childId: SessionId,
  signal: AbortSignal,
): Promise<Held> {
  const { activations } = context;
  for (;;) {
    assertParent(activations, parent, 'tells a child anything');
    signal.throwIfAborted();
    const found = await activations.lock.run(childId, async (): Promise<Held | Released> => {
      const resident = activations.get(childId);
      if (resident?.disposal !== undefined) return { released: resident.disposal };
      const { agent } = resident ?? (await resume(context, parent, childId, signal));
      // In the span in which it is resident: nobody judges it in between.
      return { agent, release: activations.hold(agent) };
    });
    if (!('released' in found)) return found;
    const { released } = found;
    await activations.waitFor(parent, signal, () => released.catch(() => {}));
  }
}
