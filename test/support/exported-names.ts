/** The names a module exports, as the TypeScript compiler sees them. */
import ts from 'typescript';

export function exportedNamesByCompiler(path: string, source: string): readonly string[] {
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true);
  return [...new Set(file.statements.flatMap((statement) => namesOf(statement)))];
}

function namesOf(statement: ts.Statement): readonly string[] {
  if (ts.isExportAssignment(statement)) return [statement.isExportEquals ? '=' : 'default'];
  if (ts.isExportDeclaration(statement)) return listed(statement);
  const modifiers = ts.canHaveModifiers(statement) ? (ts.getModifiers(statement) ?? []) : [];
  const has = (kind: ts.SyntaxKind): boolean => modifiers.some((each) => each.kind === kind);
  if (!has(ts.SyntaxKind.ExportKeyword)) return [];
  if (has(ts.SyntaxKind.DefaultKeyword)) return ['default'];
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.flatMap(({ name }) => bound(name));
  }
  const { name } = statement as unknown as { name?: ts.Identifier };
  return name === undefined ? [] : [name.text];
}

function listed({ exportClause, moduleSpecifier }: ts.ExportDeclaration): readonly string[] {
  if (exportClause === undefined) return [`* from ${(moduleSpecifier as ts.StringLiteral).text}`];
  return ts.isNamespaceExport(exportClause)
    ? [exportClause.name.text]
    : exportClause.elements.map((element) => element.name.text);
}

function bound(name: ts.BindingName): readonly string[] {
  if (ts.isIdentifier(name)) return [name.text];
  return name.elements.flatMap((part) => (ts.isOmittedExpression(part) ? [] : bound(part.name)));
}
