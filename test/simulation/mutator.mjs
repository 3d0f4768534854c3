/**
 * Changes a file in one place, as a tired hand might: a condition the other way round, a statement
 * that is missing, a bound that is one off, nobody waiting, a function that does nothing.
 */
import ts from 'typescript';

const { SyntaxKind: K } = ts;
const SWAPPED = new Map([
  [K.LessThanToken, '<='],
  [K.LessThanEqualsToken, '<'],
  [K.GreaterThanToken, '>='],
  [K.GreaterThanEqualsToken, '>'],
  [K.EqualsEqualsEqualsToken, '!=='],
  [K.ExclamationEqualsEqualsToken, '==='],
  [K.AmpersandAmpersandToken, '||'],
  [K.BarBarToken, '&&'],
]);

/** Every change that can be made of this text: `{ from, to, text, what, line }`, in its order. */
export function mutations(path, source) {
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true);
  const found = [];
  const add = (node, text, what) => {
    const from = node.getStart(file);
    const { line } = file.getLineAndCharacterOfPosition(from);
    found.push({
      path,
      from,
      to: node.getEnd(),
      text,
      what,
      line: line + 1,
      was: node.getText(file),
    });
  };
  const visit = (node) => {
    // Types say nothing at run time, and what only words a message is not looked at.
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isImportDeclaration(node))
      return;
    if (ts.isTypeAliasDeclaration(node) || ts.isTemplateExpression(node)) return;
    const condition =
      ts.isIfStatement(node) || ts.isWhileStatement(node) ? node.expression : node.condition;
    if (condition !== undefined && !ts.isForStatement(node)) {
      add(condition, `!(${condition.getText(file)})`, 'negates');
    }
    if (ts.isExpressionStatement(node) && !isSuper(node.expression)) add(node, ';', 'drops');
    if (ts.isBinaryExpression(node) && SWAPPED.has(node.operatorToken.kind)) {
      add(node.operatorToken, SWAPPED.get(node.operatorToken.kind), 'swaps');
    }
    if (ts.isAwaitExpression(node))
      add(node, `(${node.expression.getText(file)})`, 'does not await');
    if (node.kind === K.TrueKeyword) add(node, 'false', 'is false');
    if (node.kind === K.FalseKeyword) add(node, 'true', 'is true');
    if (ts.isThrowStatement(node)) add(node, ';', 'does not throw');
    const returnsNothing =
      node.type?.kind === K.VoidKeyword || /^Promise<void>$/.test(node.type?.getText(file) ?? '');
    if (
      (ts.isMethodDeclaration(node) || ts.isFunctionDeclaration(node)) &&
      node.body &&
      returnsNothing
    ) {
      add(node.body, '{}', 'does nothing');
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

const isSuper = (expression) =>
  ts.isCallExpression(expression) && expression.expression.kind === K.SuperKeyword;

/** A transform for `bundle` that makes this one change. */
export function mutant({ path, from, to, text }) {
  let isApplied = false;
  return {
    change(id, source) {
      if (!id.endsWith(`/${path}`)) return undefined;
      isApplied = true;
      return source.slice(0, from) + text + source.slice(to);
    },
    assertApplied() {
      if (!isApplied) throw new Error(`${path} is no part of the simulation.`);
    },
  };
}
