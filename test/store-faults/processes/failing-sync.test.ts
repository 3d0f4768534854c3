/**
 * A disk that takes what is written and does not say that it has it. Made with a few lines of C
 * between the store and the kernel; skipped where nothing compiles them.
 */
import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { SessionId } from '../../../protocol/ids.ts';
import { header, inStep, userMessage } from '../../session/log-parts.ts';
import { tempStore } from '../../support/temp-store.ts';
import { storeProcess } from './child.ts';

const source = fileURLToPath(new URL('./failing-sync.c', import.meta.url));
const hasCompiler = process.platform === 'linux' && spawnSync('cc', ['--version']).status === 0;

const a = SessionId('a');
const log = inStep();
while (log.seq < 40) log.append('user/message', userMessage('x'.repeat(3_000)));
const { events } = log;
const creation = (id: string, length: number) => ({
  id,
  epoch: 1,
  header: header(id),
  events: events.slice(0, length),
});

async function withFailing() {
  const t = tempStore();
  const library = join(t.folder, 'failing-sync.so');
  const mark = join(t.folder, 'fails');
  const made = spawnSync('cc', ['-shared', '-fPIC', '-o', library, source, '-ldl']);
  if (made.status !== 0) throw new Error(String(made.stderr));
  const wrap = ['env', `LD_PRELOAD=${library}`, `FAIL_SYNC=${mark}`];
  const owner = await storeProcess(t.path, {}, { wrap });
  await owner.call('open');
  await owner.call('append', [creation('a', 2)]);
  return {
    ...t,
    owner,
    fail: () => writeFileSync(mark, ''),
    heal: () => rmSync(mark),
    async [Symbol.asyncDispose]() {
      await owner[Symbol.asyncDispose]();
      await t[Symbol.asyncDispose]();
    },
  };
}

describe.skipIf(!hasCompiler)('a commit whose fsync fails', () => {
  it.each([
    ['a small session', [creation('b', 1)]],
    ['a large one', [creation('b', 40)]],
    ['an event', [{ id: a, epoch: 1, events: events.slice(2, 3) }]],
    ['many events and a session', [{ id: a, epoch: 1, events: events.slice(2) }, creation('b', 30)]],
  ])('is refused, and is not there after a kill: %s', async (_, batch) => {
    await using t = await withFailing();
    t.fail();
    expect(await t.owner.reply('append', batch)).toMatchObject({
      error: { code: 'STORE_IO', message: expect.stringMatching(/the disk failed\.$/) as string },
    });
    await t.owner.kill();
    await t.store.close();
    const again = t.open();
    expect((await again.list()).map(({ id }) => id)).toEqual(['a']);
    expect((await again.inspect(a)).events).toEqual(events.slice(0, 2));
    await again.acquire(a);
  });

  it('can be made again once the disk is well', async () => {
    await using t = await withFailing();
    const batch = [{ id: a, epoch: 1, events: events.slice(2) }, creation('b', 30)];
    t.fail();
    expect(await t.owner.reply('append', batch)).toMatchObject({ error: { code: 'STORE_IO' } });
    t.heal();
    await t.owner.call('append', batch);
    await t.owner.kill();
    await t.store.close();
    const again = t.open();
    expect((await again.inspect(a)).events).toEqual(events);
    expect((await again.inspect(SessionId('b'))).events).toEqual(events.slice(0, 30));
  });
}); // prettier-ignore
