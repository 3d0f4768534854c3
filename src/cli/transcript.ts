/** A log as a conversation that a person reads: pure, from events to text. */
import type { ContentBlock, MessageSource, SessionEvent, TurnEndReason } from '../index.ts';
import { cleanLine, cleanText, duration, tokenCount } from './text.ts';

/** Of the result of a tool; of its arguments. */
const RESULT_LINES = 6;
const LINE_CHARACTERS = 300;

export class Transcript {
  readonly #tools = new Map<string, string>();
  #turnBegan = 0;

  /** What there is to say of one event; often nothing. Ends with a line break. */
  textOf(event: SessionEvent): string {
    const at = new Date(event.time).toISOString().slice(11, 19);
    switch (event.type) {
      case 'turn/start':
        this.#turnBegan = event.time;
        return '';
      case 'user/message':
        return block(`${at} ${speaker(event.data.source)}`, textIn(event.data.content));
      case 'assistant/message': {
        const { message, usage, interrupted } = event.data;
        const text = textIn(message.content);
        const tokens = usage && tokenCount((usage.inputTokens ?? 0) + (usage.outputTokens ?? 0));
        const notes = [
          ...(tokens === undefined ? [] : [`${tokens} tokens`]),
          ...(interrupted === true ? ['cut off'] : []),
        ].join(', ');
        return text === '' ? '' : block(`${at} agent${notes === '' ? '' : ` (${notes})`}`, text);
      }
      case 'tool/call': {
        const { name, callId, arguments: args } = event.data;
        this.#tools.set(callId, name);
        return `${at} → ${cut(`${cleanLine(name)} ${cleanLine(args)}`)}\n`;
      }
      case 'tool/result': {
        const { source, content } = event.data.message;
        const name = this.#tools.get(source.callId) ?? 'tool';
        const [result] = content;
        if (result?.type !== 'tool-result') return '';
        const mark = result.isError === true ? '✗' : '←';
        return block(`${at} ${mark} ${cleanLine(name)}`, shortened(textIn(result.content)));
      }
      case 'llm/retry': {
        const { retry, maxRetries, failure } = event.data;
        return `${at} retry ${retry} of ${maxRetries}: ${cleanLine(failure.message)}\n`;
      }
      case 'turn/end': {
        const spent = duration(event.time - this.#turnBegan);
        return `${at} turn ${event.data.turn} ${ending(event.data.reason)} (${spent})\n\n`;
      }
      // The other events are bookkeeping.
      default:
        return '';
    }
  }
}

function ending(reason: TurnEndReason): string {
  switch (reason.kind) {
    case 'aborted':
      return `stopped (${reason.reason.kind})`;
    case 'error':
      return `failed: ${reason.error.code}: ${cleanLine(reason.error.message)}`;
    default:
      return reason.kind;
  }
}

function speaker(source: MessageSource): string {
  return source.kind === 'coordinator' ? 'agent above' : cleanLine(source.kind);
}

const block = (head: string, text: string): string =>
  `${head}\n${text
    .split('\n')
    .map((line) => (line === '' ? '' : `  ${line}`))
    .join('\n')}\n`;

function textIn(content: readonly ContentBlock[]): string {
  return cleanText(content.map((each) => (each.type === 'text' ? each.text : '')).join('')).trim();
}

function shortened(text: string): string {
  const lines = text.split('\n').map(cut);
  if (lines.length <= RESULT_LINES) return lines.join('\n');
  const more = lines.length - RESULT_LINES + 1;
  return [...lines.slice(0, RESULT_LINES - 1), `… ${more} more lines`].join('\n');
}

const cut = (line: string): string =>
  line.length <= LINE_CHARACTERS ? line : `${line.slice(0, LINE_CHARACTERS)}…`;
