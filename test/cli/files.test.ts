import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folderWith, MAIN, start, subagents, tableIn } from './command-line.ts';

const GUIDE = '# Guide\n\ntext\n\n## Use\n\n```\n# no heading\n```\n';
const CODE = 'export const a = 1;\n// export const b = 2;\nexport type { C } from "./c.ts";';
const RUN = ['run', 'Summarise the files.', '--files', '**/*.md', '**/*.ts'];

it('prints a table that is true, and changes when a heading goes', async () => {
  await using folder = await folderWith({
    'docs/guide.md': GUIDE,
    'code.ts': CODE,
    'empty.md': '',
  });
  const first = await subagents(RUN, { cwd: folder.path });
  expect(first.code).toBe(0);
  expect(tableIn(first.stdout)).toEqual({
    'code.ts': { headings: 0, exports: 2, lines: 3 },
    'docs/guide.md': { headings: 2, exports: 0, lines: 9 },
    'empty.md': { headings: 0, exports: 0, lines: 0 },
    total: { headings: 2, exports: 2, lines: 12 },
  });
  await folder.write('docs/guide.md', GUIDE.replace('## Use\n', ''));
  const second = await subagents(RUN, { cwd: folder.path });
  expect(tableIn(second.stdout)).toMatchObject({
    'docs/guide.md': { headings: 1, exports: 0, lines: 8 },
    total: { headings: 1, exports: 2, lines: 11 },
  });
});

it('says in its first line which model it uses, and answers on stdout alone', async () => {
  const { code, stdout, stderr } = await subagents(['run', 'What is love?']);
  expect(code).toBe(0);
  expect(stderr.split('\n')[0]).toMatch(/using the embedded scripted model/u);
  expect(stdout.split('\n')[0]).toMatch(/^I am the embedded scripted model/u);
});

it('prints plain lines and no escape codes when it is piped', async () => {
  await using folder = await folderWith({ 'a.md': '# \u001B[31mred\n' });
  const { stdout, stderr } = await subagents(RUN, { cwd: folder.path });
  expect(stdout + stderr).not.toContain('\u001B');
  expect(stderr).toMatch(/\] a\.md: started\n/u);
  expect(stderr).toMatch(/\] a\.md: completed \(\d+\.\d s, \d+ tokens\)\n/u);
});

it('prints every event as one line of JSON', async () => {
  await using folder = await folderWith({ 'a.md': '# a\n' });
  const { stdout, stderr, code } = await subagents([...RUN, '--json'], { cwd: folder.path });
  const lines = stdout.trimEnd().split('\n');
  const events = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(events[0]).toEqual({ type: 'run/start', model: 'embedded scripted model' });
  expect(events.at(-1)).toMatchObject({ type: 'run/end', exitCode: 0, failedDelegations: [] });
  const logs = groupBySession(events);
  logs.delete(undefined);
  expect(logs.size).toBe(2);
  const started = events.filter(({ type }) => type === 'subagent/start');
  expect(started.map(({ label }) => label)).toEqual(['a.md']);
  for (const log of logs.values()) {
    const seqs = log.flatMap(({ event }) => (event === undefined ? [] : [(event as Seq).seq]));
    expect(seqs).toEqual(seqs.map((_, index) => index));
    expect(log.findLast(({ type }) => type === 'session/event')).toMatchObject({
      event: { type: 'turn/end', data: { reason: COMPLETED } },
    });
    const statuses = log.flatMap(({ status }) => (status === undefined ? [] : [status]));
    expect(statuses.slice(-2)).toEqual(['idle', 'settled']);
  }
});

it('gives a file that is gone by then a failure of its own, and exits with 3', async () => {
  await using folder = await folderWith({ 'a.md': '# a\n', 'tools.mjs': '' });
  // Loaded before the first request: it takes away a file that was found.
  await folder.write(
    'tools.mjs',
    `import { rmSync } from 'node:fs';
     rmSync(${JSON.stringify(join(folder.path, 'b.md'))}, { force: true });
     export default () => [];`,
  );
  await folder.write('b.md', '# b\n');
  const { code, stdout, stderr } = await subagents([...RUN, '--tools', 'tools.mjs'], {
    cwd: folder.path,
  });
  expect(code).toBe(3);
  expect(tableIn(stdout)).toMatchObject({ total: { headings: 1, exports: 0, lines: 1 } });
  expect(stdout).toMatch(/1 delegation failed:\n- b\.md: NO_STRUCTURED_OUTPUT: /u);
  // Progress and answer name it with the same code, and once each.
  expect(stderr).toMatch(/\] b\.md: failed \(.*\): NO_STRUCTURED_OUTPUT: /u);
  expect(stderr.match(/NO_STRUCTURED_OUTPUT|NO_RESULT|Failed:/gu)).toHaveLength(1);
});

it('takes a name that is a file for that file, whatever it means as a pattern', async () => {
  await using folder = await folderWith({ 'a[1].md': '# a\n', 'a1.md': '# no\n' });
  const run = ['run', 'Summarise.', '--files', './a[1].md'];
  const { total: _, ...rows } = tableIn((await subagents(run, { cwd: folder.path })).stdout);
  expect(Object.keys(rows)).toEqual(['a[1].md']);
});

it.each([[[]], [['--json']]])(
  'ends quietly, with 0, when its stdout is closed: %j',
  async (more) => {
    await using folder = await folderWith({ 'a.md': '# a\n' });
    const run = start([MAIN, ...RUN, ...more], { cwd: folder.path });
    run.process.stdout?.destroy();
    const { code, stderr } = await run.finished;
    expect(code).toBe(0);
    expect(stderr).not.toMatch(/EPIPE|Stopped|at .*\.js/u);
  },
);

it('goes on to its answer when only its stderr is closed', async () => {
  await using folder = await folderWith({ 'a.md': '# a\n' });
  const run = start([MAIN, ...RUN], { cwd: folder.path });
  run.process.stderr?.destroy();
  const { code, stdout } = await run.finished;
  expect(code).toBe(0);
  expect(tableIn(stdout)).toMatchObject({ total: { headings: 1, exports: 0, lines: 1 } });
});

it('keeps the sessions of a run in the store that was named', async () => {
  await using folder = await folderWith({ 'a.md': '# a\n' });
  const run = [...RUN, '--store', 'runs.db'];
  expect((await subagents(run, { cwd: folder.path })).code).toBe(0);
  const { openSqliteStore } = await import('../../src/index.ts');
  const store = openSqliteStore({ path: join(folder.path, 'runs.db') });
  const headers = await store.list();
  await store.close();
  expect(headers.map(({ origin }) => origin)).toEqual([undefined, 'subagent']);
  await rm(join(folder.path, 'runs.db'));
});

interface Seq {
  readonly seq: number;
}
const COMPLETED = { kind: 'completed' };

function groupBySession(
  events: readonly Record<string, unknown>[],
): Map<unknown, Record<string, unknown>[]> {
  const groups = new Map<unknown, Record<string, unknown>[]>();
  for (const event of events) {
    groups.set(event['session'], [...(groups.get(event['session']) ?? []), event]);
  }
  return groups;
}
