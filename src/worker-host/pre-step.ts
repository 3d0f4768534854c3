/**
 * What an agent is told in its next step. What was claimed for it is spent, whatever is decided;
 * the messages that hooks return are what is told, and nothing else is.
 */
import type { UserMessage } from '../../protocol/content.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { createUserMessage } from '../agent/agent.ts';
import type { AgentHooks } from '../agent/hooks.ts';
import { contextSnapshot } from '../prompt/snapshot.ts';
import { shapeProblem } from '../session/event-shape.ts';
import type { OpenTurn } from './open-turn.ts';
import type { Residency } from './residency.ts';
import type { ServedAgent } from './served-agent.ts';
import { askHooks } from './ask-hooks.ts';
import { whileRunning } from './while-running.ts';

type StepDecision = AgentHooks['agent/pre-step']['decision'];

/**
 * Put the prompt of the next step together and have hooks decide about its messages.
 *
 * Rejects with what a context or a hook throws, and when the turn or its thread ends meanwhile.
 * @throws {ArgumentError} (rejects) for a decision that is none
 */
export async function decideStep(
  agent: ServedAgent,
  residency: Residency,
  turn: OpenTurn,
  claimed: readonly UserMessage[],
): Promise<StepDecision> {
  const { prompt, tools } = await whileRunning(turn, residency, () => agent.compose(turn));
  // What is wrong with the system text is the failure of the step, at its first request.
  turn.system = () => prompt.system();
  turn.tools = tools;
  const news = contextSnapshot(agent.session.deriveMessages(), prompt.contexts);
  const context =
    news === undefined ? claimed : [...claimed, createUserMessage(news.content, news.source)];
  const decision = await askHooks(
    'agent/pre-step',
    { agent, residency, turn },
    { step: turn.step + 1, messages: [...claimed] },
    () => ({ kind: 'enter', messages: context }),
  );
  return checked(decision);
}

function checked(decision: unknown): StepDecision {
  const { kind, messages, reason } = (decision ?? {}) as Record<string, unknown>;
  if (kind === 'enter' && Array.isArray(messages)) {
    // Holes as well: they are no messages.
    return { kind, messages: [...(messages as unknown[])].map(userMessage) };
  }
  if (kind === 'reject' && (reason === undefined || typeof reason === 'string')) {
    return reason === undefined ? { kind } : { kind, reason };
  }
  throw new ArgumentError(
    'A hook of "agent/pre-step" decides { kind: "enter", messages } or { kind: "reject", reason }.',
  );
}

/** A copy: what is told cannot be changed by whoever decided it. */
function userMessage(given: unknown): UserMessage {
  const problem = shapeProblem('user/message', given);
  if (problem !== undefined) {
    throw new ArgumentError(
      `A hook of "agent/pre-step" returned what is no user message: ${problem}.`,
    );
  }
  const { id, content, source } = given as UserMessage;
  return { ...createUserMessage(content, source), id };
}
