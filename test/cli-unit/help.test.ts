import { expect, it } from 'vitest';
import { parseLine } from '../../src/cli/args.ts';

const textOf = (...line: readonly string[]): string => {
  const parsed = parseLine(line);
  return parsed.kind === 'print' ? parsed.text : '';
};
const VERBS = [
  ...textOf('--help')
    .split('Commands:')[1]!
    .matchAll(/^ {2}(\w+)/gmu),
].flatMap(([, verb = '']) => (verb === 'help' || verb === 'subagents' ? [] : [verb]));

it('lists every command', () => {
  expect(VERBS).toEqual(
    'run ls show send interrupt drain export import rm doctor bench serve'.split(' '),
  );
});

it.each(VERBS)('says with examples what %s takes, and what it ends with', (verb) => {
  const text = textOf(verb, '--help');
  expect(text).toMatch(/\nExit codes: 0 [^]*;\s2 bad input/u);
  const examples = /\nExamples:\n([^]*?)\n\n/u.exec(text)?.[1]?.replaceAll('\\\n', ' ') ?? '';
  const lines = examples.split('\n').map((line) => line.trim());
  expect(lines.length).toBeGreaterThan(0);
  for (const line of lines) {
    expect(line).toMatch(new RegExp(`(?:^|\\| )subagents ${verb}\\b`, 'u'));
    // It is understood as it stands.
    const own = line.slice(line.lastIndexOf(`subagents ${verb}`)).replace(/ [>|] .*/u, '');
    const words = [...own.matchAll(/'([^']*)'|(\S+)/gu)].map(([, quoted, word]) => quoted ?? word);
    expect(parseLine(words.slice(1) as string[]).kind).toBe(verb);
  }
  for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(100);
});
