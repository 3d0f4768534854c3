import { isInstance, toErrorRecord } from '../../protocol/error-record.ts';
import type { Failure } from '../../protocol/model.ts';

/** A model request failed for good. Its failure is the turn's, word for word. */
export class ModelFailure extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

const MESSAGE_CHARS = 4_096;
const CAUSES = 3;

/** What a turn that ended by an error says of it: its messages, and its own code if it has one. */
export function turnErrorOf(thrown: unknown): Failure {
  if (isInstance(thrown, ModelFailure)) return thrown.failure;
  const record = toErrorRecord(thrown);
  const messages: string[] = [];
  for (
    let next = record as typeof record.cause;
    next && messages.length <= CAUSES;
    next = next.cause
  ) {
    if (!messages.some((message) => message.includes(next!.message))) messages.push(next.message);
  }
  return { message: messages.join(': ').slice(0, MESSAGE_CHARS), code: record.code };
}
