/** The live tree on a terminal: redrawn in place, at most ten times a second. */
import { createLogUpdate } from 'log-update';
import { columnsOf } from './text.ts';
import type { TreeModel } from './tree-model.ts';
import { treeLines } from './tree-view.ts';

const REDRAW_MS = 100;

export class LiveTree {
  readonly #tree: TreeModel;
  readonly #stream: NodeJS.WriteStream;
  readonly #color: boolean;
  readonly #log: ReturnType<typeof createLogUpdate>;
  readonly #timer: NodeJS.Timeout;
  readonly #onResize = (): void => this.#redrawResized();
  #shown: readonly string[] = [];
  #isClosed = false;

  constructor(tree: TreeModel, stream: NodeJS.WriteStream, color: boolean) {
    this.#tree = tree;
    this.#stream = stream;
    this.#color = color;
    this.#log = createLogUpdate(stream);
    this.#timer = setInterval(() => this.#draw(), REDRAW_MS);
    this.#timer.unref();
    stream.on('resize', this.#onResize);
  }

  /** Draw the last state, leave it on the screen and give the cursor back. Idempotent. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#stream.off('resize', this.#onResize);
    this.#draw();
    this.#log.done();
  }

  #draw(): void {
    const { columns = 80, rows = 24 } = this.#stream;
    const lines = treeLines(this.#tree, {
      columns,
      rows: rows - 1,
      color: this.#color,
      now: Date.now(),
    });
    this.#shown = lines;
    if (lines.length > 0) this.#log(lines.join('\n'));
  }

  /**
   * The terminal has wrapped the old lines to its new width, so they take more rows than were
   * drawn. Erase what they take now, and begin anew.
   */
  #redrawResized(): void {
    const columns = Math.max(1, this.#stream.columns);
    const taken = this.#shown.reduce(
      (sum, line) => sum + Math.max(1, Math.ceil(columnsOf(line) / columns)),
      0,
    );
    if (taken > 0) this.#stream.write(`\r\u001B[${taken}A\u001B[0J`);
    this.#log.done();
    this.#draw();
  }
}
