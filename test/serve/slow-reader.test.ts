/** A reader that does not read holds nobody up, and nothing is queued for it without bound. */
import { expect, it, vi } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import { Operations } from '../../src/serve/operations.ts';
import { paramsText } from '../../src/serve/rendered.ts';
import type { Tell } from '../../src/serve/tell.ts';
import { testHarness } from '../support/harness.ts';
import { externalProvider } from './external.ts';

const LONG = Array.from({ length: 1_500 }, (_, index) => `${index} `);

/** Takes one notification, and the next when it is let. */
function slow(): {
  readonly tell: Tell;
  readonly told: string[];
  readonly held: ReturnType<typeof gate>;
} {
  const told: string[] = [];
  const held = gate();
  return {
    told,
    held,
    tell: async (name, params) => {
      const { event } = params as { event?: { type?: string } };
      told.push(event?.type ?? name);
      await held.wait();
    },
  };
}

it('is given one event of a log at a time', async () => {
  await using t = await testHarness({ script: [{ text: LONG }] });
  const { tell, told, held } = slow();
  const operations = new Operations({ harness: t.harness }, tell, () => {});
  await t.ask('Go');
  await operations.call('session/follow', { sessionId: t.root.id });
  await held.arrived();
  for (let turn = 0; turn < 50; turn++) await new Promise((done) => setImmediate(done));
  expect(told).toEqual(['agent/inbox/spliced']);
  const closing = operations.close();
  held.open();
  await closing;
});

it('is shown the tree again when it is too far behind, and then told of what comes', async () => {
  await using t = await testHarness({ script: [{ text: LONG }, 'Two.'] });
  const { tell, told, held } = slow();
  const operations = new Operations({ harness: t.harness }, tell, () => {});
  await operations.call('tree/watch', {});
  await held.arrived();
  await t.ask('Go');
  expect(told).toEqual(['tree.snapshot']);
  held.open();
  while (told.length < 3) await new Promise((done) => setImmediate(done));
  expect(told).toEqual(['tree.snapshot', 'tree.overflow', 'tree.snapshot']);
  await t.ask('Again');
  while (told.at(-1) !== 'session/status') await new Promise((done) => setImmediate(done));
  expect(told[3]).toBe('session/event');
  await operations.close();
});

it('is one of many who watch, for whom what happens is found out and rendered once', async () => {
  await using t = await testHarness({ script: [{ text: LONG }] });
  const events: unknown[][] = [];
  const stringify = vi.spyOn(JSON, 'stringify');
  const connections = [0, 1, 2].map((index) => {
    const seen: unknown[] = (events[index] = []);
    return new Operations(
      { harness: t.harness },
      async (name, params) => {
        const text = paramsText(name, params);
        if (name !== 'tree.event') return;
        expect(JSON.parse(text)).toEqual(params);
        seen.push((params as { event: unknown }).event);
      },
      () => {},
    );
  });
  for (const each of connections) await each.call('tree/watch', {});
  stringify.mockClear();
  await t.ask('Go');
  const isEnd = (event: unknown): boolean =>
    (event as { event?: { type: string } }).event?.type === 'turn/end';
  while (!events.every((seen) => seen.some(isEnd))) {
    await new Promise((done) => setImmediate(done));
  }
  const [first = []] = events;
  const rendered = stringify.mock.calls.filter(([value]) => value === first[0]);
  stringify.mockRestore();
  expect(rendered).toHaveLength(1);
  for (const seen of events) expect(seen.every((event, at) => event === first[at])).toBe(true);
  for (const each of connections) await each.close();
});

it('sees a run of another process below its parent, for as long as it lasts', async () => {
  await using t = await testHarness();
  const external = externalProvider();
  t.harness.subagents.registerProvider(external.provider);
  const { tell } = slow();
  const operations = new Operations({ harness: t.harness }, tell, () => {});
  // Whoever watches before it begins sees it; nothing of it is stored.
  await operations.call('session/list', {});
  const { signal } = new AbortController();
  const request = { parent: t.root, label: 'far', prompt: 'Go.', signal };
  const run = await t.harness.subagents.start('external', request);
  const { rows } = await operations.call('session/list', { rootId: t.root.id });
  expect(rows).toMatchObject([
    { id: t.root.id, status: 'waiting', waitingOn: 'child' },
    {
      id: run.id,
      parentId: t.root.id,
      depth: 1,
      mode: 'external',
      label: 'far',
      status: 'running',
    },
  ]);
  external.finish();
  await run.result;
  await run.dispose();
  expect((await operations.call('session/list', {})).rows).toHaveLength(1);
  await operations.close();
});
