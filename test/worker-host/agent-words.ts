/** Words about one agent, its log and its model, and tools that are in the way. */
import { textOf } from '../../protocol/content.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import type { SessionEventType } from '../../protocol/session-events.ts';
import type { ToolDefinition } from '../../protocol/tool.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { ScriptedModel } from '../../src/models/scripted.ts';
import type { Session } from '../../src/session/session.ts';
import { gate } from '../support/gate.ts';
import type { TestHarness } from '../support/harness.ts';

export const USER = { kind: 'user' } as const;

/** How the turns ended. */
export const ends = (session: Session): string[] =>
  session.events.flatMap((event) => {
    if (event.type !== 'turn/end') return [];
    const { reason } = event.data;
    if (reason.kind === 'error') return [`error ${reason.error.code}`];
    return [reason.kind === 'aborted' ? `aborted ${reason.reason.kind}` : reason.kind];
  });
/** What the user said, as each request showed it. */
export const shown = ({ requests }: ScriptedModel): string[][] =>
  requests.map(({ messages }: ModelRequest) =>
    messages
      .filter(({ role, source }) => role === 'user' && source.kind !== 'tool')
      .map(({ content }) => textOf(content)),
  );
/** What waits in next-step, and in next-turn. */
export const waiting = ({ inbox }: Agent): string[][] => [
  inbox.nextStep.map(({ content }) => textOf(content)),
  inbox.nextTurn.map(({ content }) => textOf(content)),
];
export const has = (session: Session, type: SessionEventType): boolean =>
  session.events.some((event) => event.type === type);

export const saysText = ({ events }: Session): boolean =>
  events.some(({ type, data }) => type === 'assistant/chunk' && data.chunk.type === 'text-delta');

export function statuses(rt: TestHarness, agent = rt.root): string[] {
  const told: string[] = [];
  rt.harness.on('agent/status', ({ status }) => told.push(status), { agent });
  return told;
}

/** A tool on main that is held open, and does not look at its signal. */
export function deafTool(): ToolDefinition<Agent> & { readonly held: ReturnType<typeof gate> } {
  const held = gate();
  return {
    held,
    name: 'deaf',
    description: 'Waits.',
    parameters: { type: 'object' },
    async execute() {
      await held.wait();
      return 'heard';
    },
  };
}
export const callsDeaf = { toolCalls: [{ name: 'deaf', arguments: {} }] };

/** A tool in the thread that is never done, whatever it is told. */
export const endless = {
  tools: [{ module: new URL('file:///endless.mjs') }],
  threads: {
    import: () =>
      Promise.resolve({
        default: {
          name: 'endless',
          description: 'Never done.',
          parameters: { type: 'object' },
          execute: () => new Promise(() => {}),
        },
      }),
  },
};
export const callsEndless = { toolCalls: [{ name: 'endless', arguments: {} }] };

/** Run this so many microtasks from now. */
export function afterMicrotasks(count: number, run: () => void): void {
  if (count === 0) run();
  else queueMicrotask(() => afterMicrotasks(count - 1, run));
}
