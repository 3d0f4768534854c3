import { describe, expect, it } from 'vitest';
import { SubagentError } from '../../protocol/errors.ts';
import { gate } from '../../src/base/gate.ts';
import { reportSetup } from '../../src/subagent-tools/report.ts';
import { rejection } from '../subagents/stubs.ts';
import { until } from '../support/until.ts';
import {
  call,
  CHILD,
  continuable,
  delegate,
  heard,
  lastText,
  oneShot,
  quiet,
  talking,
} from './talking.ts';

const namesOf = (request: { readonly tools?: readonly { readonly name: string }[] }): string[] =>
  (request.tools ?? []).map(({ name }) => name);

describe('the tool report', () => {
  it('is shown to children that go on, and to nobody else', async () => {
    await using t = await talking(
      [delegate({ run_in_background: false }), delegate(), 'I go on when it comes.', 'Done.'],
      ['One-shot.', 'Continuable.'],
      { delegation: [{ ...continuable, toolFilter: { deny: ['send_message'] } }] },
    );
    await t.rt.ask('Begin.');
    await quiet(t);
    const [answer, goesOn] = t.childModel.requests;
    expect(namesOf(t.rt.model.requests[0]!)).not.toContain('report');
    expect(namesOf(answer!)).not.toContain('report');
    expect(namesOf(goesOn!)).toContain('report');
    // It comes through the filter of the child, which takes what it takes.
    expect(namesOf(goesOn!)).not.toContain('send_message');
    const report = goesOn!.tools!.find(({ name }) => name === 'report')!;
    expect(Object.keys(report.parameters['properties'] as object)).toEqual(['output']);
    expect(goesOn!.system).toMatch(/hear from you before you are finished/);
    expect(answer!.system ?? '').not.toMatch(/hear from you/);
  });

  it('hands its words to the parent, which hears of the end in any case', async () => {
    const held = gate();
    await using t = await talking(
      [delegate(), 'I go on when it comes.', 'Heard.', 'Done.'],
      [call('report', { output: 'It begins with five.' }), { hold: held, text: 'Six words.' }],
    );
    await t.rt.ask('Begin.');
    await until(() => heard(t.root).length === 2);
    await t.root.whenIdle();
    expect(lastText(t.rt.model.requests.at(-1)!)).toMatch(/reports:\n\nIt begins with five\.$/);
    expect(t.childModel.requests.map(lastText).at(-1)).toMatch(/^Delivered/);
    held.open();
    await until(() => heard(t.root).length === 3);
    await quiet(t);
    expect(heard(t.root)).toEqual([['user'], ['subagent-report'], ['subagent-settled']]);
  });

  it('is nothing that a child has to use: no answer becomes a report, or a job', async () => {
    await using t = await talking([delegate(), 'I go on when it comes.', 'Done.'], ['Six words.']);
    await t.rt.ask('Begin.');
    await until(() => heard(t.root).length === 2);
    await quiet(t);
    expect(heard(t.root)).toEqual([['user'], ['subagent-settled']]);
    expect(t.rt.harness.jobs.list(t.root)).toEqual([]);
  });

  it('joins the open turn of its parent when it is delivered so', async () => {
    const held = gate();
    await using t = await talking(
      [delegate(), { hold: held, text: 'Busy.' }, 'Heard.', 'Done.'],
      [call('report', { output: 'It begins with five.' }), 'Six words.'],
      { delegation: [continuable], report: { delivery: 'next-step' } },
    );
    const asked = t.rt.ask('Begin.');
    await held.arrived();
    await until(() => t.root.inbox.nextStep.length > 0);
    held.open();
    await asked;
    await quiet(t);
    expect(heard(t.root)[0]?.slice(0, 2)).toEqual(['user', 'subagent-report']);
  });

  it('is not there when it is switched off, or no child goes on', async () => {
    await using off = await talking([delegate(), 'Wait.', 'Done.'], ['Six words.'], {
      delegation: [continuable],
      report: false,
    });
    await off.rt.ask('Begin.');
    await quiet(off);
    expect(namesOf(off.childModel.requests[0]!)).not.toContain('report');
    await using none = await talking([delegate(), 'Done.'], ['Six words.'], {
      delegation: [oneShot],
    });
    await none.rt.ask('Begin.');
    expect(namesOf(none.rt.model.requests[0]!)).toEqual(['job_kill', 'job_output', 'subagent']);
  });

  it('leaves a child with its section, whatever one of the two does', async () => {
    const left: string[] = [];
    const contribution = reportSetup({} as never);
    const undo = contribution({
      tools: {
        register: () => () => {
          left.push('tool');
          throw new Error('the tool stays');
        },
      },
      prompt: { section: () => () => void left.push('section') },
    } as never);
    expect(undo).toThrow(SubagentError);
    expect(left).toEqual(['tool', 'section']);
  });

  it('is built wholly or not at all, and tells both failures', async () => {
    const build = async (withdraw: () => void) =>
      reportSetup({} as never)({
        tools: {
          register() {
            throw new Error('no place for the tool');
          },
        },
        prompt: { section: () => withdraw },
      } as never);
    let withdrawn = 0;
    const alone = await rejection(build(() => void withdrawn++));
    expect([withdrawn, (alone as Error).message]).toEqual([1, 'no place for the tool']);
    const both = await rejection(
      build(() => {
        throw new Error('no way back');
      }),
    );
    expect((both as Error).message).toMatch(/no place for the tool; no way back/);
  });

  it('says what to do with words that cannot be handed over', async () => {
    await using t = await talking([], ['Six words.']);
    let tool: { execute(args: object, context: object): Promise<unknown> } | undefined;
    reportSetup(t.rt.harness.subagents)({
      tools: { register: (given: never) => ((tool = given), () => {}) },
      prompt: { section: () => () => {} },
    } as never);
    const { signal } = new AbortController();
    const failed = await rejection(tool!.execute({ output: 'Hello?' }, { agent: t.root, signal }));
    expect((failed as Error).message).toMatch(/^The report failed\.[^]*your last message\.$/);
    expect(CHILD.provider).toBe('child');
  });
});
