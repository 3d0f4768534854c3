/** Ends are bounded and calls are answered, whatever the store does. */
import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { spawn } from '../../src/providers/worker-spawn.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { SilentStore } from '../support/silent-store.ts';
import type { Question } from '../support/silent-store.ts';
import { watchUnhandled } from '../support/unhandled.ts';
import { settled, until } from '../support/until.ts';
import { holding } from './continuing.ts';
import { prompt, signal } from './family.ts';

const unhandled = watchUnhandled();
const STOP_GRACE_MS = 1_000;
/** The stop grace, and the time that a thread and the store have beyond it. */
const BOUND_MS = STOP_GRACE_MS + 3_000;

const built = async () => {
  const store = new SilentStore();
  const clock = new ManualClock();
  const limits = { stopGraceMs: STOP_GRACE_MS };
  const rt = await testHarness({ store, clock, limits, script: () => 'Done.' });
  return { store, clock, rt };
};
const start = (rt: TestHarness, childId?: string) =>
  rt.harness.subagents.startContinuable({
    provider: 'spawn',
    label: 'child',
    ...(childId === undefined ? {} : { childId }),
    request: { parent: rt.root, prompt: prompt('Work.') },
    signal: signal(),
  });
const tell = (rt: TestHarness, id: string) =>
  rt.harness.subagents.followup(rt.root, SessionId(id), prompt('More.'), {
    source: { kind: 'user' },
    signal: signal(),
  });
/** A child that has settled. */
const settledChild = async (rt: TestHarness): Promise<string> => {
  const { childId } = await start(rt);
  await settled();
  await settled();
  expect(rt.harness.agents.get(childId)).toBeUndefined();
  return childId;
};
const codeOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'done',
    ({ code }: HarnessError) => code,
  );
const outcome = (call: Promise<unknown>): { code: string | undefined } => {
  const seen: { code: string | undefined } = { code: undefined };
  void codeOf(call).then((code) => (seen.code = code));
  return seen;
};
/** The time is over, and with it all that comes of that without any more. */
const over = async (clock: ManualClock): Promise<void> => {
  await clock.advance(BOUND_MS);
  for (let times = 0; times < 8; times++) {
    await settled();
    await clock.advance(0);
  }
};
const ENDS = {
  'the harness': (rt: TestHarness) => rt.harness.dispose(),
  'the parent': (rt: TestHarness) => rt.rootHandle.dispose(),
  'a drain': (rt: TestHarness) => rt.harness.subagents.drainContinuableDescendants([rt.root]),
} as const;
const ends = Object.keys(ENDS) as (keyof typeof ENDS)[];

describe.each(ends)('a call that waits for what never answers, when %s ends', (end) => {
  const questions = ['inspect', 'acquire', 'load', 'readFrom', 'prepare'] as const;
  it.each(questions.flatMap((what) => [[what, false] as const, [what, true] as const]))(
    'is told so in that tick, whatever becomes of %s (which fails later: %s)',
    async (what, fails) => {
      const { store, rt } = await built();
      const prepared = gate();
      const late = new StoreError('STORE_IO', 'Too late, and not even well.');
      rt.harness.subagents.registerProvider({
        ...spawn()({ agents: rt.harness.agents }),
        name: 'slow',
        capabilities: { outputSchema: false, depthLimit: true, toolFilter: true, persona: true },
        async prepareContinuable() {
          await prepared.wait();
          if (fails) throw late;
          return {};
        },
      });
      const childId = await settledChild(rt);
      let silent =
        what === 'prepare' ? prepared : store.silence(what === 'load' ? 'acquire' : what);
      const call =
        what === 'readFrom'
          ? start(rt, 'named')
          : what === 'prepare'
            ? rt.harness.subagents.startContinuable({
                provider: 'slow',
                label: 'child',
                request: { parent: rt.root, prompt: prompt('Work.') },
                signal: signal(),
              })
            : tell(rt, childId);
      const told = outcome(call);
      await silent.arrived();
      if (what === 'load') {
        // It was read once, to see whose it is; this is the read by its new owner.
        const owned = silent;
        silent = store.silence('inspect');
        owned.open();
        await silent.arrived();
      }
      const ended = ENDS[end](rt);
      await new Promise((resolve) => setImmediate(resolve));
      expect(told.code).toBe('DRAINING');
      await ended;
      if (fails) store.fails = late;
      silent.open();
      await settled();
      expect(unhandled).toEqual([]);
      const left = end === 'a drain' ? [rt.root] : [];
      expect(rt.harness.agents.list()).toEqual(left);
      expect(rt.harness.sessions.list()).toEqual(left.map(({ session }) => session));
      await rt.harness.dispose();
    },
  );
});

