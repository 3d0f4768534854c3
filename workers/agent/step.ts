import type { AssistantMessage, ContentBlock } from '../../protocol/content.ts';
import { MessageId } from '../../protocol/ids.ts';
import type { WorkerEvent } from '../../protocol/to-main.ts';
import type { AgentModel, ModelAnswer } from '../model.ts';
import type { AgentTools } from '../tools.ts';
import { Assembler, toolCallsOf } from './assemble.ts';
import type { TurnCancellation } from './interrupt.ts';
import { ModelFailure, withRetry } from './retry.ts';
import type { RetryOptions } from './retry.ts';

/** Where one step stands. */
export interface StepPlace {
  readonly turn: number;
  readonly step: number;
}

/** How a step ended. Only `continues` asks for another one by itself. */
export type StepEnd = 'continues' | 'completed' | 'max-tokens';

export interface StepParts {
  readonly model: AgentModel;
  readonly tools: AgentTools;
  post(event: WorkerEvent): void;
  random(): number;
  delay(ms: number, signal: AbortSignal): Promise<void>;
}

/**
 * One model request, retried while that helps, and the tools it asks for. The step was opened
 * by main; its `step/end` is written here, whatever is thrown.
 *
 * @throws the cancellation's reason, {ModelFailure}, or whatever broke.
 */
export async function runStep(
  place: StepPlace,
  cancellation: TurnCancellation,
  parts: StepParts,
): Promise<StepEnd> {
  const { model, tools, post, random, delay } = parts;
  try {
    const retry: RetryOptions = {
      policy: model.retryPolicy,
      provider: model.provider,
      random,
      delay,
      post,
    };
    const answer = await withRetry(place, cancellation, retry, (attempt) =>
      request({ ...place, attempt }, cancellation, parts),
    );
    if (answer.isCutOff) return 'max-tokens';
    const calls = toolCallsOf(answer.content);
    if (calls.length === 0) return 'completed';
    const { concludesTurn } = await tools.run(calls, place, cancellation);
    cancellation.throwIfRaised();
    return concludesTurn ? 'completed' : 'continues';
  } finally {
    post({ type: 'step/end', data: { ...place } });
  }
}

interface Answer {
  readonly content: readonly ContentBlock[];
  readonly isCutOff: boolean;
}

/** One attempt: ask, assemble, and commit the message it made. */
async function request(
  at: StepPlace & { readonly attempt: number },
  cancellation: TurnCancellation,
  { model, post }: StepParts,
): Promise<Answer> {
  const answer = await model.open(at, cancellation.signal);
  const assembler = new Assembler();
  for await (const batch of answer.parts) {
    for (const part of batch) assembler.push(part);
    cancellation.isRaised();
  }
  if (cancellation.isRaised()) {
    const visible = assembler.visible();
    if (visible.length > 0) post(messageEvent(at, answer, assembler, visible, true));
    throw cancellation.signal.reason;
  }
  const { reason } = assembler;
  if (reason.kind === 'error' || reason.kind === 'aborted') throw new ModelFailure(reason.failure);
  const isCutOff = reason.kind === 'max-tokens';
  const all = assembler.content();
  // A call that was cut off may say something else than the model meant.
  const content = isCutOff ? all.filter((block) => block.type !== 'tool-call') : all;
  post(messageEvent(at, answer, assembler, content, false));
  return { content, isCutOff };
}

function messageEvent(
  { turn, step }: StepPlace,
  { stream, provider, model }: ModelAnswer,
  { count, usage, replayState }: Assembler,
  content: readonly ContentBlock[],
  isInterrupted: boolean,
): WorkerEvent {
  const message: AssistantMessage = {
    // Main gives it its name; a thread would have to load a generator for it.
    id: MessageId(`${turn}.${step}`),
    role: 'assistant',
    content,
    source: {
      kind: 'model',
      provider,
      model,
      ...(replayState === undefined || isInterrupted ? {} : { replayState }),
    },
  };
  return {
    type: 'assistant/message',
    data: {
      turn,
      step,
      stream,
      parts: count,
      message,
      ...(usage === undefined ? {} : { usage }),
      ...(isInterrupted ? { interrupted: true } : {}),
    },
  };
}
