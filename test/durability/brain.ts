/**
 * The models of a program that is killed, in the process that survives: it decides what each
 * request is answered, and remembers what it was shown.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Message } from '../../protocol/content.ts';
import type { Dice } from '../interleavings/plan.ts';
import { calls, says, startOpenAiServer } from '../support/openai-server.ts';
import type { OpenAiServer, ServerAnswer, ServerRequest } from '../support/openai-server.ts';

/** One message as a model reads it. */
interface Shown {
  readonly role: 'user' | 'assistant' | 'tool';
  readonly text: string;
  readonly callId?: string;
}

/** Whose message a mark stands in, who is told what they report, and a new mark for that one. */
interface Marks {
  ownerOf(mark: string): string;
  parentOf(owner: string): string | undefined;
  mark(owner?: string): string;
}

interface Answer {
  readonly words: readonly string[];
  readonly calls: readonly { readonly id: string; readonly name: string; readonly args: object }[];
  readonly failure?: string;
  readonly delayMs: number;
}

/** Marks in the texts that the client sends: each is sent once. */
const MARK = /\[t(\d+)\]/g;
export const marksOf = (text: string): string[] => [...text.matchAll(MARK)].map(([, n = '']) => n);

export class Brain {
  /** Told when a request is here, and when the body of a tool has begun. */
  onPhase: (phase: 'model' | 'tool') => void = () => {};
  /** Answers at once, with words, and with the reports that children are asked for. */
  isCalm = false;
  readonly problems: string[] = [];
  /** What the models were last shown as the result of each call. */
  readonly results = new Map<string, string>();
  /** Ids that a tool gave back, and that a model has read. */
  readonly reported = new Set<string>();
  /** By its last mark: what each session was shown in its last request. */
  readonly #shown = new Map<string, readonly Shown[]>();
  readonly #inputs = new Map<string, string>();
  /** Marks whose message some request was made for. */
  readonly #answered = new Set<string>();
  readonly #dice: Dice;
  readonly #marks: Marks;
  #calls = 0;
  #server!: OpenAiServer;

  private constructor(dice: Dice, marks: Marks) {
    this.#dice = dice;
    this.#marks = marks;
  }

  static async start(dice: Dice, marks: Marks): Promise<Brain> {
    const brain = new Brain(dice, marks);
    brain.#server = await startOpenAiServer({ respond: (request) => brain.#respond(request) });
    return brain;
  }

  get url(): string {
    return this.#server.url.replace(/\/v1$/, '');
  }

  /** The first request that was made for the message of this mark, as far as models read it. */
  inputFor(mark: string): string | undefined {
    return this.#inputs.get(mark);
  }

  stop(): Promise<void> {
    return this.#server.stop();
  }

