/** Continuable children of one harness, and a model that does what the newest message asks for. */
import { textOf } from '../../protocol/content.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import type { Gate } from '../../src/base/gate.ts';
import type { ScriptedAnswer } from '../../src/models/scripted.ts';
import type { ContinuableStartSpec } from '../../src/subagents/continuable.ts';
import { isRuntimeContext } from '../support/told.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness, TestHarnessOptions } from '../support/harness.ts';
import { USER } from '../worker-host/agent-words.ts';

export const signal = (): AbortSignal => new AbortController().signal;
export const prompt = (text: string) => [{ type: 'text' as const, text }];

export interface Family {
  readonly rt: TestHarness;
  /** Whoever is told `Hold.` waits here. */
  readonly held: Gate;
  /** What was told of delegations and agents, in order: `start b`, `end b completed`, `gone b`. */
  readonly told: string[];
  start(name: string, parent?: Agent, more?: StartMore): Promise<Agent>;
  tell(parent: Agent, childId: SessionId, text: string): Promise<{ messageId: MessageId }>;
  isResident(...agents: Agent[]): boolean;
}

interface StartMore extends Partial<Omit<ContinuableStartSpec, 'request'>> {
  readonly text?: string;
  readonly request?: Partial<ContinuableStartSpec['request']>;
}

const newest = ({ messages }: ModelRequest): string =>
  textOf(messages.findLast((message) => !isRuntimeContext(message))?.content ?? []);

/** `Hold.` is held, `Call x.` calls the tool x, a notice is noted, anything else is repeated. */
export async function family(
  options: Omit<TestHarnessOptions, 'script'> = {},
): Promise<Family & AsyncDisposable> {
  const held = gate();
  const rt = await testHarness({
    ...options,
    limits: { maxDepth: 9, ...options.limits },
    script: (request): ScriptedAnswer => {
      const text = newest(request);
      if (text.startsWith('Hold')) return { hold: held, text };
      const [, tool] = /^Call (\w+)\./.exec(text) ?? [];
      if (tool !== undefined) return { toolCalls: [{ name: tool, arguments: {} }] };
      return text.startsWith('Your subagent') ? 'Noted.' : `Did ${text}`;
    },
  });
  const { harness } = rt;
  const told: string[] = [];
  harness.on('subagent/start', ({ id }) => told.push(`start ${id}`));
  harness.on('subagent/end', ({ id, stopReason }) => told.push(`end ${id} ${stopReason}`));
  harness.on('agent/disposed', ({ agent }) =>
    told.push(`gone ${agent === rt.root ? 'root' : agent.id}`),
  );
  return {
    rt,
    held,
    told,
    async start(name, parent = rt.root, { text = 'Work.', request, ...more } = {}) {
      const { childId } = await harness.subagents.startContinuable({
        provider: 'spawn',
        label: name,
        childId: name,
        signal: signal(),
        ...more,
        request: { parent, prompt: prompt(text), ...request },
      });
      const agent = harness.agents.get(childId);
      if (agent === undefined) throw new Error(`The child ${name} is gone already.`);
      return agent;
    },
    tell: (parent, childId, text) =>
      harness.subagents.followup(parent, childId, prompt(text), { source: USER, signal: signal() }),
    isResident: (...agents) => agents.every((agent) => harness.agents.get(agent.id) === agent),
    [Symbol.asyncDispose]: () => rt[Symbol.asyncDispose](),
  };
}

/** A chain below the root: each is the child of the one before, and is held in its turn. */
export async function chain(of: Family, length: number, text = 'Hold.'): Promise<Agent[]> {
  const agents: Agent[] = [];
  for (let at = 1; at <= length; at++) {
    agents.push(await of.start(`c${at}`, agents.at(-1), { text }));
  }
  return agents;
}
