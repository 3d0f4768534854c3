/**
 * The program that is killed: a harness over one file, driven by lines of JSON on its standard
 * input. It keeps no record of its own; whoever drives it does. It waits to be told which file.
 */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import {
  createHarness,
  createUserMessage,
  openaiCompatible,
  subagentTool,
} from '../../../dist/src/index.js';
import { note, work } from './modules.mjs';
import { arm } from './trap.mjs';

let store;
let url;
let file;
const out = (line) => writeSync(1, `${JSON.stringify(line)}\n`);

const module = new URL('modules.mjs', import.meta.url);
/** One for each call: who waits on one signal with many others is warned of. */
const unaborted = () => new AbortController().signal;
const source = { kind: 'user' };
let harness;
let handles;

async function open(where) {
  ({ store, url, file } = where);
  handles = new Map();
  harness = await createHarness({
    store,
    durability: 'full',
    models: {
      remote: openaiCompatible({ baseURL: `${url}/v1` }),
      thread: { module, options: { kind: 'model', url } },
    },
    defaultModel: { provider: 'remote', model: 'm' },
    tools: [
      {
        name: 'main_work',
        description: 'Works on main.',
        parameters: { type: 'object' },
        execute: (_, { callId }) => work({ url, file, callId, where: 'main' }),
      },
      { module, options: { kind: 'tool', url, file } },
    ],
    workers: { warm: 0 },
    limits: { interruptGraceMs: 500, stopGraceMs: 500 },
  });
  harness.tools.register(subagentTool(harness.subagents, { provider: 'spawn' }));
  let steps = 0;
  // Of every other step the messages are claimed in a transaction before that of the step.
  harness.hooks.on('agent/pre-step', async (_, next) => {
    if (++steps % 2 === 0) await pause(5);
    return next();
  });
  harness.subagents.registerContinuableSetup(({ tools }) =>
    tools.register({
      name: 'report',
      description: 'Tells the parent something.',
      parameters: { type: 'object' },
      async execute({ text, delivery }, { agent, signal: cut }) {
        const options = { delivery, signal: cut };
        const { messageId } = await harness.subagents.reportFrom(agent, text, options);
        note(file, 'reported', messageId, agent.session.header.parentSession);
        return `reported ${messageId}`;
      },
    }),
  );
}

function live(id) {
  const agent = harness.agents.get(id);
  if (agent === undefined) throw Object.assign(new Error('It is not live.'), { code: 'NOT_LIVE' });
  return agent;
}

const operations = {
  open,
  arm,
  async create({ provider }) {
    const handle = await harness.agents.create({ agentOptions: { provider, model: 'm' } });
    handles.set(handle.agent.id, handle);
    return handle.agent.id;
  },
  async host({ id }) {
    const handle = await harness.agents.createHost({
      ...(id === undefined ? {} : { sessionId: id }),
      async onMessage(batch) {
        for (const message of batch) note(file, 'host', message.id);
      },
    });
    handles.set(handle.agent.id, handle);
    return handle.agent.id;
  },
  async resume({ id, provider }) {
    const agentOptions = { provider, model: 'm' };
    handles.set(id, await harness.agents.resume(id, { agentOptions }));
  },
  async tell({ id, how, text }) {
    const agent = live(id);
    const message = createUserMessage(text);
    agent[how](message);
    await harness.sessions.flush(agent.session);
    return message.id;
  },
  start: ({ parent, provider, model, text }) =>
    harness.subagents.startContinuable({
      provider,
      // Without its mark: the label stands in what the parent is told.
      label: text.replace(/^\[\w+\] /, 'to '),
      request: {
        parent: live(parent),
        prompt: [{ type: 'text', text }],
        agentOptions: { provider: model, model: 'm' },
      },
      signal: unaborted(),
    }),
  followup: ({ parent, id, text }) =>
    harness.subagents.followup(live(parent), id, text, { source, signal: unaborted() }),
  interrupt: ({ parent, id }) =>
    harness.subagents.interrupt(id, { kind: 'ancestor', agent: live(parent) }),
  cancel: ({ id, keepInbox }) => live(id).cancel({ kind: 'user' }, { keepInbox }),
  drain: ({ parent }) => harness.subagents.drainContinuableDescendants([live(parent)]),
  async once({ parent, model, text }) {
    const run = await harness.subagents.start('spawn', {
      parent: live(parent),
      prompt: [{ type: 'text', text }],
      agentOptions: { provider: model, model: 'm' },
      signal: unaborted(),
    });
    const { stopReason } = await run.result;
    await run.dispose();
    return stopReason;
  },
  /** End an agent and open it again: what waited for it is thrown away. */
  async reopen({ id, isHost, provider }) {
    const handle = handles.get(id);
    if (handle === undefined) live('');
    handles.delete(id);
    await handle.dispose();
    await (isHost ? operations.host({ id }) : operations.resume({ id, provider }));
  },
  /** Until nobody has anything to do: children settle, and their parents hear of it. */
  async quiet() {
    for (;;) {
      const agents = harness.agents.list();
      await Promise.all(agents.map((agent) => agent.whenIdle()));
      const left = harness.agents.list();
      const isSame = left.length === agents.length && left.every((one, at) => one === agents[at]);
      if (isSame && left.every(({ id, status }) => handles.has(id) && status === 'idle')) return;
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  },
  /** Close the harness, open another one, its agents and their children, and tell nobody anything. */
  async again({ roots, children, times, ...where }) {
    for (let time = 0; time < times; time++) {
      await open(where);
      for (const { id, isHost, provider } of roots) {
        await (isHost ? operations.host({ id }) : operations.resume({ id, provider }));
      }
      for (const id of children) {
        const session = await harness.sessions.load(id);
        harness.sessions.enter(session);
        await harness.sessions.leave(session);
      }
      await harness.dispose();
    }
  },
  dispose: () => harness.dispose(),
};

out({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const { n, op, args } = JSON.parse(line);
  Promise.resolve()
    .then(() => operations[op](args))
    .then(
      (value) => out({ n, value }),
      (error) => out({ n, error: { code: error?.code, message: String(error?.stack ?? error) } }),
    );
}
process.exit();
