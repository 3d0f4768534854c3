/** What stands in the logs when models use the tools: whole runs, event by event. */
import { describe, expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { gate } from '../../src/base/gate.ts';
import { until } from '../support/until.ts';
import {
  call,
  continuable,
  delegate,
  heard,
  lastText,
  oneShot,
  quiet,
  results,
  startedId,
  talking,
} from './talking.ts';
import type { Talking } from './talking.ts';

const types = (events: readonly SessionEvent[]): string[] =>
  events.map(({ type }) => type).filter((type) => type !== 'assistant/chunk');

/** The stored log of the one child of the root. */
async function childLog({ rt, root }: Talking): Promise<readonly SessionEvent[]> {
  const [row] = await rt.harness.subagents.listChildren(root.id);
  return (await rt.harness.sessions.inspect(row!.id)).events;
}

describe('an assembled delegation', () => {
  it('that waits is a call and its result in the parent, and a descriptor in the turn of the child', async () => {
    await using t = await talking([delegate(), 'Done.'], ['Six words.'], { delegation: [oneShot] });
    await t.rt.ask('Begin.');
    const log = types(t.root.session.events);
    expect(log.filter((type) => type.startsWith('tool/'))).toEqual(['tool/call', 'tool/result']);
    expect(types(await childLog(t)).slice(0, 5)).toEqual([
      'agent/inbox/spliced',
      'turn/start',
      'agent/inbox/spliced',
      'subagent/descriptor',
      'step/start',
    ]);
  });

  it('of a child that goes on says who the child is before it is told anything', async () => {
    await using t = await talking([delegate(), 'Wait.', 'Done.'], ['Six words.']);
    await t.rt.ask('Begin.');
    await quiet(t);
    expect(types(await childLog(t)).slice(0, 4)).toEqual([
      'subagent/descriptor',
      'session/end-seed',
      'agent/inbox/spliced',
      'turn/start',
    ]);
  });

  it('overlaps with another of the same message', async () => {
    const both = gate();
    await using t = await talking(
      [{ toolCalls: [...delegate().toolCalls!, ...delegate().toolCalls!] }, 'Done.'],
      async () => {
        // Each answers once the other has asked, too.
        if (t.childModel.requests.length === 2) both.open();
        return { hold: both, text: 'Six words.' };
      },
      { delegation: [oneShot] },
    );
    await t.rt.ask('Begin.');
    expect(types(t.root.session.events).filter((type) => type.startsWith('tool/'))).toEqual([
      'tool/call',
      'tool/call',
      'tool/result',
      'tool/result',
    ]);
  });

  it('gets its messages in order, and a failure of its last turn is told as no final answer', async () => {
    let id = '';
    const held = gate();
    await using t = await talking(
      [
        delegate(),
        (request) => {
          id = startedId(lastText(request));
          return {
            toolCalls: ['One more.', 'And another.']
              .map((message) => ({
                name: 'send_message',
                arguments: { subagent_id: id, message },
              }))
              .concat([
                { name: 'send_message', arguments: { subagent_id: 'nobody', message: 'Hello?' } },
              ]),
          };
        },
        () => {
          held.open();
          return 'I go on when it comes.';
        },
        'It failed.',
      ],
      [{ hold: held, text: 'First.' }, 'Second.', { failure: { code: 'AUTH', message: 'no key' } }],
    );
    await t.rt.ask('Begin.');
    await until(() => heard(t.root).length === 2);
    await quiet(t);
    expect(results(t.root).map(({ isError }) => isError)).toEqual([false, false, false, true]);
    const { events } = await t.rt.harness.sessions.inspect(SessionId(id));
    const told = events.flatMap((event) =>
      event.type === 'user/message' && event.data.source.kind !== 'plugin'
        ? [textOf(event.data.content)]
        : [],
    );
    expect(told).toEqual(['Count them.', 'One more.', 'And another.']);
    const notice = lastText(t.rt.model.requests.at(-1)!);
    expect(notice).toMatch(/failed before it finished \(AUTH: no key\)/);
    expect(notice).toMatch(/not a final answer|no closing message/);
  });

  it('that has settled is listed as ready, and nothing happens to it when it is interrupted', async () => {
    await using t = await talking(
      [
        delegate(),
        'I go on when it comes.',
        call('list_agents', { scope: 'descendants' }),
        (request) =>
          call('interrupt_agent', { agent_id: lastText(request).split(' ')[0] ?? 'none' }),
        'Done.',
      ],
      ['Six words.'],
    );
    await t.rt.ask('Begin.');
    await until(() => results(t.root).length === 3 && t.root.status === 'idle');
    await quiet(t);
    const [, listed, interrupted] = results(t.root);
    expect(listed?.text).toMatch(/^\S+ \[ready\] parent=\S+ depth=1 — count the words$/);
    expect(interrupted).toMatchObject({ isError: false });
    expect(types(await childLog(t)).filter((type) => type === 'turn/start')).toHaveLength(1);
  });

  it('ends at the depth limit with words for the one who is too deep, and all finish', async () => {
    await using t = await talking(
      [delegate(), 'Done.'],
      [delegate(), delegate(), 'I did it myself.', 'It did it itself.'],
      { delegation: [oneShot] },
      { limits: { maxDepth: 2 } },
    );
    await t.rt.ask('Begin.');
    expect(results(t.root)).toEqual([{ text: 'It did it itself.', isError: false }]);
    expect(t.childModel.requests.map(lastText)[2]).toMatch(
      /at depth 3, and 2 is the limit\. Do the task yourself\.$/,
    );
  });

  it('in the background is heard of without a report and without polling', async () => {
    await using t = await talking(
      [delegate(), 'I go on when it comes.', (request) => lastText(request).split('\n').at(-1)!],
      ['Six words.'],
      { delegation: [continuable], report: false },
    );
    await t.rt.ask('Begin.');
    await until(() => heard(t.root).length === 2);
    await quiet(t);
    expect(results(t.root)).toHaveLength(1);
    expect(textOf(t.root.session.deriveMessages().at(-1)!.content)).toBe('Six words.');
  });
});
