/** Stored sessions are listed without their logs, as far as what is kept beside them tells. */
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Harness } from '../../src/harness.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';
import type { SessionPersistence } from '../../src/session/store.ts';
import { boardOf } from '../../src/serve/board.ts';
import { headerOf, listRows } from '../../src/serve/rows.ts';
import type { SessionRow } from '../../src/serve/operation-map.ts';
import { testHarness } from '../support/harness.ts';
import { served, tempFolder } from './served.ts';

const list = (harness: Harness, rootId?: string) =>
  listRows(boardOf(harness), rootId, new AbortController().signal);

/** A store that tells whose logs were read as a whole. */
function watched(path: string, without: readonly (keyof SessionPersistence)[] = []) {
  const whole: string[] = [];
  const store = openSqliteStore({ path });
  const inspected = new Set<PropertyKey>(['inspect', 'inspectPacked']);
  const shown = new Proxy<SessionPersistence>(store, {
    get(target, name) {
      if (without.includes(name as keyof SessionPersistence)) return undefined;
      const found: unknown = Reflect.get(target, name, target);
      if (typeof found !== 'function') return found;
      return (id: string, ...more: unknown[]): unknown => {
        if (inspected.has(name)) whole.push(id);
        return Reflect.apply(found, target, [id, ...more]);
      };
    },
  });
  return { store: shown, whole };
}

/** A root that worked, and children of it that are settled. */
async function family(path: string): Promise<readonly SessionRow[]> {
  await using t = await testHarness({ store: path, script: () => 'First.\nSecond.' });
  await t.ask('Go');
  const ended = { count: 0 };
  t.harness.on('subagent/end', () => void ended.count++);
  for (const label of ['one', 'two']) {
    const request = { parent: t.root, prompt: label };
    const { signal } = new AbortController();
    await t.harness.subagents.startContinuable({ provider: 'spawn', label, request, signal });
  }
  while (ended.count < 2) await new Promise((done) => setImmediate(done));
  await t.root.whenIdle();
  return (await list(t.harness)).rows;
}

const event = (seq: number, type: string, data: object): SessionEvent =>
  ({ type, seq, time: 1_000 + seq, data }) as unknown as SessionEvent;

