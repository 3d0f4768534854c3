import type { CallId } from '../../protocol/ids.ts';
import type {
  SessionEvent,
  SessionEventMap,
  SessionEventType,
} from '../../protocol/session-events.ts';

/** The turn that is open, as of now: it changes with the next append. */
export interface OpenTurn {
  readonly turn: number;
  /** Absent between steps. */
  readonly step?: number;
  /** Calls of the open step that are in the log without a result, by their start. */
  readonly unanswered: ReadonlyMap<CallId, { readonly seq: number; readonly name: string }>;
  /** Calls the model asked for in the open step that are not in the log, in its order. */
  readonly unstarted: ReadonlyMap<CallId, { readonly name: string }>;
}

/** The code of a result for a call that was never started; only repair writes it. */
export const TOOL_NOT_STARTED = 'TOOL_NOT_STARTED';

interface Bracket {
  readonly turn: number;
  step?: number;
  steps: number;
  readonly unanswered: Map<CallId, { seq: number; name: string }>;
  readonly unstarted: Map<CallId, { name: string }>;
}

/**
 * The order a log must keep: turns are numbered on and never overlap, steps lie inside their
 * turn, and what happens in a step names it. Asked before an append, told after it.
 */
export class Brackets {
  #lastTurn = 0;
  #open: Bracket | undefined;

  get lastTurn(): number {
    return this.#lastTurn;
  }

  get open(): OpenTurn | undefined {
    return this.#open;
  }

  /** Why this may not come next, or `undefined`. */
  problem<T extends SessionEventType>(type: T, data: SessionEventMap[T]): string | undefined {
    const open = this.#open;
    switch (type) {
      case 'turn/start': {
        const { turn } = data as SessionEventMap['turn/start'];
        if (open !== undefined) return `turn ${open.turn} is open`;
        return turn === this.#lastTurn + 1 ? undefined : `the next turn is ${this.#lastTurn + 1}`;
      }
      case 'turn/end': {
        const { turn } = data as SessionEventMap['turn/end'];
        if (open?.turn !== turn) return notOpen('turn', turn, open?.turn);
        return open.step === undefined ? undefined : `step ${open.step} is open`;
      }
      case 'step/start': {
        const { turn, step } = data as SessionEventMap['step/start'];
        if (open?.turn !== turn) return notOpen('turn', turn, open?.turn);
        if (open.step !== undefined) return `step ${open.step} is open`;
        return step === open.steps + 1 ? undefined : `the next step is ${open.steps + 1}`;
      }
      case 'step/end':
      case 'assistant/chunk':
      case 'assistant/message':
      case 'llm/retry':
      case 'llm/retry-started':
        return this.#outsideStep(data as SessionEventMap['step/end']);
      case 'tool/call': {
        const call = data as SessionEventMap['tool/call'];
        const outside = this.#outsideStep(call);
        if (outside !== undefined) return outside;
        return open?.unanswered.has(call.callId)
          ? `call \`${call.callId}\` is unanswered already`
          : undefined;
      }
      case 'tool/result': {
        const result = data as SessionEventMap['tool/result'];
        const outside = this.#outsideStep(result);
        if (outside !== undefined) return outside;
        const { callId } = result.message.source;
        if (open?.unanswered.has(callId)) return undefined;
        const [block] = result.message.content;
        const isSynthetic =
          result.error?.code === TOOL_NOT_STARTED &&
          block?.type === 'tool-result' &&
          block.isError === true;
        return isSynthetic ? undefined : `call \`${callId}\` is not waiting for a result`;
      }
      case 'request/header':
      case 'request/context':
        return open === undefined ? 'no turn is open' : undefined;
      default:
        // Messages, inbox splices and the facts about a session stand outside the brackets.
        return undefined;
    }
  }

  /** Take in one event that is in the log now. */
  push(event: SessionEvent): void {
    const open = this.#open;
    if (event.type === 'turn/start') {
      this.#lastTurn = event.data.turn;
      this.#open = {
        turn: event.data.turn,
        steps: 0,
        unanswered: new Map(),
        unstarted: new Map(),
      };
      return;
    }
    if (open === undefined) return;
    switch (event.type) {
      case 'turn/end':
        this.#open = undefined;
        return;
      case 'step/start':
        open.step = open.steps = event.data.step;
        return;
      case 'step/end':
        delete open.step;
        open.unanswered.clear();
        open.unstarted.clear();
        return;
      case 'assistant/message':
        for (const block of event.data.message.content) {
          if (block.type === 'tool-call') open.unstarted.set(block.id, { name: block.name });
        }
        return;
      case 'tool/call':
        open.unstarted.delete(event.data.callId);
        open.unanswered.set(event.data.callId, { seq: event.seq, name: event.data.name });
        return;
      case 'tool/result':
        open.unanswered.delete(event.data.message.source.callId);
        open.unstarted.delete(event.data.message.source.callId);
        return;
      default:
    }
  }

  #outsideStep(at: { readonly turn: number; readonly step: number }): string | undefined {
    const open = this.#open;
    if (open?.turn !== at.turn) return notOpen('turn', at.turn, open?.turn);
    if (open.step !== at.step) return notOpen('step', at.step, open.step);
    return undefined;
  }
}

function notOpen(what: 'turn' | 'step', named: number, open: number | undefined): string {
  return `it names ${what} ${named}, and ${open === undefined ? 'none' : open} is open`;
}