  async #respond({ path, body }: ServerRequest): Promise<ServerAnswer> {
    if (path === '/tool') {
      this.onPhase('tool');
      if (!this.isCalm) await pause(this.#dice.int(30), undefined, { ref: false });
      return { status: 200, body: {} };
    }
    const isThread = path === '/think';
    const shown = isThread
      ? (body.messages as unknown as Message[]).map(shownInThread)
      : body.messages.filter(({ role }) => role !== 'system').map(shownOverHttp);
    this.#remember(shown);
    const asked = shown.flatMap(({ role, text }) => (role === 'user' ? marksOf(text) : [])).at(-1);
    if (asked !== undefined && !this.#inputs.has(asked)) {
      this.#inputs.set(asked, JSON.stringify(isThread ? shown : body));
    }
    const answer = this.#answer(shown);
    this.onPhase('model');
    await pause(answer.delayMs, undefined, { ref: false });
    if (isThread) return { status: 200, body: answer };
    if (answer.failure !== undefined) return { status: 400, body: { error: answer.failure } };
    return { chunks: this.#stream(answer) };
  }

  async *#stream(answer: Answer): AsyncGenerator<object> {
    const chunks =
      answer.calls.length > 0
        ? calls(...answer.calls.map(({ id, name, args }) => ({ id, name, arguments: args })))
        : says(...answer.words);
    for (const chunk of chunks) {
      if (!this.isCalm && this.#dice.chance(0.3)) {
        await pause(this.#dice.int(12), undefined, { ref: false });
      }
      yield chunk;
    }
  }

  /** What may never be, seen from here alone. */
  #remember(shown: readonly Shown[]): void {
    const marks = shown.map(({ role, text }) => (role === 'user' ? marksOf(text) : []));
    const all = marks.flat();
    const last = all.at(-1);
    if (last === undefined) return;
    const say = (what: string): void => void this.problems.push(`model of [t${last}]: ${what}`);
    const twice = all.find((mark, at) => all.indexOf(mark) !== at);
    if (twice !== undefined) say(`[t${twice}] is in one history twice`);
    const owner = this.#marks.ownerOf(last);
    const before = this.#shown.get(owner) ?? [];
    // What a crash kept from the log is a result at most: everything else stays where it was.
    const changed = before.findIndex(({ role, text }, at) => {
      const now = shown[at];
      return now?.role !== role || (role !== 'tool' && now.text !== text);
    });
    if (changed !== -1) {
      const [was, is] = [before[changed], shown[changed]].map((one) => JSON.stringify(one));
      say(`message ${changed} of its history was ${was} and is ${is}`);
    }
    this.#shown.set(owner, shown);
    const asked = marks.at(-1)?.at(-1);
    if (asked !== undefined) {
      if (this.#answered.has(asked)) say(`[t${asked}] is answered in two turns`);
      this.#answered.add(asked);
    }
    for (const { callId, text } of shown) {
      if (callId === undefined) continue;
      this.results.set(callId, text);
      const [, id] = /^reported (\S+)$/.exec(text) ?? [];
      if (id !== undefined) this.reported.add(id);
    }
  }

  #answer(shown: readonly Shown[]): Answer {
    const dice = this.#dice;
    const last = shown.at(-1);
    const words = ['so ', 'it ', 'is'];
    const say = (more: Partial<Answer> = {}): Answer => ({ words, calls: [], delayMs: 0, ...more });
    if (last === undefined) return say();
    const work = (): Answer['calls'][number] => {
      const name = dice.chance(0.5) ? 'main_work' : 'thread_work';
      return { id: `c${++this.#calls}`, name, args: {} };
    };
    if (last.role === 'tool') {
      if (this.isCalm) return say();
      return dice.chance(0.2) ? say({ calls: [work()] }) : say({ delayMs: dice.int(10) });
    }
    const own = shown.flatMap(({ role, text }) => (role === 'user' ? marksOf(text) : []));
    const parent = this.#marks.parentOf(this.#marks.ownerOf(own.at(-1) ?? ''));
    const report = (): Answer => {
      const text = `[t${this.#marks.mark(parent)}] say`;
      const args = { text, delivery: dice.pick(DELIVERIES) };
      return say({ calls: [{ id: `c${++this.#calls}`, name: 'report', args }] });
    };
    const [, command] = /\] (\w+)$/.exec(last.text) ?? [];
    if (this.isCalm) return parent !== undefined && command === 'report' ? report() : say();
    // Whatever a child is asked for, it often says so first.
    if (parent !== undefined && dice.chance(0.5)) return report();
    switch (command) {
      case 'work':
        return say({ calls: Array.from({ length: 1 + dice.int(2) }, work) });
      case 'report':
        return report();
      case 'delegate': {
        const args = { description: 'A part of it', prompt: `[t${this.#marks.mark()}] work` };
        return say({ calls: [{ id: `c${++this.#calls}`, name: 'subagent', args }] });
      }
      case 'fail':
        return say({ failure: 'It does not want to.' });
      case 'slow':
        return say({ delayMs: 20 + dice.int(100) });
      default:
        return say({ delayMs: dice.int(20) });
    }
  }
}

const DELIVERIES = ['quiet', 'wakeup', 'next-step'] as const;

function shownInThread({ role, content }: Message): Shown {
  const [first] = content;
  if (first?.type === 'tool-result') {
    return { role: 'tool', text: textIn(first.content), callId: first.toolCallId };
  }
  return { role, text: textIn(content) };
}

function shownOverHttp(message: { readonly role: string; readonly content: unknown }): Shown {
  const { role, content } = message;
  const text = typeof content === 'string' ? content : textIn((content ?? []) as object[]);
  if (role !== 'tool') return { role: role as 'user' | 'assistant', text };
  return { role: 'tool', text, callId: (message as { tool_call_id?: string }).tool_call_id ?? '' };
}

const textIn = (blocks: readonly { readonly text?: string }[] | readonly object[]): string =>
  blocks.map((block) => (block as { text?: string }).text ?? '').join('');
