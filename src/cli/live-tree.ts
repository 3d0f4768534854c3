/** The live tree on a terminal: redrawn in place, at most ten times a second. */
import { createLogUpdate } from 'log-update';
import { rowsOf } from './text.ts';
import type { TreeModel } from './tree-model.ts';
import { treeLines, type ViewOptions } from './tree-view.ts';

const REDRAW_MS = 100;

export type LiveTreeLook = Pick<ViewOptions, 'color' | 'isListing'>;

export class LiveTree {
  readonly #tree: TreeModel;
  readonly #stream: NodeJS.WriteStream;
  readonly #look: LiveTreeLook;
  readonly #log: ReturnType<typeof createLogUpdate>;
  readonly #timer: NodeJS.Timeout;
  readonly #onResize = (): void => this.#draw();
  /** What is on the screen, and the columns it was drawn for. */
  #shown: readonly string[] = [];
  #columns: number;
  #rows: number;
  #isClosed = false;

  constructor(tree: TreeModel, stream: NodeJS.WriteStream, look: LiveTreeLook) {
    this.#tree = tree;
    this.#stream = stream;
    this.#look = look;
    [this.#columns, this.#rows] = sizeOf(stream);
    this.#log = createLogUpdate(this.#sized());
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
    const [columns, rows] = sizeOf(this.#stream);
    const isReshaped = columns !== this.#columns;
    this.#columns = columns;
    this.#rows = rows;
    if (isReshaped) this.#eraseWrapped();
    const lines = treeLines(this.#tree, {
      columns,
      rows: rows - 1,
      ...this.#look,
      now: Date.now(),
    });
    this.#shown = lines;
    if (lines.length > 0) this.#log(lines.join('\n'));
  }

  /**
   * The terminal has wrapped the old lines to its new width, so they may take more rows than were
   * drawn. Erase what they take now, row by row: some terminals keep what is erased at once. What
   * was pushed beyond the top of the screen is out of reach.
   */
  #eraseWrapped(): void {
    const taken = this.#shown.reduce((sum, line) => sum + rowsOf(line, this.#columns), 0);
    const reachable = Math.min(taken, this.#rows - 1);
    if (reachable > 0) this.#stream.write(`\r${'\u001B[1A\u001B[2K'.repeat(reachable)}`);
    this.#log.done();
  }

  /** The stream, with the size that was drawn for: its own is that of the last signal. */
  #sized(): NodeJS.WriteStream {
    const columns = (): number => this.#columns;
    const rows = (): number => this.#rows;
    return Object.create(this.#stream, {
      columns: { get: columns },
      rows: { get: rows },
      write: { value: (text: string) => this.#stream.write(text) },
    }) as NodeJS.WriteStream;
  }
}

/** As it is now: a signal that tells of a change comes later than the change. */
function sizeOf(stream: NodeJS.WriteStream): [columns: number, rows: number] {
  const [columns = 0, rows = 0] = stream.getWindowSize();
  return [columns > 0 ? columns : 80, rows > 0 ? rows : 24];
}
