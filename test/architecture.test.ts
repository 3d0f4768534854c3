/** The house keeps its shape. Each rule is shown to fail on files that break it. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  MAX_LINES,
  declared,
  doors,
  errorsHaveCodes,
  noCycles,
  noDeadExports,
  nothingLeftForLater,
  plainImports,
  ranks,
  selfContained,
  size,
  testsStayOutside,
  threads,
  validationStaysOnMain,
  walls,
} from './support/house-rules.ts';
import type { Rule } from './support/house-rules.ts';
import { parseFile, readFiles, root } from './support/imports.ts';
import type { SourceFile } from './support/imports.ts';
import { checkTable } from './support/scenario-table.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const files = readFiles('protocol', 'src', 'workers', 'test', 'bench');
const manifest = JSON.parse(read('package.json')) as Parameters<typeof declared>[0];

/** Made-up files: path and text. */
function house(made: Readonly<Record<string, string>>): readonly SourceFile[] {
  return Object.entries(made).map(([path, text]) => parseFile(path, text));
}

const rules: readonly {
  readonly name: string;
  readonly rule: Rule;
  /** Absent: the rule itself. */
  readonly ruleForBroken?: Rule;
  readonly broken: Readonly<Record<string, string>>;
  readonly complaints: readonly string[];
}[] = [
  {
    name: 'keeps the walls between protocol, src and workers',
    rule: walls,
    broken: {
      'src/agent/agent.ts': `import { runLoop } from '../../workers/agent/loop.ts';`,
      'workers/link.ts': `export type { Link } from '../src/worker-host/link.ts';`,
      'protocol/port.ts': `import type { MessagePort } from 'node:worker_threads';`,
      'protocol/ids.ts': `type Id = import('../src/base/ids.ts').Id;`,
    },
    complaints: [
      'src/agent/agent.ts:1 imports ../../workers/agent/loop.ts: src never imports workers',
      'workers/link.ts:1 imports ../src/worker-host/link.ts: workers never imports src',
      'protocol/port.ts:1 imports node:worker_threads: protocol knows no Node',
      'protocol/ids.ts:1 imports ../src/base/ids.ts: protocol stands alone',
    ],
  },
  {
    name: 'keeps tests and benches out of what ships',
    rule: testsStayOutside,
    broken: { 'src/testing.ts': `export { gate } from '../test/support/gate.ts';` },
    complaints: ['src/testing.ts:1 imports ../test/support/gate.ts: tests stay outside'],
  },
  {
    name: 'imports downward only, in src and in workers',
    rule: ranks,
    broken: {
      'src/session/session.ts': `import type { ToolScope } from '../tools/registry.ts';`,
      'src/subagents/runtime.ts': `import { WorkerHost } from '../worker-host/worker-host.ts';`,
      'src/agent/inbox.ts': `const { spawn } = await import('../providers/worker-spawn.ts');`,
      'src/cli/main.ts': `import { Sessions } from '../session/sessions.ts';`,
      'src/stray.ts': ``,
      'workers/link.ts': `import { boot } from './boot.ts';`,
      'workers/agent/loop.ts': `import { boot } from '../boot.ts';`,
    },
    complaints: [
      'src/stray.ts has no rank',
      'src/session/session.ts:1 imports ../tools/registry.ts: src/tools does not rank below src/session',
      'src/subagents/runtime.ts:1 imports ../worker-host/worker-host.ts: src/worker-host does not rank below src/subagents',
      'src/agent/inbox.ts:1 imports ../providers/worker-spawn.ts: src/providers does not rank below src/agent',
      'src/cli/main.ts:1 imports ../session/sessions.ts: src/cli sees what users see',
      'workers/link.ts:1 imports ./boot.ts: workers/boot.ts does not rank below workers/link.ts',
      'workers/agent/loop.ts:1 imports ../boot.ts: workers/boot.ts does not rank below workers/agent',
    ],
  },
  {
    name: 'has no circle of files and none of rooms, not even for types',
    rule: noCycles,
    broken: {
      'protocol/a.ts': `import type { B } from './b.ts';`,
      'protocol/b.ts': `import type { C } from './c.ts';`,
      'protocol/c.ts': `import type { A } from './a.ts';`,
      'src/agent/one.ts': `import '../tools/two.ts';`,
      'src/tools/three.ts': `import '../agent/four.ts';`,
    },
    complaints: [
      'a circle: protocol/a.ts → protocol/b.ts → protocol/c.ts → protocol/a.ts',
      'a circle: src/agent → src/tools → src/agent',
    ],
  },
  {
    name: 'lets every package in by its own door',
    rule: doors,
    broken: {
      'protocol/codec.ts': `import { Packr } from 'msgpackr/index-no-eval';`,
      'src/session/sqlite-store.ts': `import { Packr } from 'msgpackr';`,
      'src/agent/agent.ts': `import { z } from 'zod';`,
      'src/base/clock.ts': `import { vi } from 'vitest';`,
      'src/models/ai-sdk.ts': `import type { LanguageModelV3 } from '@ai-sdk/provider';`,
    },
    complaints: [
      'src/session/sqlite-store.ts:1 imports msgpackr: msgpackr comes in at protocol/codec.ts',
      'src/agent/agent.ts:1 imports zod: zod has no door',
      'src/base/clock.ts:1 imports vitest: vitest comes in at test/, bench/',
      'src/models/ai-sdk.ts:1 imports @ai-sdk/provider: @ai-sdk/provider comes in at src/models/openai-compatible.ts',
    ],
  },
  {
    name: 'names every package it imports in package.json, where users get it',
    rule: declared(manifest),
    ruleForBroken: declared({ dependencies: { ajv: '1' }, devDependencies: { vitest: '1' } }),
    broken: {
      'src/tools/validate-arguments.ts': `import 'ajv/dist/2020.js';\nimport 'vitest';`,
      'test/some.test.ts': `import { it } from 'vitest';`,
    },
    complaints: ['src/tools/validate-arguments.ts:2 imports vitest: package.json does not name it'],
  },
  {
    name: 'makes threads in one room',
    rule: threads,
    broken: {
      'src/base/offload.ts': `import { Worker } from 'node:worker_threads';`,
      'src/worker-host/thread.ts': `import { Worker } from 'node:worker_threads';`,
      'workers/tools.ts': `import * as threads from 'node:worker_threads';`,
      'workers/boot.ts': `import type { Worker } from 'node:worker_threads';`,
    },
    complaints: [
      'src/base/offload.ts:1 imports node:worker_threads: threads are made in src/worker-host',
      'workers/tools.ts:1 imports node:worker_threads: threads are made in src/worker-host',
    ],
  },
  {
    name: 'checks frames on main, and loads no validator in a thread',
    rule: validationStaysOnMain,
    broken: { 'workers/link.ts': `import { decodeFrame } from '../protocol/validate.ts';` },
    complaints: ['workers/link.ts:1 imports ../protocol/validate.ts: frames are checked on main'],
  },
  {
    name: 'keeps files small',
    rule: size,
    broken: { 'src/agent/agent.ts': 'x\n'.repeat(MAX_LINES + 1) },
    complaints: ['src/agent/agent.ts has 401 lines: which noun wants to move out?'],
  },
  {
    name: 'leaves nothing for later and no test switched off',
    rule: nothingLeftForLater,
    broken: {
      'src/agent/agent.ts': `// TO${'DO'}: think`,
      'test/agent/inbox.test.ts': `it.${'skip'}('accepts', () => {});`,
      'test/agent/agent.test.ts': `describe.each([1]).${'only'}('x', () => {});\nit.each.${'only'}`,
    },
    complaints: [
      'src/agent/agent.ts leaves something for later',
      'test/agent/inbox.test.ts switches a test off',
      'test/agent/agent.test.ts switches a test off',
    ],
  },
  {
    name: 'leans on nothing outside the repository',
    rule: selfContained,
    broken: {
      'src/index.ts': `export { x } from '../../elsewhere/x.ts';`,
      'src/base/ids.ts': `// see ${'../sha'}red/README.md`,
    },
    complaints: [
      'src/index.ts:1 imports ../../elsewhere/x.ts: it is outside',
      'src/base/ids.ts names a folder beside the repository',
    ],
  },
  {
    name: 'names the files it imports as they are, and what it exports',
    rule: plainImports,
    broken: {
      'src/index.ts': `import './agent/agent';\nexport * from './harness.ts';`,
      'src/agent/agent.ts': `export default class Agent {}`,
      'src/examples/tool.ts': `export default { name: 'a tool that a thread loads' };`,
    },
    complaints: [
      'src/index.ts:1 imports ./agent/agent: no extension',
      'src/index.ts exports something without a name',
      'src/agent/agent.ts exports something without a name',
    ],
  },
  {
    name: 'makes errors with codes',
    rule: errorsHaveCodes,
    broken: {
      'src/agent/agents.ts': `throw new AggregateError(failures, 'Ending failed.');`,
      'src/tools/registry.ts': `const error = new TypeError('not a tool');`,
      'workers/link.ts': `if (signal.aborted) throw new DOMException('Aborted.', 'AbortError');`,
      'src/prompt/interpolate.ts': `throw new Error('The prompt has no such variable.');`,
      'src/session/session.ts': `throw new ArgumentError('No.'); throw signal.reason;`,
      'protocol/json.ts': `throw new TypeError('Not losslessly JSON.');`,
      'workers/tool-body.ts': `throw new ArgumentError('Too many contexts.');`,
    },
    complaints: [
      'src/agent/agents.ts makes an error without a code: who can get it?',
      'src/tools/registry.ts makes an error without a code: who can get it?',
      'workers/link.ts makes an error without a code: who can get it?',
      'workers/tool-body.ts makes no error without a code any more',
    ],
  },
  {
    name: 'exports nothing that nobody uses',
    rule: noDeadExports,
    broken: {
      'src/base/ids.ts': `export const a = 1, b = 2;\nexport interface C {}\nexport class D {}`,
      'src/agent/agent.ts': `import { a } from '../base/ids.ts';\nexport function e() {}`,
      'src/index.ts': `export { e as f } from './agent/agent.ts';\nexport type { C } from './base/ids.ts';`,
    },
    complaints: ['src/base/ids.ts exports b for nobody', 'src/base/ids.ts exports D for nobody'],
  },
];

