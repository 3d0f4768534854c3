/** What is played on every plane, with the same logs each time. */
import type { CancelCause, SessionEvent } from '../../protocol/session-events.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { HostTool } from '../../src/tools/registry.ts';
import { gate } from './gate.ts';
import { brings, HELD } from './plane.ts';
import type { Library, Plane, PlannedAnswer, Scenario } from './plane.ts';

const call = (name: string, args: object | string = {}) => ({ name, arguments: args });
const asks = (name: 'child' | 'grandchild', prompt = 'Work.'): PlannedAnswer => ({
  text: `I ask the ${name}.`,
  toolCalls: [call(`ask_${name}`, { description: 'Some work', prompt })],
});
const usage = { inputTokens: 3, outputTokens: 5, reasoningTokens: 1 };
const moduleTools = { module: new URL('../threads/fixtures/plane-tools.mjs', import.meta.url) };

/** Tools of main; `pair` overlaps with another `pair`, and waits until both have begun. */
function hostTools(library: Library): HostTool[] {
  const both = gate();
  let begun = 0;
  const tool = (name: string, more: Partial<HostTool> & Pick<HostTool, 'execute'>): HostTool => ({
    name,
    description: `The tool ${name}.`,
    parameters: { type: 'object' },
    ...more,
  });
  return [
    tool('look', { execute: (args) => ({ seen: args['at'] ?? null }) }),
    tool('pair', {
      isConcurrencySafe: () => true,
      async execute(args) {
        if (++begun === 2) both.open();
        await both.wait();
        return `pair ${String(args['n'])}`;
      },
    }),
    tool('fail', {
      execute() {
        throw Object.assign(new RangeError('No such row.'), { code: 'E_ROW' });
      },
    }),
    tool('strict', {
      parameters: {
        type: 'object',
        properties: { n: { type: 'integer' } },
        required: ['n'],
        additionalProperties: false,
      },
      execute: (args) => args,
    }),
    tool('slow', { timeoutMs: 1, execute: (_, { signal }) => untilAborted(signal) }),
    tool('wait', { execute: (_, { signal }) => untilAborted(signal) }),
    tool('remember', {
      execute(args, context) {
        context.deferContext(library.createUserMessage(`Remember ${String(args['what'])}.`));
      },
    }),
    tool('conclude', {
      execute(_, context) {
        context.concludeTurn();
        return 'That was all.';
      },
    }),
    tool('steer', {
      execute(args, context) {
        const { agent } = context as { agent: unknown } as { agent: Agent };
        agent.steer(library.createUserMessage('Steered.'));
        agent.inject(library.createUserMessage('By the way.'));
        agent.followup(library.createUserMessage('And then?'));
        return args;
      },
    }),
  ];
}

const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });

const isCallOf =
  (name: string) =>
  (event: SessionEvent): boolean =>
    event.type === 'tool/call' && event.data.name === name;

/** A one-shot child whose caller aborts at an event, or right after its tick. */
const abortedAt =
  (isIt: (event: SessionEvent) => boolean, when: 'in its tick' | 'after it' = 'in its tick') =>
  async (plane: Plane): Promise<unknown> => {
    const controller = new AbortController();
    plane.once(isIt, () => {
      if (when === 'in its tick') controller.abort();
      else setImmediate(() => controller.abort());
    });
    return plane.run({ signal: controller.signal });
  };

/** The root's turn, cancelled in the tick of an event. */
const cancelledAt =
  (isIt: (event: SessionEvent) => boolean, cause: CancelCause) =>
  async (plane: Plane): Promise<void> => {
    plane.once(isIt, () => plane.root.cancel(cause));
    await plane.ask('Go.');
  };

const startsStep: (event: SessionEvent) => boolean = ({ type }) => type === 'step/start';

