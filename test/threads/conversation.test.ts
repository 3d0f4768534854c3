/**
 * A whole conversation on real threads: three levels of children that work in the background and
 * report, one that is interrupted from two levels above, one whose thread dies, one that hands in a
 * value; then, after a restart, follow-ups to two that had settled. Whoever speaks follows the texts
 * of the tools.
 */
import { describe, expect, it } from 'vitest';
import {
  createHarness,
  createUserMessage,
  installSubagentTools,
  openaiCompatible,
  textOf,
} from '../../dist/src/index.js';
import type { Agent, Harness, ModelSource, SessionEvent, SessionId } from '../../dist/src/index.js';
import { gate, scriptedModel } from '../../dist/src/testing.js';
import { calls, says, startOpenAiServer } from '../support/openai-server.ts';
import type { ServerAnswer } from '../support/openai-server.ts';
import { tempStore } from '../support/temp-store.ts';
import { until } from '../support/until.ts';
import { AGAIN, PLAN, speak, Turns, viewOf, viewOfChat } from './cast.ts';
import { fixture } from './real.ts';

const SCHEMA = {
  type: 'object',
  properties: { words: { type: 'integer' } },
  required: ['words'],
  additionalProperties: false,
} as const;

async function open(path: string, model: ModelSource, turns: Turns): Promise<Harness> {
  const harness = await createHarness({
    store: path,
    models: { cast: model },
    defaultModel: { provider: 'cast', model: 'test' },
    tools: [{ module: fixture('tools.mjs') }],
    workers: { warm: 0 },
  });
  harness.on('session/event', ({ session, event }) => turns.note(session.id, event));
  installSubagentTools(harness, {
    delegation: [
      { provider: 'spawn', backgroundMode: 'continuable' },
      {
        provider: 'spawn',
        toolName: 'measure',
        outputSchema: SCHEMA,
        enableRunInBackground: false,
      },
    ],
  });
  return harness;
}

/** What happened in a log, in the order in which it did. */
function story(events: readonly SessionEvent[]): string[] {
  return events.flatMap((event): string[] => {
    switch (event.type) {
      case 'turn/start':
        return [`turn ${event.data.turn}`];
      case 'user/message':
        return event.data.source.kind === 'plugin' ? [] : [`hears ${event.data.source.kind}`];
      case 'assistant/message': {
        const text = textOf(event.data.message.content);
        return text === '' ? [] : [`says ${text}`];
      }
      case 'tool/call':
        return [`calls ${event.data.name}`];
      case 'tool/result': {
        const [block] = event.data.message.content;
        const isError = block?.type === 'tool-result' && block.isError === true;
        return [isError ? 'fails' : 'gets'];
      }
      case 'turn/end':
        return [`ends ${event.data.reason.kind}`];
      default:
        return [];
    }
  });
}

/** The stories below a root, by what each agent was told first. */
async function stories(harness: Harness, rootId: SessionId): Promise<Record<string, string[]>> {
  const rows = await harness.subagents.listDescendants(rootId);
  const told: Record<string, string[]> = {};
  for (const { id } of rows) {
    const { events } = await harness.sessions.inspect(id);
    const first = events.find(({ type }) => type === 'user/message') as SessionEvent & {
      type: 'user/message';
    };
    told[textOf(first.data.content)] = story(events);
  }
  return told;
}

