import { expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import { testHarness } from '../support/harness.ts';
import { counter } from './projection-parts.ts';
import { codeOf } from './watched-store.ts';

it('reads what is shown of a session by its id, live and then stored, and wakes nobody', async () => {
  await using t = await testHarness({ script: ['Done.'] });
  const { sessionProjections: projections, sessions } = t.harness;
  projections.register(counter('told', 'user/message'));
  await t.ask('Go on.');
  const { id, session } = t.root;
  const live = await projections.read(id);
  expect(live).toEqual({ header: session.header, values: projections.snapshot(session).values });
  expect(live.values['told']).toBe(1);
  await t.rootHandle.dispose();
  expect(await projections.read(id)).toEqual(live);
  expect(sessions.list()).toEqual([]);
  expect(await codeOf(projections.read(SessionId('none')))).toBe('SESSION_NOT_FOUND');
  const reason = new Error('Enough.');
  await expect(projections.read(id, AbortSignal.abort(reason))).rejects.toBe(reason);
});

it('has one code for all that is asked of sessions after the end of the harness', async () => {
  const t = await testHarness({ script: ['Done.'] });
  const { sessionProjections: projections, sessions } = t.harness;
  await t.ask('Go on.');
  const { id, session } = t.root;
  await t[Symbol.asyncDispose]();
  const asked = [
    () => sessions.inspect(id),
    () => sessions.isStored(id),
    () => sessions.load(id),
    () => sessions.remove(id),
    () => sessions.vacuum(),
    () => sessions.importLines([]),
    async () => sessions.exportLines([id]),
    async () => sessions.follow(id),
    async () => sessions.prepare(),
    async () => sessions.enter(session),
    async () => sessions.flush(session),
    () => projections.read(id),
  ];
  const codes = await Promise.all(asked.map((ask) => codeOf(ask())));
  expect(new Set(codes)).toEqual(new Set(['INVALID_ARGUMENT']));
});