const drainChildren = (rt: TestHarness) => {
  const children = rt.harness.agents.list().filter((agent) => agent !== rt.root);
  return rt.harness.subagents.drainContinuableChildren(
    rt.root,
    children.map(({ id }) => id),
  );
};

describe.each([...Object.entries(ENDS), ['a drain of children', drainChildren] as const])(
  'the end by %s',
  (_, end) => {
    it.each<readonly Question[]>([['append'], ['release'], ['append', 'release', 'close']])(
      'is over in its time although the store is silent on %s',
      async (...questions) => {
        const { store, clock, rt } = await built();
        const childId = await settledChild(rt);
        await tell(rt, childId);
        const silent = store.silence(...questions);
        const ended = outcome(end(rt));
        await settled();
        await over(clock);
        expect(ended.code).toBeDefined();
        silent.open();
        await settled();
        await rt.harness.dispose().catch(() => {});
        await settled();
        expect(rt.harness.agents.list()).toEqual([]);
        expect(rt.harness.sessions.list()).toEqual([]);
        expect(clock.pending).toBe(0);
      },
    );
  },
);

it('says in time that a child could not be brought back, though its lease is not taken back', async () => {
  const { store, clock, rt } = await built();
  const childId = await settledChild(rt);
  rt.harness.subagents.registerContinuableSetup(() => {
    throw new Error('Not this one.');
  });
  const silent = store.silence('release');
  const told = outcome(tell(rt, childId));
  await silent.arrived();
  await over(clock);
  expect(told.code).toBe('NOT_RESUMABLE');
  silent.open();
  await settled();
  await rt.harness.dispose();
});

it('tells a child that is drained, in that tick, that what it waits for is given up', async () => {
  const held = gate();
  const store = new SilentStore();
  await using rt = await testHarness({ store, script: holding({ 'Hold.': held }) });
  const { agents, subagents } = rt.harness;
  const begin = async (parent: Agent, task: string) => {
    const request = { parent, prompt: task };
    const spec = { provider: 'spawn', label: 'child', request, signal: signal() };
    return (await subagents.startContinuable(spec)).childId;
  };
  const id = await begin(rt.root, 'Hold.');
  const child = agents.get(id)!;
  await held.arrived();
  const below = await begin(child, 'Work.');
  await until(() => agents.get(below) === undefined);
  await settled();
  const silent = store.silence('inspect');
  const options = { source: { kind: 'user' }, signal: signal() } as const;
  const told = outcome(subagents.followup(child, below, 'More.', options));
  await silent.arrived();
  const drained = subagents.drainContinuableChildren(rt.root, [id]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(told.code).toBe('ACTIVATION_CLOSING');
  held.open();
  await drained;
  silent.open();
  await settled();
  expect(agents.list()).toEqual([rt.root]);
});

it('says of the harness that its store did not answer', async () => {
  const { store, clock, rt } = await built();
  const silent = store.silence('append', 'close');
  const message = start(rt);
  message.catch(() => {});
  await settled();
  const disposal = rt.harness.dispose();
  const failure = disposal.catch((error: unknown) => error);
  await settled();
  await over(clock);
  expect(String((await failure) as Error)).toMatch(/did not answer/);
  expect(await codeOf(message)).not.toBe('done');
  silent.open();
  await settled();
});
