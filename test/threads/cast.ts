/**
 * Who speaks in the whole conversation, as a model would: each looks for the tool whose description
 * says that it does what is needed, and does next what results and messages say. None of them knows
 * a tool by its name.
 */
import type { Message, ModelRequest, SessionEvent } from '../../dist/src/index.js';
import type { ChatRequest } from '../support/openai-server.ts';
import { until } from '../support/until.ts';

/** What a model sees, however it was asked. */
export interface View {
  readonly tools: readonly { readonly name: string; readonly description: string }[];
  readonly told: readonly { readonly by: 'user' | 'model' | 'tool'; readonly text: string }[];
}
export type Speech =
  | { readonly text: string }
  | { readonly calls: readonly { readonly name: string; readonly arguments: object }[] }
  /** Never says anything. */
  | { readonly silent: true };

const CONTEXT = /^This is (context|a note) from the runtime/;

export function viewOf({ messages, tools = [] }: ModelRequest): View {
  return { tools, told: messages.flatMap(toldBy) };
}
function toldBy({ role, content }: Message): View['told'] {
  // Also of a message without words: what comes after it is news.
  if (role === 'assistant') return [{ by: 'model', text: '' }];
  return content.map((block) => {
    if (block.type !== 'tool-result')
      return { by: 'user', text: 'text' in block ? block.text : '' };
    const text = block.content.map((part) => ('text' in part ? part.text : '')).join('\n');
    return { by: 'tool', text };
  });
}

export function viewOfChat({ messages, tools = [] }: ChatRequest): View {
  return {
    tools: tools.map(({ function: tool }) => tool as View['tools'][number]),
    told: messages.flatMap(({ role, content }): View['told'] => {
      if (role === 'system') return [];
      if (role === 'assistant') return [{ by: 'model', text: '' }];
      const parts = typeof content === 'string' ? [{ text: content }] : content;
      const by = role === 'tool' ? 'tool' : 'user';
      return (parts as readonly { readonly text?: string }[]).map(({ text = '' }) => ({
        by,
        text,
      }));
    }),
  };
}

/** How many turns each has ended, over all the lives of its process. */
export class Turns {
  readonly #ended = new Map<string, number>();
  readonly #roles = new Map<string, string>();

  /** The first thing that a session was told is who it is. */
  note(sessionId: string, event: SessionEvent): void {
    if (event.type === 'user/message' && !this.#roles.has(sessionId)) {
      const [block] = event.data.content;
      this.#roles.set(sessionId, block?.type === 'text' ? block.text : '');
    }
    if (event.type !== 'turn/end') return;
    const role = this.#roles.get(sessionId) ?? '';
    this.#ended.set(role, this.ended(role) + 1);
  }

  ended(role: string): number {
    return this.#ended.get(role) ?? 0;
  }

  after(role: string, count: number): Promise<void> {
    return until(() => this.ended(role) >= count);
  }
}

const WAIT: Speech = { text: 'I go on when the message comes.' };

export async function speak(view: View, turns: Turns): Promise<Speech> {
  const told = view.told.filter(({ text }) => !CONTEXT.test(text));
  const role = told[0]?.text ?? '';
  const part = PARTS[role];
  if (part === undefined) return { text: `I do not know who I am: ${role}` };
  // Since it spoke last: the results of its calls, or what it was told.
  const news = told.slice(told.findLastIndex(({ by }) => by === 'model') + 1);
  const since = told.slice(told.findLastIndex(({ by }) => by !== 'tool') + 1);
  const heard = (since.length > 0 ? since : news).map(({ text }) => text).join('\n');
  const has = (words: RegExp): boolean => words.test(heard);
  const toolThat = (words: RegExp): string => {
    const tool = view.tools.find(({ description }) => words.test(description));
    if (tool === undefined) throw new Error(`No tool says that it does this: ${words.source}`);
    return tool.name;
  };
  if (since.length > 0 && has(/^Error: /)) return { text: heard };
  // Announced, so there is nothing to wait for or to ask.
  if (has(/You will get a message when it has finished/)) return WAIT;
  return part({ told, heard, has, toolThat, turns });
}

