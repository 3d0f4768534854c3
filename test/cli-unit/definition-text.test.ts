import { expect, it } from 'vitest';
import { parseDefinition } from '../../src/cli/definition-text.ts';
import { UsageError } from '../../src/cli/exit-codes.ts';

const parse = (text: string): unknown => parseDefinition(text, '.agents/a.md');
const withHead = (...lines: readonly string[]): string => ['---', ...lines, '---', ''].join('\n');

it('reads all that a definition can say', () => {
  const head = [
    'name: code-reviewer',
    'description: Reviews a change.',
    'model: qwen3',
    'tools: [read_file, list_files]',
    'limits:',
    '  turnMs: 60000',
    '  memoryMb: 64',
  ];
  expect(parse(`${withHead(...head)}\nYou review.\n\nBe brief.\n`)).toEqual({
    name: 'code-reviewer',
    description: 'Reviews a change.',
    model: 'qwen3',
    tools: ['read_file', 'list_files'],
    persona: 'You review.\n\nBe brief.',
    limits: { turnMs: 60_000, memoryMb: 64 },
    path: '.agents/a.md',
    places: { name: '.agents/a.md:2', tools: '.agents/a.md:5' },
  });
});

it.each([
  ['names with commas between them', 'tools: read_file, list_files', ['read_file', 'list_files']],
  ['a list below its key', 'tools:\n  - read_file', ['read_file']],
  ['an empty list', 'tools: []', []],
])('takes %s for tools', (_, tools, expected) => {
  const text = withHead('name: a', 'description: b', tools);
  expect(parse(text)).toMatchObject({ tools: expected });
});

it('reads a file of another system, with line ends of two characters and a mark in front', () => {
  const text = `\uFEFF${withHead('name: a', 'description: b', 'persona: Be c.')}`;
  expect(parse(text.replaceAll('\n', '\r\n'))).toEqual({
    name: 'a',
    description: 'b',
    persona: 'Be c.',
    limits: {},
    path: '.agents/a.md',
    places: { name: '.agents/a.md:2', tools: '.agents/a.md:2' },
  });
});

it('takes blanks behind the lines that begin and end it', () => {
  const text = '--- \nname: a\ndescription: b\n---\t \nBe c, {{model}} {{ of nobody.\n';
  expect(parse(text)).toMatchObject({ name: 'a', persona: 'Be c, {{model}} {{ of nobody.' });
});

it('leaves the model to whoever delegates when it is to be inherited', () => {
  expect(parse(withHead('name: a', 'description: b', 'model: inherit'))).not.toHaveProperty(
    'model',
  );
});

const TAKEN = ['subagent', 'report', 'structured_output', 'read_file', 'list_files'];
const WRONG: readonly [string, string, RegExp][] = [
  ['no front matter', '# Reviewer\n', /^\.agents\/a\.md:1: It begins with no line "---"/u],
  ['an open end', '---\nname: a\n', /a\.md:1: No second line "---"/u],
  ['nothing in it', withHead(), /a\.md:2: It takes keys/u],
  ['no name', withHead('description: b'), /a\.md:1: It has no "name"\./u],
  ['no description', withHead('name: a'), /a\.md:1: It has no "description"\./u],
  [
    'an empty description',
    withHead('name: a', 'description: " "'),
    /a\.md:3: "description" takes/u,
  ],
  [
    'a name that is none',
    withHead('name: a b', 'description: c'),
    /a\.md:2: "name" takes letters/u,
  ],
  [
    'a name that is a number',
    withHead('name: 7', 'description: c'),
    /a\.md:2: "name" takes a text/u,
  ],
  [
    'an unknown key',
    withHead('name: a', 'description: b', 'colour: red'),
    /a\.md:4: There is no key "colour"; there are: name, .*limits\./u,
  ],
  ['a key twice', withHead('name: a', 'description: b', 'name: c'), /a\.md:4: .*unique/u],
  ['no YAML', withHead('name: a', 'description: [b', 'model: c'), /a\.md:4: /u],
  ['a colon in a text', withHead('name: a', 'description: Use: now'), /a\.md:3: /u],
  ['tools that are none', withHead('name: a', 'description: b', 'tools: 3'), /a\.md:4: "tools"/u],
  ['an empty tool', withHead('name: a', 'description: b', 'tools: a,,b'), /a\.md:4: "tools"/u],
  ['a text as limits', withHead('name: a', 'description: b', 'limits: x'), /a\.md:4: "limits"/u],
  [
    'an unknown limit',
    withHead('name: a', 'description: b', 'limits:', '  depth: 2'),
    /a\.md:5: There is no key "depth"; there are: turnMs, memoryMb/u,
  ],
  [
    'a limit that is none',
    withHead('name: a', 'description: b', 'limits:', '  turnMs: soon'),
    /a\.md:5: "turnMs" takes a whole number/u,
  ],
  [
    'too little memory',
    withHead('name: a', 'description: b', 'limits:', '  memoryMb: 1'),
    /a\.md:5: "memoryMb" takes a whole number of 32 to 4096/u,
  ],
  [
    'more time than a timer can be set for',
    withHead('name: a', 'description: b', 'limits:', '  turnMs: 99999999999999'),
    /a\.md:5: "turnMs" takes a whole number of 1 to 2147483647/u,
  ],
  ...TAKEN.map((name): [string, string, RegExp] => [
    `the name of the tool ${name}`,
    withHead('description: b', `name: ${name}`),
    new RegExp(`a\\.md:3: "name" is "${name}", which is a tool's name`, 'u'),
  ]),
  [
    'a variable that there is not',
    `${withHead('name: a', 'description: b')}c\n{{model}} {{who}}\n`,
    /a\.md:6: The text has "\{\{who\}\}", and there is no such variable, only \{\{provider\}\}, /u,
  ],
  [
    'such a variable in its persona',
    withHead('name: a', 'description: b', 'persona: I am {{ model }}'),
    /a\.md:4: "persona" has "\{\{ model \}\}"/u,
  ],
  [
    'more nesting than can be followed',
    withHead('name: a', `description: ${'['.repeat(20_000)}`),
    /a\.md:2: What begins here is nested too deeply\./u,
  ],
  ['too much in front', withHead('name: a', `x: ${'['.repeat(33_000)}`), /a\.md:2: .* 32768 char/u],
  [
    'two personas',
    `${withHead('name: a', 'description: b', 'persona: c')}d\n`,
    /a\.md:4: "persona" is given, and so is a text/u,
  ],
];

it.each(WRONG)(
  'refuses a definition with %s in one line, naming file and line',
  (_, text, message) => {
    expect(() => parse(text)).toThrow(UsageError);
    expect(() => parse(text)).toThrow(message);
    expect(() => parse(text)).toThrow(/^[^\n]*\.$/u);
  },
);