describe.each(rules)('the house', ({ name, rule, ruleForBroken = rule, broken, complaints }) => {
  it(name, () => {
    expect(rule(files)).toEqual([]);
  });

  it(`is seen when it no longer ${name}`, () => {
    expect(ruleForBroken(house(broken))).toEqual(complaints);
  });
});

it('compiles protocol without Node types, and src and workers without each other', () => {
  const config = (folder: string): string => read(`${folder}/tsconfig.json`);
  expect(config('protocol')).toContain('"types": []');
  expect(config('protocol')).not.toContain('"references"');
  expect(config('src')).not.toContain('../workers');
  expect(config('workers')).not.toContain('../src');
});

const hostsIn = (lock: string): readonly string[] =>
  lock.match(/"resolved":\s*"(?:\w+:\/\/|git[+@])[^"]*"/g) ?? [];

it('locks versions without naming a place to download from', () => {
  expect(hostsIn(read('package-lock.json'))).toEqual([]);
  expect(hostsIn('{ "resolved": "https://example.org/a.tgz" }')).toHaveLength(1);
});

it('has a short page for whoever enters a room', () => {
  const lines = ['protocol', 'src', 'workers', 'bench'].map(
    (folder) => read(`${folder}/README.md`).trimEnd().split('\n').length,
  );
  expect(Math.max(...lines)).toBeLessThanOrEqual(40);
});

