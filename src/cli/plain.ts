/** Progress as plain lines, for a pipe or a log file: one per start, retry and ending. */
import type { RuntimeEvent } from '../index.ts';
import { cleanLine, duration } from './text.ts';
import type { TreeModel } from './tree-model.ts';
import type { AgentRow } from './tree-row.ts';

export class PlainLines {
  readonly #tree: TreeModel;
  readonly #write: (line: string) => void;

  /** `tree` has folded each event before it is told here. */
  constructor(tree: TreeModel, write: (line: string) => void) {
    this.#tree = tree;
    this.#write = write;
  }

  tell(event: RuntimeEvent): void {
    if (event.type === 'subagent/end') {
      const row = this.#tree.row(event.id);
      if (row !== undefined) this.#line(event.time, row, ending(row));
      return;
    }
    if (event.type !== 'session/event') return;
    const row = this.#tree.row(event.session);
    if (row === undefined) return;
    const { type, time } = event.event;
    if (type === 'step/start' && event.event.data.step === 1) this.#line(time, row, 'started');
    if (type === 'llm/retry') this.#line(time, row, cleanLine(row.lastLine));
    if (type === 'turn/end' && row.parent === undefined) this.#line(time, row, ending(row));
  }

  #line(time: number, row: AgentRow, text: string): void {
    const since = time - (this.#tree.root?.startedAt ?? time);
    this.#write(`[${duration(since).padStart(7)}] ${cleanLine(row.label)}: ${text}`);
  }
}

function ending(row: AgentRow): string {
  const { state, failure, startedAt, endedAt = startedAt } = row;
  const tokens = row.inputTokens + row.outputTokens;
  const spent = `${duration(endedAt - startedAt)}${row.hasUsage ? `, ${tokens} tokens` : ''}`;
  if (failure === undefined) return `${state} (${spent})`;
  return `${state} (${spent}): ${failure.code}: ${cleanLine(failure.message)}`;
}