export const scenarios: readonly Scenario[] = [
  {
    name: 'a child that answers',
    models: { parent: [asks('child'), 'Thanks.'], child: [{ text: ['It ', 'is ', 'done.'] }] },
    play: (plane) => plane.ask('Go.'),
  },
  {
    name: 'a child of a child',
    models: {
      parent: [asks('child'), 'Thanks.'],
      child: [asks('grandchild'), 'It is done, by another.'],
      grandchild: [{ reasoning: 'Well.', text: 'It is done.', usage }],
    },
    play: (plane) => plane.ask('Go.'),
  },
  {
    name: 'two children one after the other',
    models: { parent: [], child: ['Done.'], grandchild: ['Done, too.'] },
    async play(plane) {
      const agentOptions = { provider: 'grandchild', model: 'other', maxTokens: 9 };
      return [
        await plane.run({ label: 'The first' }),
        await plane.run({ label: 'The second', agentOptions }),
      ];
    },
  },
  {
    name: 'calls one after the other',
    models: {
      parent: [],
      child: [
        { text: 'I look.', toolCalls: [call('look', { at: 1 }), call('look', { at: 2 })], usage },
        { toolCalls: [call('look', '')] },
        { text: 'Seen.', usage },
      ],
    },
    tools: hostTools,
    play: (plane) => plane.run(),
  },
  {
    name: 'calls that overlap, between calls that do not',
    models: {
      parent: [],
      child: [
        {
          toolCalls: [
            call('look', { at: 1 }),
            call('pair', { n: 1 }),
            call('pair', { n: 2 }),
            call('look', { at: 2 }),
          ],
        },
        'Seen.',
      ],
    },
    tools: hostTools,
    play: (plane) => plane.run(),
  },
  {
    name: 'calls that fail, each in its way',
    models: {
      parent: [],
      child: [
        {
          toolCalls: [
            call('fail'),
            call('no_such_tool', { a: 1 }),
            call('strict', { n: 'one' }),
            call('strict', 'no JSON'),
            call('slow'),
          ],
        },
        'None of them worked.',
      ],
    },
    tools: hostTools,
    play: (plane) => plane.run(),
  },
  {
    name: 'a call that adds context, and one that concludes the turn',
    models: {
      parent: [],
      child: [
        { toolCalls: [call('remember', { what: 'this' }), call('remember', { what: 'that' })] },
        { text: 'I conclude.', toolCalls: [call('conclude')] },
      ],
    },
    tools: hostTools,
    play: (plane) => plane.run(),
  },
  {
    name: 'calls of a module',
    models: {
      parent: [asks('child'), 'Thanks.'],
      child: [
        { toolCalls: [call('square', { n: 7 }), call('module_fail'), call('module_slow')] },
        { toolCalls: [call('module_pair', { n: 1 }), call('module_pair', { n: 2 })] },
        { toolCalls: [call('module_remember', { what: 'this' })] },
        { toolCalls: [call('module_conclude')] },
      ],
    },
    tools: () => [moduleTools],
    play: (plane) => plane.ask('Go.'),
  },
  {
    name: 'a request that succeeds when it is made again',
    models: {
      parent: [],
      child: [
        { text: 'Half an', failure: { code: 'SERVER', message: 'Try again.', status: 503 } },
        { failure: { code: 'SERVER', message: 'And again.' } },
        'At last.',
      ],
    },
    play: (plane) => plane.run(),
  },
  {
    name: 'a request that fails for good',
    models: {
      parent: [asks('child'), 'What a pity.'],
      child: [{ text: 'Half an', failure: { code: 'AUTH', message: 'No key.', status: 401 } }],
    },
    play: (plane) => plane.ask('Go.'),
  },
  {
    name: 'an answer that is cut off',
    models: {
      parent: [],
      child: [
        { text: 'Once upon', toolCalls: [call('look', '{"at": ')], finish: 'max-tokens', usage },
      ],
    },
    tools: hostTools,
    play: (plane) => plane.run(),
  },
  {
    name: 'an abort in the tick of a visible part',
    models: { parent: [], child: [{ reasoning: 'Hm.', text: ['Seen ', 'so far', HELD, 'never'] }] },
    play: abortedAt(brings('so far')),
  },
  {
    name: 'an abort after a visible part',
    models: { parent: [], child: [{ text: ['Seen ', 'so far', HELD, 'never'] }] },
    play: abortedAt(brings('so far'), 'after it'),
  },
  {
    name: 'an abort before anything is visible',
    models: { parent: [], child: [{ hold: HELD, text: 'Never.' }] },
    play: abortedAt(({ type }) => type === 'request/context', 'after it'),
  },
  {
    name: 'an abort as the turn starts',
    models: { parent: [], child: ['Never.'] },
    play: abortedAt(({ type }) => type === 'turn/start'),
  },
  {
    name: 'an abort as the step starts',
    models: { parent: [], child: ['Never.'] },
    play: abortedAt(startsStep),
  },
  {
    name: 'an abort while a call runs',
    models: { parent: [], child: [{ toolCalls: [call('wait'), call('look')] }] },
    tools: hostTools,
    play: abortedAt(isCallOf('wait'), 'after it'),
  },
  {
    name: 'a run that is disposed in the middle',
    models: { parent: [], child: [{ text: ['Seen', HELD] }] },
    async play(plane) {
      const run = await plane.start();
      await new Promise<void>((resolve) => plane.once(brings('Seen'), () => setImmediate(resolve)));
      await run.dispose();
      return run.result;
    },
  },
  {
    name: 'a root that is cancelled while its child streams',
    models: { parent: [asks('child'), 'Never.'], child: [{ text: ['Seen', HELD] }] },
    play: cancelledAt(brings('Seen'), { kind: 'user' }),
  },
  {
    name: 'a root that is cancelled as its own call starts',
    models: { parent: [{ toolCalls: [call('wait')] }, 'Never.'] },
    tools: hostTools,
    play: cancelledAt(isCallOf('wait'), { kind: 'hook', reason: 'Enough.' }),
  },
  {
    name: 'messages that wait, and one that joins the running turn',
    models: {
      parent: ['One.', { toolCalls: [call('steer')] }, 'Two, steered.', 'Then three.'],
    },
    tools: hostTools,
    async play({ root, library }) {
      root.followup(library.createUserMessage('First.'));
      root.followup(library.createUserMessage('Second.'));
      root.inject(library.createUserMessage('Aside.'));
      await root.whenIdle();
    },
  },
  {
    name: 'a persona, and tools that are filtered',
    models: {
      parent: [],
      child: [{ toolCalls: [call('look'), call('strict', { n: 1 })] }, 'I see.'],
    },
    tools: hostTools,
    play: (plane) =>
      plane.run({ persona: 'You are a {{model}}.', toolFilter: { allow: ['strict', 'fail'] } }),
  },
  {
    name: 'a structured result, after an invalid one',
    models: {
      parent: [],
      child: [
        { text: 'Here.', toolCalls: [call('structured_output', { count: 'two' })] },
        { toolCalls: [call('structured_output', { count: 2 }), call('look')] },
      ],
    },
    tools: hostTools,
    play: (plane) =>
      plane.run({
        outputSchema: {
          type: 'object',
          properties: { count: { type: 'integer' } },
          required: ['count'],
        },
      }),
  },
  {
    name: 'a prompt that a hook refuses',
    models: { parent: [], child: ['Never.'] },
    play(plane) {
      plane.harness.hooks.on('agent/pre-step', () => ({ kind: 'reject', reason: 'Not that.' }));
      return plane.run();
    },
  },
  {
    name: 'hooks that change what is said and called',
    models: { parent: [], child: [{ toolCalls: [call('look'), call('strict', { n: 1 })] }, 'So.'] },
    tools: hostTools,
    play(plane) {
      const { hooks } = plane.harness;
      const hint = plane.library.createUserMessage('A hint.');
      hooks.on('agent/pre-step', async (_, next) => {
        const decision = await next();
        if (decision.kind === 'reject') return decision;
        return { kind: 'enter', messages: [...decision.messages, hint] };
      });
      hooks.on('tool/pre-execute', ({ name }) =>
        name === 'look' ? { kind: 'deny', reason: 'Do not look.' } : undefined,
      );
      hooks.on('tool/post-execute', ({ name }) =>
        name === 'strict'
          ? { kind: 'accept', content: [{ type: 'text', text: 'Another result.' }] }
          : undefined,
      );
      return plane.run();
    },
  },
  {
    name: 'a fork of two finished turns',
    models: {
      parent: ['One.', { toolCalls: [call('look')] }, 'Two.'],
      child: [{ toolCalls: [call('look', { at: 3 })] }, 'Three.'],
    },
    tools: hostTools,
    async play(plane) {
      await plane.ask('First.');
      await plane.ask('Second.');
      return plane.run({}, 'fork');
    },
  },
];
