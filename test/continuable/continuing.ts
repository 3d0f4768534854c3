/** Continuable children on a whole harness, and what tests read of them. */
import { textOf } from '../../protocol/content.ts';
import type { MessageSource } from '../../protocol/content.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import type { Hold, ScriptedAnswer } from '../../src/models/scripted.ts';
import type { ContinuableStartSpec } from '../../src/subagents/continuable.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import type { SubagentProvider } from '../../src/subagents/provider.ts';
import type { SubagentRuntime } from '../../src/subagents/runtime.ts';
import { ALL_CAPABILITIES, text } from '../subagents/stubs.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarnessOptions } from '../support/harness.ts';
import { isRuntimeContext } from '../support/told.ts';
import { until } from '../support/until.ts';

export const USER = { kind: 'user' } as const;

export const ID = SessionId('reserved');

/** A provider that answers a preparation as the test says. */
export const preparing = (
  prepareContinuable: NonNullable<SubagentProvider['prepareContinuable']>,
): SubagentProvider => ({
  name: 'preparing',
  capabilities: ALL_CAPABILITIES,
  inheritsParentContext: false,
  start: () => Promise.reject(new Error('No one-shot child was asked for.')),
  prepareContinuable,
});

/** What a start is given besides what it is given anyway. */
export type StartGiven = Partial<Omit<ContinuableStartSpec, 'request'>> & {
  readonly request?: Partial<ContinuableStartSpec['request']>;
};

export function specOf(parent: Agent, { request, ...more }: StartGiven = {}): ContinuableStartSpec {
  return {
    provider: 'spawn',
    label: 'worker',
    signal: new AbortController().signal,
    ...more,
    request: { parent, prompt: [text('Work.')], ...request },
  };
}

interface TellOptions {
  readonly parent?: Agent;
  readonly source?: MessageSource;
  readonly signal?: AbortSignal;
}

/** A harness whose children say "Done." to everything, unless `script` says otherwise. */
export async function continuing(options: TestHarnessOptions = {}) {
  const t = await testHarness({ script: () => 'Done.', ...options });
  const { subagents, agents, sessions } = t.harness;
  const edges: string[] = [];
  t.harness.on('subagent/start', () => edges.push('start'));
  t.harness.on('subagent/end', ({ stopReason }) => edges.push(`end ${stopReason}`));
  return {
    ...t,
    subagents,
    agents,
    sessions,
    /** What was told of delegations. */
    edges,
    start: (given: StartGiven = {}, service: SubagentRuntime = subagents) =>
      service.startContinuable(specOf(t.root, given)),
    tell: (childId: SessionId, words: string, more: TellOptions = {}) =>
      subagents.followup(more.parent ?? t.root, childId, words, {
        source: more.source ?? USER,
        signal: more.signal ?? new AbortController().signal,
      }),
    /** Resolves when the child has left, and its parent has read of it. */
    async gone(childId: SessionId): Promise<void> {
      const starts = edges.filter((edge) => edge === 'start').length;
      await until(
        () =>
          agents.get(childId) === undefined &&
          edges.filter((edge) => edge !== 'start').length === starts,
      );
      await t.root.whenIdle();
    },
    /** The rows of the store. */
    rows: async (): Promise<SessionId[]> =>
      (await t.harness.sessionPersistence.list()).map(({ id }) => id),
    [Symbol.asyncDispose]: () => t[Symbol.asyncDispose](),
  };
}

/** The task that a request is about: what was said last by somebody. */
export const taskOf = ({ messages }: ModelRequest): string => {
  const said = messages.filter((one) => one.role === 'user' && !isRuntimeContext(one));
  return textOf(said.at(-1)?.content ?? []);
};

/** Answers "Done." and holds those of the tasks that have a gate. */
export const holding =
  (holds: Readonly<Record<string, Hold>>) =>
  (request: ModelRequest): ScriptedAnswer => {
    const hold = Object.hasOwn(holds, taskOf(request)) ? holds[taskOf(request)] : undefined;
    return hold === undefined ? 'Done.' : { hold, text: 'Done.' };
  };

/** What was told to an agent, by its log. */
export const told = ({ session }: Agent): string[] =>
  session
    .eventsFrom(session.header.seedLength ?? 0)
    .flatMap((event) =>
      event.type === 'user/message' && !isRuntimeContext(event.data)
        ? [textOf(event.data.content)]
        : [],
    );

/** A harness with a child that failed in its first turn while two messages waited. */
export async function withQueue(
  holds: Parameters<typeof holding>[0] = {},
  store: MemoryStore = new MemoryStore(),
) {
  const hold = gate();
  const t = await continuing({
    store,
    script: (request) =>
      taskOf(request) === 'Fail.'
        ? { hold, throws: new Error('The model broke.') }
        : holding(holds)(request),
  });
  const { childId } = await t.start({ request: { prompt: [text('Fail.')] } });
  await hold.arrived();
  await t.tell(childId, 'One.');
  await t.tell(childId, 'Two.');
  hold.open();
  await t.gone(childId);
  return { ...t, childId, [Symbol.asyncDispose]: () => t[Symbol.asyncDispose]() };
}