interface Scene {
  readonly told: View['told'];
  readonly heard: string;
  has(words: RegExp): boolean;
  toolThat(words: RegExp): string;
  readonly turns: Turns;
}
type Part = (scene: Scene) => Speech | Promise<Speech>;

const DELEGATE = /in the background by default: the call returns the id/;
const TELL_PARENT = /Tell the agent that started you something now/;

const delegation = (name: string, prompt: string) => ({
  name,
  arguments: { description: prompt.toLowerCase(), prompt },
});
const lastLine = (text: string): string => text.trim().split('\n').at(-1) ?? '';

export const PLAN = 'Plan the report.';
export const AGAIN = 'Ask both of them again.';

const PARTS: Readonly<Record<string, Part>> = {
  async [PLAN]({ told, heard, has, toolThat, turns }) {
    if (has(/^Plan the report\.$/)) {
      const start = toolThat(DELEGATE);
      const ask = toolThat(/The answer is JSON/);
      return {
        calls: [
          delegation(start, 'Research.'),
          delegation(start, 'Break.'),
          delegation(ask, 'Measure.'),
        ],
      };
    }
    if (has(/^Ask both of them again\.$/)) {
      const send = toolThat(/one that has finished is brought back/);
      const ids = told.flatMap(({ text }) => /^started subagent (\S+)/.exec(text)?.[1] ?? []);
      return {
        calls: ids.map((id) => ({
          name: send,
          arguments: { subagent_id: id, message: 'Try again.' },
        })),
      };
    }
    if (has(/ failed before it finished/)) return { text: 'I go on without it.' };
    if (has(/reports:/)) {
      await turns.after('Research.', 2);
      const list = toolThat(/deeper ones can only be stopped/);
      return { calls: [{ name: list, arguments: { scope: 'descendants' } }] };
    }
    const running = /^(\S+) \[running\] parent=\S+ depth=2 — dig\.$/m.exec(heard)?.[1];
    if (running !== undefined) {
      const stop = toolThat(/Stop what an agent below you is doing now/);
      return { calls: [{ name: stop, arguments: { agent_id: running } }] };
    }
    if (has(/was told to stop/)) return { text: 'I stopped it.' };
    if (has(/ has finished/)) return { text: `The report: ${lastLine(heard)}` };
    return { text: `Nothing to do with this: ${heard}` };
  },

  async 'Research.'({ told, heard, has, toolThat, turns }) {
    if (has(/^Research\.$/)) return { calls: [delegation(toolThat(DELEGATE), 'Dig.')] };
    if (has(/reports:/)) {
      const output = `The digger says: ${lastLine(heard)}`;
      return { calls: [{ name: toolThat(TELL_PARENT), arguments: { output } }] };
    }
    if (has(/^Delivered/)) return { text: 'It is told.' };
    if (has(/was stopped before it finished/)) {
      await turns.after(PLAN, 3);
      const found = told.findLast(({ text }) => text.includes('so far'))?.text ?? 'nothing';
      return { text: `Found ${found.slice(0, 5)}, without the digger.` };
    }
    await turns.after(PLAN, 5);
    return { text: 'Found no more than before.' };
  },

  async 'Dig.'({ has, toolThat, turns }) {
    if (has(/^Dig\.$/)) {
      await turns.after(PLAN, 2);
      return { calls: [delegation(toolThat(DELEGATE), 'Probe.')] };
    }
    if (has(/ has finished/)) {
      await turns.after('Research.', 1);
      const output = 'Seven so far, and no end in sight.';
      return { calls: [{ name: toolThat(TELL_PARENT), arguments: { output } }] };
    }
    return { silent: true };
  },

  async 'Probe.'({ turns }) {
    await turns.after('Dig.', 1);
    return { text: 'Seven.' };
  },

  async 'Break.'({ has, turns }) {
    if (has(/Try again\.$/)) {
      await turns.after(PLAN, 6);
      return { text: 'Whole again.' };
    }
    await turns.after(PLAN, 1);
    return { calls: [{ name: 'exit', arguments: { code: 3 } }] };
  },

  'Measure.'({ toolThat }) {
    const handIn = toolThat(/Hand in your final result/);
    return { calls: [{ name: handIn, arguments: { words: 6 } }] };
  },
};
