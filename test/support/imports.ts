/** What a file says of itself, read from its syntax: what it imports, exports and tests. */
import { readFileSync, readdirSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

export interface Import {
  readonly specifier: string;
  /** The file it names, from the repository's root; absent for a package or a part of Node. */
  readonly target?: string;
  readonly line: number;
  /** The names it takes; `*` for all of them. */
  readonly names: readonly string[];
  /** It is gone when types are erased. */
  readonly isTypeOnly: boolean;
}

export interface SourceFile {
  /** From the repository's root, with forward slashes. */
  readonly path: string;
  readonly text: string;
  readonly lines: number;
  readonly imports: readonly Import[];
  /** The names it exports, those it passes on included. `*` stands for names it does not spell. */
  readonly exports: readonly string[];
  /** Those of its exports that are declared here and exist at run time. */
  readonly values: readonly string[];
  /** The names of its tests, as written: titles of groups, then its own, parted by ` › `. */
  readonly tests: readonly string[];
}

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** Every TypeScript file below these folders of the repository; ambient declarations are none. */
export function readFiles(...folders: readonly string[]): readonly SourceFile[] {
  return folders.flatMap((folder) =>
    readdirSync(posix.join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts') && !path.endsWith('.d.ts'))
      .sort()
      .map((path) => posix.join(folder, path))
      .map((path) => parseFile(path, readFileSync(posix.join(root, path), 'utf8'))),
  );
}

export function parseFile(path: string, text: string): SourceFile {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const imports: Import[] = [];
  const exports: string[] = [];
  const values: string[] = [];
  const tests: string[] = [];

  const add = (node: ts.Node, names: readonly string[], isTypeOnly: boolean): void => {
    if (!ts.isStringLiteralLike(node)) return;
    const specifier = node.text;
    imports.push({
      specifier,
      ...(specifier.startsWith('.') ? { target: posix.join(posix.dirname(path), specifier) } : {}),
      line: source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1,
      names,
      isTypeOnly,
    });
  };

  const visit = (node: ts.Node, group: string): void => {
    let inner = group;
    if (ts.isImportDeclaration(node)) {
      add(node.moduleSpecifier, namesOfImport(node.importClause), isTypeOnlyImport(node));
    } else if (ts.isExportDeclaration(node)) {
      const names = namesOfExport(node);
      exports.push(...names.map(({ as }) => as));
      if (node.moduleSpecifier !== undefined) {
        add(
          node.moduleSpecifier,
          names.map(({ of }) => of),
          node.isTypeOnly,
        );
      }
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node.argument.literal, ['*'], true);
    } else if (ts.isCallExpression(node)) {
      const [first] = node.arguments;
      if (first !== undefined && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
        add(first, ['*'], false);
      } else if (first !== undefined && ts.isStringLiteralLike(first)) {
        const callee = calleeOf(node);
        if (callee === 'it' || callee === 'test') tests.push(group + first.text);
        if (callee === 'describe') inner = `${group}${first.text} › `;
      }
    } else if (ts.isStatement(node) && isExported(node)) {
      const names = namesOfDeclaration(node);
      exports.push(...names);
      if (!ts.isInterfaceDeclaration(node) && !ts.isTypeAliasDeclaration(node)) {
        values.push(...names);
      }
    }
    ts.forEachChild(node, (child) => visit(child, inner));
  };
  visit(source, '');

  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
  return { path, text, lines, imports, exports, values, tests };
}

function namesOfImport(clause: ts.ImportClause | undefined): readonly string[] {
  if (clause === undefined) return [];
  const names = clause.name === undefined ? [] : ['default'];
  const bindings = clause.namedBindings;
  if (bindings === undefined) return names;
  if (ts.isNamespaceImport(bindings)) return [...names, '*'];
  return [...names, ...bindings.elements.map((each) => (each.propertyName ?? each.name).text)];
}

function isTypeOnlyImport({ importClause }: ts.ImportDeclaration): boolean {
  return importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword;
}

function namesOfExport(node: ts.ExportDeclaration): readonly { of: string; as: string }[] {
  const clause = node.exportClause;
  if (clause === undefined) return [{ of: '*', as: '*' }];
  if (ts.isNamespaceExport(clause)) return [{ of: '*', as: clause.name.text }];
  return clause.elements.map((each) => ({
    of: (each.propertyName ?? each.name).text,
    as: each.name.text,
  }));
}

function isExported(node: ts.Statement): boolean {
  const modifiers = ts.canHaveModifiers(node) ? ts.getModifiers(node) : undefined;
  return modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false;
}

function namesOfDeclaration(node: ts.Statement): readonly string[] {
  if (ts.isVariableStatement(node)) {
    return node.declarationList.declarations.map(({ name }) => name.getText());
  }
  if (
    ts.isFunctionDeclaration(node) ||
    ts.isClassDeclaration(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node)
  ) {
    const modifiers = ts.getModifiers(node);
    const isDefault = modifiers?.some(({ kind }) => kind === ts.SyntaxKind.DefaultKeyword);
    return [isDefault === true ? 'default' : (node.name?.text ?? 'default')];
  }
  return [];
}

/** What is called in the end: `it` of `it('…')` and of `it.each([…])('…')`. */
function calleeOf(node: ts.CallExpression): string | undefined {
  let callee: ts.Expression = node.expression;
  while (!ts.isIdentifier(callee)) {
    if (ts.isCallExpression(callee) || ts.isPropertyAccessExpression(callee)) {
      callee = callee.expression;
    } else if (ts.isTaggedTemplateExpression(callee)) {
      callee = callee.tag;
    } else {
      return undefined;
    }
  }
  return callee.text;
}
