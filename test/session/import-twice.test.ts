import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import type { SqliteStore } from '../../src/session/sqlite-store.ts';
import { gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import type { TempStore } from '../support/temp-store.ts';
import { tempStore } from '../support/temp-store.ts';
import { a, codeOf } from './watched-store.ts';
import { b, someLines } from './lines.ts';

/** Sessions of another process, as far as the file can tell: another handle is another owner. */
function another(files: TempStore): { store: SqliteStore; sessions: Sessions } {
  const store = files.open();
  const sessions = new Sessions({ store, clock: new ManualClock(), logger: silentLogger });
  return { store, sessions };
}

/** Lines that stop, after so many, until they may go on or break. */
function held(lines: readonly string[], count: number) {
  const [begun, goOn] = [gate(), gate()];
  const slowly = async function* (): AsyncGenerator<string> {
    yield* lines.slice(0, count);
    begun.open();
    await goOn.wait();
    yield* lines.slice(count);
  };
  return { lines: slowly(), begun, goOn };
}

/** Lines of `a` are 1 to 4, those of `b` the rest. */
const A_IS_WRITTEN = 5;

async function idsIn(files: TempStore): Promise<readonly string[]> {
  return (await files.store.list()).map(({ id }) => id);
}

describe('the same lines, imported by two processes at once', () => {
  it('are not taken for imported while the first can still take them back', async () => {
    await using files = tempStore();
    const lines = await someLines();
    const [one, other] = [another(files), another(files)];
    const first = held(lines, A_IS_WRITTEN);
    const enough = new AbortController();
    const importing = one.sessions.importLines(first.lines, { signal: enough.signal });
    await first.begun.wait();
    const refused = other.sessions.importLines(lines);
    await expect(refused).rejects.toThrow(/`a` is held by process/);
    expect(await codeOf(refused)).toBe('SESSION_OWNED_ELSEWHERE');
    enough.abort(new Error('Enough.'));
    first.goOn.open();
    await expect(importing).rejects.toThrow('Enough.');
    expect(await idsIn(files)).toEqual([]);
    // Now that nobody holds any of it, the same works.
    expect((await other.sessions.importLines(lines)).size).toBe(2);
    expect(await idsIn(files)).toEqual([a, b]);
  });

  it('stay with the first when the second comes to them later', async () => {
    await using files = tempStore();
    const lines = await someLines();
    const [one, other] = [another(files), another(files)];
    const [first, second] = [held(lines, A_IS_WRITTEN), held(lines, 1)];
    const importing = one.sessions.importLines(first.lines);
    const later = codeOf(other.sessions.importLines(second.lines));
    await first.begun.wait();
    await second.begun.wait();
    second.goOn.open();
    expect(await later).toBe('SESSION_OWNED_ELSEWHERE');
    first.goOn.open();
    expect((await importing).size).toBe(2);
    expect(await idsIn(files)).toEqual([a, b]);
  });

  it('cannot be removed before the import that found them there has resolved', async () => {
    await using files = tempStore();
    const lines = await someLines();
    const [one, other] = [another(files), another(files)];
    await one.sessions.importLines(lines);
    const second = held(lines, A_IS_WRITTEN);
    const importing = other.sessions.importLines(second.lines);
    await second.begun.wait();
    expect(await codeOf(one.sessions.remove(a))).toBe('SESSION_OWNED_ELSEWHERE');
    second.goOn.open();
    expect((await importing).size).toBe(2);
    // It holds nothing any more, and neither does one that failed.
    expect(await codeOf(other.sessions.importLines([...lines, '{']))).toBe('INVALID_ARGUMENT');
    expect(await one.sessions.remove(a, { below: false })).toEqual([a]);
    expect(await idsIn(files)).toEqual([b]);
  });

  it('are written when the first takes them back in that very moment', async () => {
    await using files = tempStore();
    const lines = await someLines();
    const { store, sessions } = another(files);
    await sessions.importLines(lines);
    const acquire = store.acquire.bind(store);
    const spy = vi.spyOn(store, 'acquire').mockImplementationOnce(async (id) => {
      await files.store.delete([a, b]);
      return acquire(id);
    });
    onTestFinished(() => spy.mockRestore());
    expect((await sessions.importLines(lines)).size).toBe(2);
    expect(await idsIn(files)).toEqual([a, b]);
  });

  it('are left to whoever took them over from a process that stood still', async () => {
    await using files = tempStore();
    const lines = await someLines();
    const { store, sessions } = another(files);
    const renew = vi.spyOn(store, 'renew').mockImplementation(async (ids) => {
      if (ids.includes(a)) throw new StoreError('STALE_EPOCH', 'It is not held here.');
    });
    onTestFinished(() => renew.mockRestore());
    expect(await codeOf(sessions.importLines([...lines, '{']))).toBe('INVALID_ARGUMENT');
    expect(await idsIn(files)).toEqual([a]);
  });
});

it('lines that this process reads already are refused until that has ended', async () => {
  await using files = tempStore();
  const lines = await someLines();
  const { sessions } = another(files);
  const first = held(lines, A_IS_WRITTEN);
  const importing = codeOf(sessions.importLines(first.lines));
  await first.begun.wait();
  expect(await codeOf(sessions.importLines(lines))).toBe('INVALID_ARGUMENT');
  first.goOn.open();
  await importing;
  expect(await idsIn(files)).toEqual([a, b]);
  expect((await sessions.importLines(lines)).size).toBe(2);
});
