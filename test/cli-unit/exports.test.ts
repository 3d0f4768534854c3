import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { exportedNames } from '../../src/cli/embedded/exports.ts';
import { exportedNamesByCompiler } from '../support/exported-names.ts';

const cases: readonly [string, string, readonly string[]][] = [
  ['constants', 'export const a = 1, b = 2;', ['a', 'b']],
  [
    'constants without semicolons',
    'export const a = 1\nexport let b = a\nlet c = 2, d',
    ['a', 'b'],
  ],
  [
    'annotated constants',
    'export const a: Map<string, number> = new Map<string, X<Y>>(), b = a < 2, c = 3 > 2;',
    ['a', 'b', 'c'],
  ],
  [
    'an arrow function with generics',
    'export const f = <T, U>(a: T, b: U): [T, U] => [a, b], g = 1',
    ['f', 'g'],
  ],
  [
    'object patterns',
    'export const { a, b: { c = 1, ...d }, ["k"]: e, "x-y": f = { g: 1 } } = o, h = 2;',
    ['a', 'c', 'd', 'e', 'f', 'h'],
  ],
  ['array patterns', 'export const [a, , [b], ...c] = list', ['a', 'b', 'c']],
  [
    'a declaration without a value',
    'export let a\nexport declare let b: string\nlet z',
    ['a', 'b'],
  ],
  [
    'a value on the next line',
    'export const a =\n  1\nexport const b\n  = 2, c = 3',
    ['a', 'b', 'c'],
  ],
  [
    'functions',
    'export function a() { return 1 }\nexport async function* b() {}\nexport function c(): void;\nexport function c(x?: 1): void {}',
    ['a', 'b', 'c'],
  ],
  [
    'classes',
    'export class A<T> extends B<T> { export = 1 }\nexport abstract class C {}\nexport @dec({ a: 1 }) class D {}',
    ['A', 'C', 'D'],
  ],
  [
    'types',
    'export type A<T> = { a: T };\nexport interface B extends C {}\nexport enum D { X }\nexport const enum E { Y }\nexport declare namespace F.G { export const no: 1 }',
    ['A', 'B', 'D', 'E', 'F'],
  ],
  ['a type named type', 'export type type = 1;\nexport { type type, type as as };', ['type', 'as']],
  [
    'lists',
    'export { a, b as c, type D, type E as F, g as default, h as "string name", };',
    ['a', 'c', 'D', 'F', 'default', 'string name'],
  ],
  [
    'lists from elsewhere',
    "export { a } from './a';\nexport type { B as C } from './b';\nexport {};",
    ['a', 'C'],
  ],
  [
    'stars',
    "export * from './a';\nexport * as b from './b';\nexport type * from './c';",
    ['* from ./a', 'b', '* from ./c'],
  ],
  ['a default', 'export default class Named {}', ['default']],
  ['a CommonJS export and an import alias', 'export import a = b.c;\nexport = a;', ['a', '=']],
  [
    'ambient globals',
    "declare global { export const no: 1 }\ndeclare module 'x' { export const no: 1 }",
    [],
  ],
  [
    'comments',
    '// export const a = 1\n/* export const b = 2\n*/ /** export */ export /* x */ const /* y */ c = 3;',
    ['c'],
  ],
  [
    'strings',
    `const s = "export const a = 1", t = 'it\\'s export const b';\nexport const c = "}";`,
    ['c'],
  ],
  [
    'templates',
    'const s = `\nexport const a = ${`}${{ x: "`" }.x}export`} ;\nexport const b = 1`;\nexport const c = `{`;',
    ['c'],
  ],
  [
    'regular expressions',
    'const r = /["`{]export/u, q = [/[/`]/].map((x) => x / 2 / 1);\nexport const a = 4 / 2; // `\nexport const b = /`/;',
    ['a', 'b'],
  ],
  ['an expression in a class field', 'class A { x = 1 / 2; y = "`"; }\nexport const a = 1', ['a']],
  ['properties', 'module.export;\nconst o = { export: 1, default: 2 };\no.export = 3;', []],
  ['a first line for the shell', '#!/usr/bin/env node `\nexport const a = 1;', ['a']],
  [
    'names of any script',
    'export const é = 1, naïve = 2, x1 = 3, 名前 = 4, a\u200Db = 5;',
    ['é', 'naïve', 'x1', '名前', 'a\u200Db'],
  ],
  ['text that breaks off', 'export const { a, b', ['a', 'b']],
  ['a string that breaks off', "const s = 'open\nexport const a = 1", ['a']],
];

it.each(cases)('finds the exported names of %s', (_, source, names) => {
  expect(exportedNames(source)).toEqual(names);
});

it('agrees with the compiler about every source of this repository', () => {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const paths = ['protocol', 'src', 'workers', 'test', 'bench'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(root, folder, name)),
  );
  expect(paths.length).toBeGreaterThan(100);
  for (const path of paths) {
    const source = readFileSync(path, 'utf8');
    expect([path, exportedNames(source)]).toEqual([path, exportedNamesByCompiler(path, source)]);
  }
});
