/** The tree as lines for a terminal: pure, from data and a size to text. */
import type { AgentRow, AgentState, TreeModel } from './tree-model.ts';
import { cleanLine, columnsOf, duration, fit, fitRight, tokenCount } from './text.ts';

export interface ViewOptions {
  readonly columns: number;
  /** Lines that may be used. */
  readonly rows: number;
  readonly color: boolean;
  readonly now: number;
}

const ICONS: Readonly<Record<AgentState, string>> = {
  starting: '○',
  running: '●',
  completed: '✓',
  failed: '✗',
  stopped: '■',
};
const COLORS: Readonly<Record<AgentState, number>> = {
  starting: 90,
  running: 36,
  completed: 32,
  failed: 31,
  stopped: 33,
};
/** Which rows stay when not all fit: what runs and what failed before what is done. */
const RANKS: Readonly<Record<AgentState, number>> = {
  running: 0,
  failed: 1,
  stopped: 1,
  starting: 2,
  completed: 3,
};

export function treeLines(tree: TreeModel, options: ViewOptions): readonly string[] {
  const { root } = tree;
  if (root === undefined) return [];
  const room = Math.max(1, options.rows - 1);
  const lines: string[] = [];
  layOut(root, visibleRows(root, tree.rows, room), [], lines, options);
  return [...lines.slice(0, room), statusLine(tree.rows, options)].slice(0, options.rows);
}

/** The root, then rows by rank with their ancestors, as long as they and their folds fit. */
function visibleRows(
  root: AgentRow,
  rows: readonly AgentRow[],
  room: number,
): ReadonlySet<AgentRow> {
  if (rows.length <= room) return new Set(rows);
  const byId = new Map(rows.map((row) => [row.id, row]));
  const visible = new Set([root]);
  let lines = 2;
  const candidates = rows
    .map((row, index) => ({ row, index }))
    .sort((a, b) => RANKS[a.row.state] - RANKS[b.row.state] || b.index - a.index);
  for (const { row } of candidates) {
    const chain: AgentRow[] = [];
    for (
      let each: AgentRow | undefined = row;
      each !== undefined && !visible.has(each);
      each = each.parent === undefined ? undefined : byId.get(each.parent)
    ) {
      chain.push(each);
    }
    // Each new row costs its line, and one more if some of its own children stay folded.
    const cost = chain.reduce((sum, each) => sum + (each.children.length > 0 ? 2 : 1), 0);
    if (lines + cost > room) continue;
    lines += cost;
    for (const each of chain) visible.add(each);
  }
  return visible;
}

function layOut(
  row: AgentRow,
  visible: ReadonlySet<AgentRow>,
  trail: readonly boolean[],
  lines: string[],
  options: ViewOptions,
): void {
  lines.push(rowLine(row, branch(trail), options));
  const shown = row.children.filter((child) => visible.has(child));
  const folded = row.children.filter((child) => !visible.has(child));
  for (const [index, child] of shown.entries()) {
    const isLast = index === shown.length - 1 && folded.length === 0;
    layOut(child, visible, [...trail, isLast], lines, options);
  }
  if (folded.length > 0) {
    const text = `${branch([...trail, true])}… ${folded.length} more (${countStates(folded)})`;
    lines.push(paint(fit(text, options.columns - 1).trimEnd(), 90, options));
  }
}

function branch(trail: readonly boolean[]): string {
  return trail
    .map((isLast, index) => {
      if (index < trail.length - 1) return isLast ? '   ' : '│  ';
      return isLast ? '└─ ' : '├─ ';
    })
    .join('');
}

function rowLine(row: AgentRow, prefix: string, options: ViewOptions): string {
  // One column stays free: a full line makes some terminals wrap.
  const columns = options.columns - 1;
  const stateWidth = 9;
  const timeWidth = 7;
  const tokenWidth = 6;
  const fixed = stateWidth + timeWidth + tokenWidth + 3;
  const hasTail = columns >= 75;
  const nameWidth = hasTail ? Math.min(48, columns - fixed - 23) : columns - fixed;
  const label = `${prefix}${ICONS[row.state]} ${cleanLine(row.label)}`;
  const state = paint(fit(row.state, stateWidth), COLORS[row.state], options);
  if (nameWidth < 12) return `${fit(label, columns - stateWidth - 1)} ${state}`.trimEnd();
  const cells = [
    fit(label, nameWidth),
    state,
    fitRight(duration((row.endedAt ?? options.now) - row.startedAt), timeWidth),
    fitRight(row.hasUsage ? tokenCount(row.inputTokens + row.outputTokens) : '', tokenWidth),
  ];
  const tail = row.failure === undefined ? lastLine(row) : row.failure.code;
  if (hasTail) cells.push(` ${fit(tail, columns - nameWidth - fixed - 2)}`);
  return cells.join(' ').trimEnd();
}

const lastLine = (row: AgentRow): string =>
  row.state === 'completed' ? '' : cleanLine(row.lastLine);

function statusLine(rows: readonly AgentRow[], options: ViewOptions): string {
  const [root, ...children] = rows;
  const tokens = rows.reduce((sum, row) => sum + row.inputTokens + row.outputTokens, 0);
  const elapsed = duration((root?.endedAt ?? options.now) - (root?.startedAt ?? options.now));
  const counts = children.length === 0 ? 'no children yet' : countStates(children);
  const used = rows.some((row) => row.hasUsage) ? ` · ${tokenCount(tokens)} tokens` : '';
  const text = `${counts}${used} · ${elapsed}`;
  const width = Math.min(columnsOf(text), options.columns - 1);
  return paint(fit(text, width), 1, options);
}

const STATES: readonly AgentState[] = ['running', 'starting', 'completed', 'failed', 'stopped'];

function countStates(rows: readonly AgentRow[]): string {
  return STATES.map((state) => [state, rows.filter((row) => row.state === state).length] as const)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count} ${state}`)
    .join(', ');
}

function paint(text: string, code: number, { color }: ViewOptions): string {
  return color ? `\u001B[${code}m${text}\u001B[0m` : text;
}