/** Relative links and code spans that look like files of the repository. */
function filesNamedIn(page: string): readonly string[] {
  return [...page.matchAll(/`((?:protocol|src|workers|test|bench|scripts)\/[\w./-]+\.\w+)`/g)].map(
    ([, path = '']) => path,
  );
}

it('tells newcomers of files that exist', () => {
  const pages = [
    'README.md',
    ...readdirSync(join(root, '.github')).map((name) => `.github/${name}`),
    ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`),
    ...['protocol', 'src', 'workers', 'bench'].map((folder) => `${folder}/README.md`),
  ].filter((path) => path.endsWith('.md'));
  const named = pages.flatMap((page) => filesNamedIn(read(page)));
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

describe('the table of scenarios', () => {
  const tests = files.filter(({ path }) => path.startsWith('test/'));

  it('has a row for every scenario, with a test that exists or the issue that brings it', () => {
    expect(checkTable(read('test/README.md'), tests)).toEqual([]);
  });

  it('is refused when a row is missing or names a test that does not exist', () => {
    const page = read('test/README.md');
    const row = /^\| S013 \| .* \|$/m;
    const withRow = (text: string): readonly string[] =>
      checkTable(
        page.replace(row, () => text),
        house({ 'test/a.test.ts': `describe('a', () => { it.each([])('is one', f); });` }),
      );
    const about = (complaints: readonly string[]): readonly string[] =>
      complaints.filter((complaint) => complaint.startsWith('S013'));

    expect(about(withRow('| S013 | `a.test.ts › a › is one` |'))).toEqual([]);
    expect(about(withRow('| S013 | `a.test.ts › a › is two` |'))).toEqual([
      'S013 names a test that does not exist: a.test.ts › a › is two',
    ]);
    expect(about(withRow('| S013 | some day |'))).toEqual(['S013 names no test: some day']);
    expect(withRow('')).toContain('S013 is not where it belongs');
  });
});
