import { expect, it } from 'vitest';
import { parseLine } from '../../src/cli/args.ts';
import { UsageError } from '../../src/cli/exit-codes.ts';

it('reads a prompt of several words and many files', () => {
  const line = ['run', 'Sum', 'up', '--files', 'a.md', 'src/**', '--files', '!b', '--turn-ms', '9'];
  expect(parseLine(line)).toEqual({
    kind: 'run',
    arguments: { prompt: 'Sum up', files: ['a.md', 'src/**', '!b'], turnMs: 9 },
  });
});

it.each([
  ['64', 64],
  ['unlimited', 'unlimited'],
])('takes %s as a limit of memory', (given, memoryMb) => {
  expect(parseLine(['run', 'x', '--memory-mb', given])).toEqual({
    kind: 'run',
    arguments: { prompt: 'x', memoryMb },
  });
});

it('reads a prompt behind the end of the options', () => {
  expect(parseLine(['run', '--json', '--files', 'a', '--', 'Go', '-x'])).toEqual({
    kind: 'run',
    arguments: { prompt: 'Go -x', files: ['a'], json: true },
  });
});

it.each([
  [['doctor', 'runs.db'], { store: 'runs.db' }],
  [['doctor', '--json', 'runs.db'], { store: 'runs.db', json: true }],
])('reads a check of a store: %j', (line, given) => {
  expect(parseLine(line)).toEqual({ kind: 'doctor', arguments: given });
});

it.each([
  [[], /^Usage: subagents/u],
  [['doctor', '--help'], /Exit codes: 0 nothing is wrong/u],
  [['--help'], /^Usage: subagents/u],
  [['run', '--help'], /Exit codes: 0 completed/u],
  [['run', '--help'], /--memory-mb <mb> .*or\s+"unlimited"/u],
  [['--version'], /^\d+\.\d+\.\d+\n$/u],
])('prints a text for %j', (line, text) => {
  expect(parseLine(line)).toEqual({ kind: 'print', text: expect.stringMatching(text) });
});

it.each([
  [['run', '--fast'], /unknown option '--fast'.*--help/u],
  [['walk'], /walk/u],
  [['doctor'], /missing required argument 'store'/u],
  [['doctor', 'a', 'b'], /too many arguments/u],
  [['run', 'x', '--turn-ms', '-5'], /--turn-ms.*whole number above 0/u],
  [['run', 'x', '--memory-mb', '1e3'], /--memory-mb.*whole number above 0, or "unlimited"/u],
  [['run', 'x', '--turn-ms', 'unlimited'], /--turn-ms.*whole number above 0/u],
  [['run', 'x', '--store'], /--store/u],
])('refuses %j in one line', (line, message) => {
  const parse = (): unknown => parseLine(line);
  expect(parse).toThrow(UsageError);
  expect(parse).toThrow(message);
  expect(parse).toThrow(/^[^\n]*$/u);
});
