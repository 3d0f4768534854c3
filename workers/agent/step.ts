import type { AssistantMessage, ContentBlock } from '../../protocol/content.ts';
import { MessageId } from '../../protocol/ids.ts';
import type { Failure } from '../../protocol/model.ts';
import type { WorkerEvent } from '../../protocol/to-main.ts';
import type { AgentModel, ModelAnswer } from '../model.ts';
import type { AgentTools } from '../tools.ts';
import { Assembler, toolCallsOf } from './assemble.ts';
import { ModelFailure } from './failure.ts';
import type { TurnCancellation } from './interrupt.ts';

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
}

/**
 * One answer of the model, and the tools it asks for. The step was opened by main; its
 * `step/end` is written here, whatever is thrown.
 *
 * @throws the cancellation's reason, {ModelFailure}, or whatever broke.
 */
export async function runStep(
  place: StepPlace,
  cancellation: TurnCancellation,
  parts: StepParts,
): Promise<StepEnd> {
  const { tools, post } = parts;
  try {
    const answer = await ask(place, cancellation, parts);
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

/** Attempt after attempt, as long as main makes another. A turn that is to stop makes none. */
async function ask(
  place: StepPlace,
  cancellation: TurnCancellation,
  { model, post }: StepParts,
): Promise<Answer> {
  let failure: Failure = { code: 'UNKNOWN', message: 'The model was not asked.' };
  for (let attempt = 1; ; attempt++) {
    cancellation.throwIfRaised();
    const answer = await model.open({ ...place, attempt }, cancellation.signal);
    if (answer === undefined) throw new ModelFailure(failure);
    const outcome = await read(answer, place, cancellation, post);
    if (!('failure' in outcome)) return outcome;
    failure = outcome.failure;
  }
}

/** Read one answer to its end, and commit the message it made. */
async function read(
  answer: ModelAnswer,
  at: StepPlace,
  cancellation: TurnCancellation,
  post: StepParts['post'],
): Promise<Answer | { readonly failure: Failure }> {
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
  if (reason.kind === 'error' || reason.kind === 'aborted') return { failure: reason.failure };
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
