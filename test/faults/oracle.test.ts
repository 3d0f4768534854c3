import { describe, expect, it } from 'vitest';
import { expectationOf } from './expectation.ts';
import { KINDS, kindOf } from './kinds.ts';
import { allCells, cellsOf, MOMENTS, nameOf, whyNot } from './moments.ts';
import type { Cell } from './moments.ts';
import type { Observation, Probing } from './observation.ts';
import { judge } from './oracle.ts';
import { PARTIAL } from './orders.ts';
import { planOf, shortPlan } from './plan.ts';
import { failureText, Report } from './report.ts';

const cell: Cell = { kind: 'exit-7', moment: 'tool', mode: 'continuable', depth: 1, siblings: 2 };
const notice = {
  by: 'notice',
  stopReason: 'error',
  codes: ['WORKER_EXITED'],
  text: 'Your subagent failed before it finished (WORKER_EXITED: …)',
} as const;
/** A fault that went as it has to. */
const right: Observation = {
  cell,
  injected: 1,
  told: [notice],
  settleMs: 40,
  lifecycle: { starts: 2, ends: 2 },
  log: { turnStarts: 2, turnEnds: 2, lastEnd: 'completed' },
  output: `${PARTIAL}something`,
  parents: [],
  siblings: { wanted: ['11', '12'], got: ['11', '12'] },
  afterwards: 'well',
  left: {},
  findings: [],
  uncaught: [],
  polluted: [],
  accepted: 3,
  kept: 3,
  disposeMs: undefined,
  elapsedMs: 500,
};
const probing: Probing = { asked: 10, unanswered: 0, worstMs: 20 };
const deep: Cell = { ...cell, kind: 'throw-error', moment: 'load', depth: 2, mode: 'one-shot' };

describe('the oracle', () => {
  it('has nothing to say of a fault that went as it has to', () => {
    expect(judge(right, probing)).toEqual([]);
  });

  it.each<[string, Partial<Observation>, RegExp]>([
    ['a fault that did not happen', { injected: 0 }, /did not happen/],
    ['a lost notice', { told: [] }, /never told/],
    ['a doubled notice', { told: [notice, notice] }, /told 2 times/],
    [
      'work that is done though its thread is gone',
      { told: [{ ...notice, stopReason: 'completed' }] },
      /notice says completed, not error/,
    ],
    [
      'a wrong reason',
      { told: [{ ...notice, codes: ['LIMIT_EXCEEDED'] }] },
      /LIMIT_EXCEEDED, not WORKER_EXITED/,
    ],
    ['no reason', { told: [{ ...notice, codes: [] }] }, /no code, not WORKER_EXITED/],
    ['lost words', { output: '' }, /what it had said is lost/],
    ['a late word', { settleMs: 90_000 }, /told 90000 ms after/],
    [
      'a residency without an end',
      { lifecycle: { starts: 2, ends: 1 } },
      /started 2 times and ended 1/,
    ],
    ['an open turn', { log: { turnStarts: 2, turnEnds: 1, lastEnd: '' } }, /2 turns and 1 ends/],
    ['a lost log', { log: undefined }, /has no log/],
    ['a parent that fails with its child', { parents: ['error'] }, /parent came out error/],
    [
      'a sibling with a wrong answer',
      { siblings: { wanted: ['11', '12'], got: ['11', '13'] } },
      /sibling 1 answered "13", not "12"/,
    ],
    [
      'a sibling without an answer',
      { siblings: { wanted: ['11'], got: [] } },
      /sibling 0 answered "nothing"/,
    ],
    [
      'an agent that is of no use afterwards',
      { afterwards: 'it never answers' },
      /afterwards: it never answers/,
    ],
    ['a leaked descriptor', { left: { descriptors: 1 } }, /1 × descriptors left/],
    ['a leaked thread', { left: { threads: 2 } }, /2 × threads left/],
    ['a child process', { left: { 'child processes': 1 } }, /child processes left/],
    ['a damaged log', { findings: ['error broken-log: …'] }, /doctor: error broken-log/],
    ['what nobody caught on main', { uncaught: ['Error: x'] }, /uncaught on main: Error: x/],
    ['a polluted main', { polluted: ['toJSON'] }, /has "toJSON"/],
    ['an accepted message that is lost', { kept: 2 }, /3 messages were accepted, 2 are kept/],
    ['a slow disposal', { disposeMs: 120_000 }, /disposed in 120000 ms/],
  ])('sees %s', (_, doctored, complaint) => {
    const wrong = judge({ ...right, ...doctored }, probing);
    expect(wrong).toEqual([expect.stringMatching(complaint)]);
  });

  it('sees a main that is deaf, and one that does not answer', () => {
    expect(judge(right, { ...probing, worstMs: 25_000 })).toEqual(['main was deaf for 25000 ms']);
    const dead = judge(right, { asked: 9, unanswered: 5, worstMs: 100 });
    expect(dead).toEqual(['main left 5 of 9 probes unanswered']);
  });

  it('sees a child that was refused and is there all the same', () => {
    const told = [
      {
        by: 'tool result',
        stopReason: 'rejected',
        codes: ['WORKER_START_FAILED'],
        text: '',
      } as const,
    ];
    const refused = { ...right, cell: deep, told, log: undefined, output: '' };
    expect(judge(refused, probing)).toEqual([]);
    expect(judge({ ...refused, log: right.log }, probing)).toEqual([
      'it was refused, and has a log',
    ]);
  });

  it('lets a kind that grows slowly miss the time to start, and no other', () => {
    const start = { moment: 'load', mode: 'one-shot', depth: 1, siblings: 0 } as const;
    const codesOf = (kind: string) => expectationOf({ kind, ...start }).codes;
    expect(codesOf('oom-dictionary')).toEqual(['WORKER_OUT_OF_MEMORY', 'WORKER_START_TIMEOUT']);
    expect(codesOf('oom-map')).toEqual(['WORKER_OUT_OF_MEMORY']);
  });

  it('sees a limit that is not kept to, and one that is not named', () => {
    const text = 'LIMIT_EXCEEDED: steps is 4.';
    const told = [{ ...notice, codes: ['LIMIT_EXCEEDED'], text }];
    const limited = { ...right, cell: { ...cell, kind: 'steps-without-end' }, told, injected: 4 };
    expect(judge(limited, probing)).toEqual([]);
    expect(judge({ ...limited, injected: 5 }, probing)).toEqual([
      'it took 5 steps, and 4 are its limit',
    ]);
    const unnamed = { ...limited, told: [{ ...told[0]!, text: 'LIMIT_EXCEEDED: No more.' }] };
    expect(judge(unnamed, probing)).toEqual([
      'its notice does not name steps: LIMIT_EXCEEDED: No more.',
    ]);
  });

  it('passes over what a degraded process may spoil, and over nothing else', () => {
    const left = { 'child processes': 1 };
    const told = [{ ...notice, codes: ['LIMIT_EXCEEDED'], text: 'turnMs' }];
    const spoilt = { ...right, cell: { ...cell, kind: 'subprocess-left' }, told, left };
    expect(judge(spoilt, probing)).toEqual([]);
    const more = { ...spoilt, left: { ...left, descriptors: 1 } };
    expect(judge(more, probing)).toEqual(['1 × descriptors left']);
  });
});

