/** The page of codes and the code agree, in both directions. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import {
  ArgumentError,
  JsonSchemaError,
  LimitError,
  PROTOCOL_ERROR_CODES,
  ProjectionError,
  STORE_ERROR_CODES,
  SUBAGENT_ERROR_CODES,
  SubagentDepthError,
  TOOL_FILTER_ERROR_CODES,
  WORKER_ERROR_CODES,
} from '../../protocol/errors.ts';
import { MODEL_FAILURE_CODES } from '../../protocol/model-failure.ts';
import { TOOL_ERROR_CODES } from '../../src/tools/results.ts';
import { readFiles, root } from '../support/imports.ts';

const page = readFileSync(join(root, 'docs/errors.md'), 'utf8');

/** The codes in the first column of each table, by the heading above it. */
function tablesOf(text: string): ReadonlyMap<string, readonly string[]> {
  const tables = new Map<string, string[]>();
  let heading = '';
  for (const line of text.split('\n')) {
    heading = /^##+ (.*)$/.exec(line)?.[1] ?? heading;
    const [, first = ''] = /^\|([^|]*)\|/.exec(line) ?? [];
    const codes = [...first.matchAll(/`([A-Z][A-Z_]+)`/g)].map(([, code = '']) => code);
    if (codes.length > 0) tables.set(heading, [...(tables.get(heading) ?? []), ...codes]);
  }
  return tables;
}

const tables = tablesOf(page);
const codesOf = (heading: string): readonly string[] => [...(tables.get(heading) ?? [])].sort();
const reserved = new Set(codesOf('Reserved'));

/** In capitals like a code, and none: words of protocols, of SQL, of signals. */
const NO_CODES: ReadonlySet<string> = new Set(
  [
    'APPLY',
    // Of the parser of YAML.
    'RESOURCE_EXHAUSTION',
    'GET',
    'HANDLER',
    'RAW',
    // An environment variable of Node.
    'NODE_OPTIONS',
    'FETCH',
    'COMMIT',
    'ROLLBACK',
    'VACUUM',
    'FULL',
    'NORMAL',
    'TERM',
    'GET',
  ].concat(
    ['SIGINT', 'SIGKILL', 'SIGTERM', 'NO_COLOR'],
    ['ERR_WORKER_OUT_OF_MEMORY', 'ERR_SCRIPT_EXECUTION_TIMEOUT'],
    ['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'],
  ),
);
const isErrno = (text: string): boolean => /^E[A-Z]+$/.test(text) && !/EMPTY|EXCEEDED/.test(text);

/** Every text in the code that looks like a code, and the files it is in. */
const spoken = new Map<string, Set<string>>();
for (const { path, text } of readFiles('protocol', 'src', 'workers')) {
  if (path === 'protocol/errors.ts' || path.startsWith('src/examples/')) continue;
  const visit = (node: ts.Node): void => {
    const isList = ts.isVariableDeclaration(node) && node.name.getText().endsWith('_CODES');
    if (isList) return;
    const isText = ts.isStringLiteralLike(node);
    if (isText || ts.isTemplateHead(node)) {
      // A code by itself, or before what is said of it, as in a diagnostic.
      const [, code] =
        (isText ? /^([A-Z]{2,}(?:_[A-Z]+)*)$/ : /^([A-Z_]+): /).exec(node.text) ?? [];
      if (code !== undefined) spoken.set(code, (spoken.get(code) ?? new Set()).add(path));
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true));
}

describe('the page of codes', () => {
  it.each([
    ['ArgumentError', [new ArgumentError('').code]],
    ['SubagentError', SUBAGENT_ERROR_CODES],
    ['SubagentDepthError', [new SubagentDepthError(1, 0).code]],
    ['JsonSchemaError', [new JsonSchemaError([]).code]],
    ['ToolFilterError', TOOL_FILTER_ERROR_CODES],
    ['ProjectionError', [new ProjectionError('', '').code]],
    ['ProtocolError', PROTOCOL_ERROR_CODES],
    ['WorkerError', WORKER_ERROR_CODES],
    ['StoreError', STORE_ERROR_CODES],
    ['Results of tools', [...TOOL_ERROR_CODES, 'TOOL_NOT_STARTED', 'TOOL_OUTCOME_UNKNOWN']],
    ['Failed model requests', MODEL_FAILURE_CODES],
  ])('has every code of %s once, and no other', (heading, codes) => {
    expect(codesOf(heading)).toEqual(codes.filter((code) => !reserved.has(code)).sort());
  });

  it('has the code of a limit among the errors of turns: it is data', () => {
    expect(codesOf('Errors of turns')).toContain(new LimitError('turnMs', '').code);
  });

  it('reserves no code twice, and only codes of the union', () => {
    const subagents: readonly string[] = SUBAGENT_ERROR_CODES;
    expect(codesOf('Reserved')).toEqual([...reserved].sort());
    expect([...reserved].filter((code) => !subagents.includes(code))).toEqual([]);
  });

  it('has every code that the code speaks of', () => {
    const known = new Set([...tables.values()].flat());
    const unknown = [...spoken]
      .filter(([code]) => !known.has(code) && !NO_CODES.has(code) && !isErrno(code))
      .map(([code, files]) => `${code} of ${[...files].join(', ')} is not in docs/errors.md`);
    expect(unknown).toEqual([]);
  });

  it('names no code that nothing gives, and reserves none that something does', () => {
    const byClass = new Set(
      ['INVALID_ARGUMENT', 'UNSUPPORTED_SCHEMA'].concat('DEPTH_EXCEEDED', 'PROJECTION_FAILED'),
    );
    const silent = [...new Set([...tables.values()].flat())].filter(
      (code) => !spoken.has(code) && !byClass.has(code),
    );
    expect(silent.sort()).toEqual([...reserved].sort());
  });
});

describe('a code that is given', () => {
  const lists: Readonly<Record<string, readonly string[]>> = {
    SubagentError: SUBAGENT_ERROR_CODES,
    ToolFilterError: TOOL_FILTER_ERROR_CODES,
    ProtocolError: PROTOCOL_ERROR_CODES,
    WorkerError: WORKER_ERROR_CODES,
    StoreError: STORE_ERROR_CODES,
  };
  const given = readFiles('protocol', 'src', 'workers').flatMap(({ path, text }) =>
    [...text.matchAll(/new (\w+Error)\(\s*'([A-Z_]+)'/g)].map(([, name = '', code = '']) => ({
      path,
      name,
      code,
    })),
  );

  it('belongs to the class it is thrown with', () => {
    expect(given.length).toBeGreaterThan(50);
    const wrong = given.filter(({ name, code }) => lists[name]?.includes(code) === false);
    expect(wrong).toEqual([]);
  });

  it('is given by something, unless it is reserved', () => {
    const thrown = new Set(spoken.keys());
    const missing = Object.values(lists)
      .flat()
      .filter((code) => !thrown.has(code) && !reserved.has(code));
    expect(missing).toEqual([]);
  });
});