const ROOT_BEFORE = [
  ...['turn 1', 'hears user', 'calls subagent', 'calls subagent', 'calls measure'],
  ...['gets', 'gets', 'gets', 'says I go on when the message comes.', 'ends completed'],
  ...['turn 2', 'hears subagent-settled', 'says I go on without it.', 'ends completed'],
  ...['turn 3', 'hears subagent-report', 'calls list_agents', 'gets'],
  ...['calls interrupt_agent', 'gets', 'says I stopped it.', 'ends completed'],
  ...['turn 4', 'hears subagent-settled'],
  ...['says The report: Found Seven, without the digger.', 'ends completed'],
];
const ROOT_AFTER = [
  ...['turn 5', 'hears user', 'calls send_message', 'gets', 'calls send_message', 'gets'],
  ...['says I go on when the message comes.', 'ends completed'],
  ...['turn 6', 'hears subagent-settled'],
  ...['says The report: Found no more than before.', 'ends completed'],
  ...['turn 7', 'hears subagent-settled', 'says The report: Whole again.', 'ends completed'],
];
const BELOW_BEFORE = {
  'Research.': [
    ...['turn 1', 'hears user', 'calls subagent', 'gets'],
    ...['says I go on when the message comes.', 'ends completed'],
    ...['turn 2', 'hears subagent-report', 'calls report', 'gets'],
    ...['says It is told.', 'ends completed'],
    ...['turn 3', 'hears subagent-settled'],
    ...['says Found Seven, without the digger.', 'ends completed'],
  ],
  'Dig.': [
    ...['turn 1', 'hears user', 'calls subagent', 'gets'],
    ...['says I go on when the message comes.', 'ends completed'],
    ...['turn 2', 'hears subagent-settled', 'calls report', 'gets', 'ends aborted'],
  ],
  'Probe.': ['turn 1', 'hears user', 'says Seven.', 'ends completed'],
  'Break.': ['turn 1', 'hears user', 'calls exit', 'fails', 'ends error'],
  'Measure.': ['turn 1', 'hears user', 'calls structured_output', 'gets', 'ends completed'],
};
const BELOW_AFTER = {
  ...BELOW_BEFORE,
  'Research.': [
    ...BELOW_BEFORE['Research.'],
    ...['turn 4', 'hears coordinator', 'says Found no more than before.', 'ends completed'],
  ],
  'Break.': [
    ...BELOW_BEFORE['Break.'],
    ...['turn 2', 'hears coordinator', 'says Whole again.', 'ends completed'],
  ],
};

async function converse(model: ModelSource, turns: Turns): Promise<void> {
  await using temp = tempStore();
  const { path } = temp;
  /** Told something, and waited for until nothing below it is live. */
  const tell = async (harness: Harness, root: Agent, text: string, count: number) => {
    root.followup(createUserMessage(text));
    await until(() => turns.ended(PLAN) === count && harness.agents.list().length === 1);
    await root.whenIdle();
  };
  let rootId: SessionId;
  {
    await using harness = await open(path, model, turns);
    const { agent: root } = await harness.agents.create();
    rootId = root.id;
    await tell(harness, root, PLAN, 4);
    expect(story(root.session.events)).toEqual(ROOT_BEFORE);
    expect(await stories(harness, rootId)).toEqual(BELOW_BEFORE);
  }
  await using harness = await open(path, model, turns);
  const { agent: root } = await harness.agents.resume(rootId);
  await tell(harness, root, AGAIN, 7);
  expect(story(root.session.events)).toEqual([...ROOT_BEFORE, ...ROOT_AFTER]);
  expect(await stories(harness, rootId)).toEqual(BELOW_AFTER);
}

describe('a whole conversation', { timeout: 120_000 }, () => {
  it('runs in threads, and goes on after a restart', async () => {
    const turns = new Turns();
    const never = gate();
    const model = scriptedModel(async (request) => {
      const speech = await speak(viewOf(request), turns);
      if ('silent' in speech) return { hold: never, text: '' };
      return 'text' in speech ? speech.text : { toolCalls: speech.calls };
    });
    await converse(model, turns);
  });

  it('runs with a model behind a real endpoint', async () => {
    const turns = new Turns();
    let asked = 0;
    await using server = await startOpenAiServer({
      async respond({ body }): Promise<ServerAnswer> {
        const speech = await speak(viewOfChat(body), turns);
        if ('silent' in speech) return { hang: true };
        if ('text' in speech) return { chunks: says(speech.text) };
        return { chunks: calls(...speech.calls.map((one) => ({ id: `call_${++asked}`, ...one }))) };
      },
    });
    await converse(openaiCompatible({ baseURL: server.url }), turns);
  });
});