describe('stored sessions', () => {
  it('are listed as they were when they were live, without a log being read', async () => {
    using temp = tempFolder();
    const path = join(temp.folder, 'agents.db');
    const live = await family(path);
    const { store, whole } = watched(path);
    await using t = await testHarness({ store });
    const { rows, diagnostics } = await list(t.harness, live[0]?.id);
    expect(whole).toEqual([]);
    expect(diagnostics).toEqual([]);
    expect(rows.map(({ label, lastLine, reason }) => ({ label, lastLine, reason }))).toEqual([
      { label: undefined, lastLine: 'Second.', reason: 'completed' },
      { label: 'one', lastLine: 'Second.', reason: 'completed' },
      { label: 'two', lastLine: 'Second.', reason: 'completed' },
    ]);
    const durations = (all: readonly SessionRow[]) => all.map(({ id, workedMs }) => [id, workedMs]);
    expect(durations(rows)).toEqual(durations(live));
  });

  it('are listed the same from their logs, where nothing is kept beside them', async () => {
    using temp = tempFolder();
    const path = join(temp.folder, 'agents.db');
    const [root] = await family(path);
    const kept = watched(path);
    const { rows } = await (async () => {
      await using t = await testHarness({ store: kept.store });
      return await list(t.harness, root?.id);
    })();
    const bare = watched(path, ['checkpoints', 'outlineBelow', 'headerOf']);
    await using t = await testHarness({ store: bare.store });
    expect((await list(t.harness, root?.id)).rows).toEqual(rows);
    expect(new Set(bare.whole)).toEqual(new Set(rows.map(({ id }) => id)));
  });

  it('show what was appended after what is kept beside their logs', async () => {
    using temp = tempFolder();
    const path = join(temp.folder, 'agents.db');
    const [root] = await family(path);
    const id = SessionId(root?.id ?? '');
    {
      const store = openSqliteStore({ path });
      const { epoch } = await store.acquire(id);
      const { events } = await store.inspect(id);
      const from = events.length;
      await store.append([
        {
          id,
          epoch,
          events: [
            event(from, 'turn/start', { turn: 2 }),
            event(from + 1, 'turn/end', { turn: 2, reason: { kind: 'max-tokens' } }),
          ],
        },
      ]);
      await store.close();
    }
    const { store, whole } = watched(path);
    await using t = await testHarness({ store });
    const [row] = (await list(t.harness, id)).rows;
    expect(row).toMatchObject({ reason: 'max-tokens', failure: { code: 'MAX_TOKENS' } });
    expect(whole).toEqual([]);
  });

  it('show what closes a turn that a crash cut off', async () => {
    using temp = tempFolder();
    const path = join(temp.folder, 'agents.db');
    const [root] = await family(path);
    const id = SessionId(root?.id ?? '');
    {
      const store = openSqliteStore({ path });
      const { epoch } = await store.acquire(id);
      const { events } = await store.inspect(id);
      const cut = event(events.length, 'turn/start', { turn: 2 });
      await store.append([{ id, epoch, events: [cut] }]);
      await store.close();
    }
    const { store, whole } = watched(path);
    await using t = await testHarness({ store });
    const [row] = (await list(t.harness, id)).rows;
    expect(row).toMatchObject({ status: 'settled', reason: 'interrupted' });
    expect(row).not.toHaveProperty('workingSince');
    expect(whole).toEqual([id]);
  });

  it('show nothing of the log that they began with', async () => {
    using temp = tempFolder();
    const path = join(temp.folder, 'agents.db');
    const id = SessionId('fork');
    const seed = [
      event(0, 'subagent/descriptor', {
        version: 1,
        mode: 'continuable',
        provider: 'spawn',
        label: 'above',
      }),
      event(1, 'turn/start', { turn: 1 }),
      event(2, 'turn/end', { turn: 1, reason: { kind: 'completed' } }),
    ];
    {
      const store = openSqliteStore({ path });
      const header = { version: 0, id, createdAt: 1, origin: 'subagent', seedLength: 3 } as const;
      const val = { mode: 'continuable', label: 'above', seq: 0 } as const;
      const summary = { workedMs: 1, reason: 'completed', line: 'Of above.', hasWritten: true };
      const rows = { subagent: { ver: 2, val }, sessionSummary: { ver: 1, val: summary } };
      await store.append([{ id, epoch: 1, header, events: seed, checkpoint: { seq: 2, rows } }]);
      await store.close();
    }
    await using t = await testHarness({ store: openSqliteStore({ path }) });
    const [row] = (await list(t.harness, id)).rows;
    expect(row).toEqual({
      id,
      depth: 0,
      mode: 'one-shot',
      live: false,
      createdAt: 1,
      workedMs: 0,
      status: 'settled',
    });
  });
});

it('finds a session without its log', async () => {
  using temp = tempFolder();
  const path = join(temp.folder, 'agents.db');
  const live = await family(path);
  const { store, whole } = watched(path);
  await using t = await testHarness({ store });
  const { signal } = new AbortController();
  const header = await headerOf(store, SessionId(live[1]?.id ?? ''), signal);
  expect(header?.parentSession).toBe(live[0]?.id);
  expect(await headerOf(store, SessionId('none'), signal)).toBeUndefined();
  expect(whole).toEqual([]);
  void t;
});

it('lets many read with one signal, and no warning comes of it', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  await using s = await served();
  const { sessionPersistence: store } = s.t.harness;
  for (let number = 0; number < 40; number++) {
    const id = SessionId(`s${number}`);
    const header = { version: 0, id, createdAt: number } as const;
    await store.append([{ id, epoch: 1, header, events: [] }]);
  }
  expect((await s.client.call('session/list', {})).rows).toHaveLength(41);
  const reading = Array.from({ length: 20 }, () => s.client.follow('s1', { forever: true }));
  const read = Promise.all(reading.map((events) => events.next()));
  const { signal } = new AbortController();
  await listRows(boardOf(s.t.harness), undefined, signal);
  // A warning is told in a later turn of the loop.
  await new Promise((done) => setImmediate(done));
  expect(warnings).toEqual([]);
  await s.client.close();
  await read.catch(() => {});
});
