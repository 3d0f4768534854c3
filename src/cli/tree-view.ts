/** The tree as lines for a terminal: pure, from data and a size to text. */
import { shortIds } from './session-ids.ts';
import { cleanLine, columnsOf, duration, fit, fitRight, tokenCount } from './text.ts';
import type { TreeModel } from './tree-model.ts';
import type { AgentRow, AgentState } from './tree-row.ts';

export interface ViewOptions {
  readonly columns: number;
  /** Lines that may be used. */
  readonly rows: number;
  readonly color: boolean;
  readonly now: number;
  /** Of a store: each row with as much of its id as tells it apart, and its last line. */
  readonly isListing?: boolean;
}

interface Look {
  readonly icon: string;
  readonly word: string;
  readonly color: number;
  /** Which rows stay when not all fit: what runs and what failed before what is done. */
  readonly rank: number;
}

/** In the order in which they are counted. */
const LOOKS: Readonly<Record<AgentState, Look>> = {
  running: { icon: '●', word: 'running', color: 36, rank: 0 },
  model: { icon: '◌', word: 'on model', color: 36, rank: 0 },
  tool: { icon: '◌', word: 'on tool', color: 36, rank: 0 },
  child: { icon: '◌', word: 'on child', color: 36, rank: 0 },
  starting: { icon: '○', word: 'starting', color: 90, rank: 2 },
  queued: { icon: '○', word: 'queued', color: 90, rank: 3 },
  idle: { icon: '–', word: 'idle', color: 90, rank: 2 },
  completed: { icon: '✓', word: 'completed', color: 32, rank: 4 },
  failed: { icon: '✗', word: 'failed', color: 31, rank: 1 },
  stopped: { icon: '■', word: 'stopped', color: 33, rank: 1 },
};

export function treeLines(tree: TreeModel, options: ViewOptions): readonly string[] {
  const { roots, rows } = tree;
  if (roots.length === 0) return [];
  const room = Math.max(1, options.rows - 1);
  const visible = visibleRows(roots, rows, room);
  const lines: string[] = [];
  const paper: Paper = { visible, lines, options, ids: idColumn(rows, options) };
  for (const root of roots) if (visible.has(root)) layOut(root, [], paper);
  fold(
    roots.filter((root) => !visible.has(root)),
    [],
    paper,
  );
  return [...lines.slice(0, room), statusLine(tree, options)].slice(0, options.rows);
}

/** What a tree is laid out on. */
interface Paper {
  readonly visible: ReadonlySet<AgentRow>;
  readonly lines: string[];
  readonly options: ViewOptions;
  readonly ids: { readonly width: number; of(row: AgentRow): string } | undefined;
}

function idColumn(rows: readonly AgentRow[], { isListing }: ViewOptions): Paper['ids'] {
  if (isListing !== true) return undefined;
  const ids = shortIds(rows.filter(({ hasSession }) => hasSession).map(({ id }) => id));
  const cleaned = new Map([...ids].map(([id, short]) => [id, cleanLine(short)]));
  const width = Math.min(12, Math.max(0, ...[...cleaned.values()].map(columnsOf)));
  return { width, of: ({ id }) => cleaned.get(id) ?? '' };
}