describe('the matrix', () => {
  it('says of every kind at every moment that it is played there, or why not', () => {
    for (const kind of KINDS) {
      for (const moment of MOMENTS) {
        const isPlayed = cellsOf(kind, moment).length > 0;
        expect([kind.name, moment, isPlayed]).toEqual([
          kind.name,
          moment,
          whyNot(kind, moment) === undefined,
        ]);
      }
    }
  });

  it('names each kind once, with an end wherever it is not contained', () => {
    expect(new Set(KINDS.map(({ name }) => name)).size).toBe(KINDS.length);
    for (const { name, fault, ends } of KINDS) {
      expect([name, ends !== undefined]).toEqual([name, fault === 'not contained']);
    }
  });

  it('expects something of every cell, and a code wherever something fails', () => {
    for (const one of allCells()) {
      const { stopReasons, codes } = expectationOf(one);
      const isFailure = stopReasons.includes('error') || stopReasons.includes('rejected');
      const needsCode = isFailure && kindOf(one.kind).effect !== 'thrown';
      const isComplete = stopReasons.length > 0 && (!needsCode || codes.length > 0);
      expect([nameOf(one), isComplete]).toEqual([nameOf(one), true]);
    }
  });

  it('is met by a short plan with every contained kind, and by a long one with every moment', () => {
    const contained = KINDS.filter(({ fault }) => fault === 'contained').map(({ name }) => name);
    expect(shortPlan().map(({ kind }) => kind)).toEqual(contained);
    const plan = planOf({ faults: 2_000, seed: 1 });
    expect(new Set(plan.map(({ moment }) => moment))).toEqual(new Set(MOMENTS));
    expect(new Set(plan.map(({ depth }) => depth))).toEqual(new Set([0, 1, 2, 3]));
    const playable = KINDS.filter(({ fault }) => fault !== 'not contained');
    expect(new Set(plan.map(({ kind }) => kind)).size).toBe(playable.length);
    expect(planOf({ faults: 2_000, seed: 1 })).toEqual(plan);
  });
});

describe('the report', () => {
  const outcome = { number: 1, cell, wrong: [], seen: right, probing };

  it('is clean when every fault was contained and every ground went when it was asked', () => {
    const report = new Report();
    report.add(outcome);
    report.addEnd({ code: 0, stderr: '', disposeMs: 5 });
    expect(report.isClean).toBe(true);
    report.addEnd({ hangs: true, stderr: '', disposeMs: 5 });
    expect(report.isClean).toBe(false);
    expect(report.figures()['wedged exits']).toBe(1);
  });

  it('counts what is lost, and names what plays it again', () => {
    const report = new Report();
    const lost = { ...right, told: [], kept: 1, siblings: { wanted: ['1', '2'], got: ['1'] } };
    report.add({ ...outcome, seen: lost, wrong: ['its end was never told'] });
    report.add({ ...outcome, seen: undefined, wrong: ['The ground died'] });
    expect(report.figures()).toMatchObject({
      faults: 2,
      'crashes of main': 1,
      'sibling results lost or wrong': 1,
      'accepted messages lost': 2,
      unsettled: 1,
    });
    const [first] = report.failures;
    expect(failureText(first!, 7)).toContain('KIND=exit-7 MOMENT=tool MODE=continuable DEPTH=1');
  });
});
