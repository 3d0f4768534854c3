import { describe, expect, it } from 'vitest';
import { RunId, SessionId } from '../../protocol/ids.ts';
import { LifecycleChecker, watchInvariants } from '../../src/subagents/invariants.ts';
import type { SubagentRunEndInfo, SubagentRunInfo } from '../../src/subagents/lifecycle.ts';
import { spawning } from './spawning.ts';
import { completed, stubProvider, stubRun, testRuntime } from './stubs.ts';

const info: SubagentRunInfo = {
  runId: RunId('r1'),
  provider: 'spawn',
  id: SessionId('c1'),
  local: true,
};
const end = (more: Partial<SubagentRunEndInfo> = {}): SubagentRunEndInfo => ({
  ...info,
  stopReason: 'completed',
  ...more,
});
const named = (name: string) => stubProvider({ name }).provider;

const rulesOf = (tell: (checker: LifecycleChecker) => void): string[] => {
  const checker = new LifecycleChecker(['spawn']);
  tell(checker);
  return checker.violations.map(({ rule }) => rule);
};

describe('the checker of lifecycles', () => {
  it('finds nothing wrong with starts and ends, also of a provider that is gone', () => {
    const rules = rulesOf((checker) => {
      checker.added(named('fork'));
      checker.started(info);
      checker.removed('spawn');
      checker.ended(end());
      // The same child again, in a later life.
      checker.started({ ...info, runId: RunId('r2') });
      checker.ended(end({ runId: RunId('r2'), stopReason: 'aborted' }));
      checker.added(named('spawn'));
      expect(checker.open).toEqual([]);
    });
    expect(rules).toEqual([]);
  });

  it.each<[string, string, (checker: LifecycleChecker) => void]>([
    [
      'a provider without a name',
      'provider-without-name',
      (checker) => checker.added({ ...named('x'), name: '' }),
    ],
    [
      'a provider that is there already',
      'provider-added-twice',
      (checker) => checker.added(named('spawn')),
    ],
    [
      'the removal of a provider that never was',
      'unknown-provider-removed',
      (checker) => checker.removed('fork'),
    ],
    [
      'a second removal',
      'unknown-provider-removed',
      (checker) => {
        checker.removed('spawn');
        checker.removed('spawn');
      },
    ],
    [
      'a start without a run id',
      'start-without-identity',
      (checker) => checker.started({ ...info, runId: RunId('') }),
    ],
    [
      'a start without a provider',
      'start-without-identity',
      (checker) => checker.started({ ...info, provider: '' }),
    ],
    [
      'a start without a child',
      'start-without-identity',
      (checker) => checker.started({ ...info, id: undefined as never }),
    ],
    [
      'a second start of an open run',
      'run-id-used-twice',
      (checker) => {
        checker.started(info);
        checker.started({ ...info, id: SessionId('c2') });
      },
    ],
    [
      'a second start of a run that ended',
      'run-id-used-twice',
      (checker) => {
        checker.started(info);
        checker.ended(end());
        checker.started(info);
      },
    ],
    ['an end without a start', 'end-without-start', (checker) => checker.ended(end())],
    [
      'a second end',
      'end-without-start',
      (checker) => {
        checker.started(info);
        checker.ended(end());
        checker.ended(end());
      },
    ],
    ...(
      [
        ['provider', { provider: 'fork' }],
        ['id', { id: SessionId('c2') }],
        ['local', { local: false }],
      ] as const
    ).map(([part, more]): [string, string, (checker: LifecycleChecker) => void] => [
      `an end with another ${part}`,
      'end-of-another',
      (checker) => {
        checker.started(info);
        checker.ended(end(more));
      },
    ]),
  ])('finds %s', (_, rule, tell) => {
    expect(rulesOf(tell)).toEqual([rule]);
  });

  it('says in words what it found, whatever it is', () => {
    const checker = new LifecycleChecker();
    checker.started(info);
    checker.ended(end({ local: false, id: Symbol('odd') as never }));
    expect(checker.violations.map(({ message }) => message)).toEqual([
      'The run "r1" was started with "c1" as its id and ended with Symbol(odd).',
      'The run "r1" was started with true as its local and ended with false.',
    ]);
  });
});

describe('watching the invariants of a service', () => {
  it('knows who was there before, who came, who went and what is open', async () => {
    const { subagents, request } = testRuntime();
    const { run, settle } = stubRun();
    const { provider } = stubProvider({ start: async () => run });
    const withdraw = subagents.registerProvider(provider);
    const watch = watchInvariants({ subagents });
    await subagents.start('stub', request());
    expect(watch.open).toMatchObject([{ id: 'child', provider: 'stub' }]);
    withdraw();
    settle(completed());
    await run.result;
    await Promise.resolve();
    expect(watch).toMatchObject({ open: [], violations: [] });
  });

  it('does not hold a registration against the next one that a listener took back', async () => {
    const { subagents } = testRuntime();
    const watch = watchInvariants({ subagents });
    const off = subagents.on('subagent/provider-added', () => {
      throw new Error('not this one');
    });
    expect(() => subagents.registerProvider(stubProvider({}).provider)).toThrow();
    off();
    await Promise.resolve();
    subagents.registerProvider(stubProvider({}).provider);
    expect(watch.violations).toEqual([]);
  });

  it('looks no further once it is disposed', async () => {
    const { subagents, request } = testRuntime();
    const watch = watchInvariants({ subagents });
    watch.dispose();
    watch.dispose();
    subagents.registerProvider(stubProvider({}).provider);
    await subagents.start('stub', request());
    expect(watch.open).toEqual([]);
  });
});

it('fails the test whose harness is disposed with a run that never ended', async () => {
  const left = await spawning({ providers: [stubProvider({}).provider], provider: 'stub' });
  await left.start();
  await expect(left[Symbol.asyncDispose]()).rejects.toThrow(/The run "[\w-]+" never ended/);
});