/** The first root, then rows by rank with their ancestors, as long as they and their folds fit. */
function visibleRows(
  roots: readonly AgentRow[],
  rows: readonly AgentRow[],
  room: number,
): ReadonlySet<AgentRow> {
  if (rows.length <= room) return new Set(rows);
  const byId = new Map(rows.map((row) => [row.id, row]));
  const visible = new Set(roots.slice(0, 1));
  let lines = roots.length > 1 ? 3 : 2;
  const candidates = rows
    .map((row, index) => ({ row, index }))
    .sort((a, b) => LOOKS[a.row.state].rank - LOOKS[b.row.state].rank || b.index - a.index);
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

function layOut(row: AgentRow, trail: readonly boolean[], paper: Paper): void {
  const { visible, lines } = paper;
  lines.push(rowLine(row, branch(trail), paper));
  const shown = row.children.filter((child) => visible.has(child));
  const folded = row.children.filter((child) => !visible.has(child));
  for (const [index, child] of shown.entries()) {
    const isLast = index === shown.length - 1 && folded.length === 0;
    layOut(child, [...trail, isLast], paper);
  }
  fold(folded, [...trail, true], paper);
}

/** One line for all of them. */
function fold(
  rows: readonly AgentRow[],
  trail: readonly boolean[],
  { lines, options, ids }: Paper,
): void {
  if (rows.length === 0) return;
  const indent = ids === undefined ? '' : ' '.repeat(ids.width + 1);
  const text = `${indent}${branch(trail)}… ${rows.length} more (${countStates(rows)})`;
  lines.push(paint(fit(text, options.columns - 1).trimEnd(), 90, options));
}

function branch(trail: readonly boolean[]): string {
  return trail
    .map((isLast, index) => {
      if (index < trail.length - 1) return isLast ? '   ' : '│  ';
      return isLast ? '└─ ' : '├─ ';
    })
    .join('');
}

const STATE_WIDTH = 9;
const TIME_WIDTH = 7;
const TOKEN_WIDTH = 6;
const FIXED_WIDTH = STATE_WIDTH + TIME_WIDTH + TOKEN_WIDTH + 3;

function rowLine(row: AgentRow, prefix: string, { options, ids }: Paper): string {
  const id = ids === undefined ? '' : `${fit(ids.of(row), ids.width)} `;
  // One column stays free: a full line makes some terminals wrap.
  const columns = options.columns - 1 - columnsOf(id);
  const hasTail = options.columns >= 76;
  const nameWidth = hasTail
    ? Math.min(48, columns - FIXED_WIDTH - (ids === undefined ? 23 : 19))
    : columns - FIXED_WIDTH;
  const { icon, word, color } = LOOKS[row.state];
  const label = `${prefix}${icon} ${cleanLine(row.label)}`;
  const state = paint(fit(word, STATE_WIDTH), color, options);
  if (nameWidth < 12) return `${id}${fit(label, columns - STATE_WIDTH - 1)} ${state}`.trimEnd();
  const cells = [
    fit(label, nameWidth),
    state,
    fitRight(duration(elapsed(row, options.now)), TIME_WIDTH),
    fitRight(row.hasUsage ? tokenCount(row.inputTokens + row.outputTokens) : '', TOKEN_WIDTH),
  ];
  const tail = row.failure === undefined ? lastLine(row, options) : row.failure.code;
  if (hasTail) cells.push(` ${fit(tail, columns - nameWidth - FIXED_WIDTH - 2)}`);
  return `${id}${cells.join(' ')}`.trimEnd();
}

/** Time at work: what it waited for others between two turns is none. */
const elapsed = ({ workedMs, workingSince }: AgentRow, now: number): number =>
  workedMs + (workingSince === undefined ? 0 : now - workingSince);

const lastLine = (row: AgentRow, { isListing }: ViewOptions): string =>
  row.state === 'completed' && isListing !== true ? '' : cleanLine(row.lastLine);

function statusLine({ roots, rows }: TreeModel, options: ViewOptions): string {
  const [root] = roots;
  const tokens = rows.reduce((sum, row) => sum + row.inputTokens + row.outputTokens, 0);
  const used = rows.some((row) => row.hasUsage) ? ` · ${tokenCount(tokens)} tokens` : '';
  const children = rows.filter((row) => row !== root);
  const text =
    options.isListing === true
      ? `${rows.length} ${rows.length === 1 ? 'session' : 'sessions'}: ${countStates(rows)}${used}`
      : `${children.length === 0 ? 'no children yet' : countStates(children)}${used} · ${duration(
          root === undefined ? 0 : elapsed(root, options.now),
        )}`;
  const width = Math.min(columnsOf(text), options.columns - 1);
  return paint(fit(text, width), 1, options);
}

function countStates(rows: readonly AgentRow[]): string {
  return Object.entries(LOOKS)
    .map(([state, { word }]) => [word, rows.filter((row) => row.state === state).length] as const)
    .filter(([, count]) => count > 0)
    .map(([word, count]) => `${count} ${word}`)
    .join(', ');
}

function paint(text: string, code: number, { color }: ViewOptions): string {
  return color ? `\u001B[${code}m${text}\u001B[0m` : text;
}
