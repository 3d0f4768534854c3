import { expect, it } from 'vitest';
import { subagents } from './command-line.ts';

it('measures what delegation costs, for people and for programs', async () => {
  const { code, stdout, stderr } = await subagents(['bench', '--children', '2', '--json']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const figures = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { name: string; value: number; unit: string; of: number });
  expect(figures.map(({ unit, of }) => [unit, of])).toEqual([
    ['ms', 1],
    ['ms', 2],
    ['per second', 2],
    ['ms', 2],
    ['ms', 2],
  ]);
  expect(figures.every(({ value }) => value > 0)).toBe(true);
  const shown = await subagents(['bench', '--children', '1']);
  expect(shown.stdout.trimEnd().split('\n')).toEqual(
    figures.map(({ name, unit }) =>
      expect.stringMatching(new RegExp(`^${name} +\\d+\\.\\d\\d ${unit}$`, 'u')),
    ),
  );
});

it('refuses to measure nothing', async () => {
  expect(await subagents(['bench', '--children', '0'])).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(/whole number above 0/u),
  });
});
