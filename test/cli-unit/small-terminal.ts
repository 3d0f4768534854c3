/** A terminal as far as the live tree needs one: it wraps, and wraps anew when it is resized. */
import { EventEmitter } from 'node:events';
import { columnsOf } from '../../src/cli/text.ts';

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

interface Row {
  cells: string[];
  /** True when the row goes on in the next one. */
  isWrapped: boolean;
}

export class SmallTerminal extends EventEmitter {
  readonly isTTY = true;
  /** What the stream believes; the terminal's own size is known at once by `getWindowSize`. */
  columns: number;
  rows = 24;
  #width: number;
  #screen: Row[] = [{ cells: [], isWrapped: false }];
  #row = 0;
  #column = 0;

  constructor(width: number) {
    super();
    this.columns = width;
    this.#width = width;
  }

  get stream(): NodeJS.WriteStream {
    return this as unknown as NodeJS.WriteStream;
  }

  getWindowSize(): [number, number] {
    return [this.#width, this.rows];
  }

  /** What is to be seen, without empty rows at the end. */
  get text(): string {
    return this.#screen
      .map(({ cells }) => cells.join('').trimEnd())
      .join('\n')
      .trimEnd();
  }

  /** The size changes; nobody is told yet. */
  reshape(width: number): void {
    const lines: string[][] = [[]];
    let at = { line: 0, offset: 0 };
    for (const [index, { cells, isWrapped }] of this.#screen.entries()) {
      const line = lines.at(-1) ?? [];
      if (index === this.#row) at = { line: lines.length - 1, offset: line.length + this.#column };
      line.push(...cells);
      if (!isWrapped) lines.push([]);
    }
    lines.pop();
    this.#width = width;
    this.#screen = [];
    for (const [index, line] of lines.entries()) {
      const rows = wrap(line, width);
      if (index === at.line) {
        this.#row = this.#screen.length + Math.min(rows.length - 1, Math.floor(at.offset / width));
        this.#column = at.offset % width;
      }
      this.#screen.push(...rows);
    }
  }

  /** The process hears of the size. */
  tell(): void {
    this.columns = this.#width;
    this.emit('resize');
  }

  write(text: string): boolean {
    const [plain = '', ...escapes] = text.split('\u001B[');
    this.#print(plain);
    for (const escape of escapes) {
      const [control = '', count = '', code = ''] = /^([?\d;]*)([A-Za-z])/u.exec(escape) ?? [];
      this.#control(code, count);
      this.#print(escape.slice(control.length));
    }
    return true;
  }

  #control(code: string, count: string): void {
    const row = this.#current();
    switch (code) {
      case 'A':
        this.#row = Math.max(0, this.#row - Number(count || 1));
        return;
      case 'B':
        this.#row = Math.min(this.#screen.length - 1, this.#row + Number(count || 1));
        return;
      case 'G':
        this.#column = Number(count || 1) - 1;
        return;
      case 'K':
        row.cells = count === '2' ? [] : row.cells.slice(0, this.#column);
        row.isWrapped = false;
        return;
      case 'J':
        row.cells = row.cells.slice(0, this.#column);
        row.isWrapped = false;
        this.#screen.splice(this.#row + 1);
        return;
      case 'm':
      case 'h':
      case 'l':
        return;
      default:
        throw new Error(`The small terminal does not know CSI ${count}${code}.`);
    }
  }

  #print(text: string): void {
    for (const { segment } of graphemes.segment(text)) {
      if (segment === '\r') this.#column = 0;
      else if (segment === '\n' || segment === '\r\n') this.#feed(false);
      else this.#put(segment);
    }
  }

  #put(segment: string): void {
    const width = columnsOf(segment);
    if (this.#column + width > this.#width) this.#feed(true);
    const { cells } = this.#current();
    while (cells.length < this.#column) cells.push(' ');
    cells.splice(this.#column, width, segment, ...Array.from({ length: width - 1 }, () => ''));
    this.#column += width;
  }

  #feed(isWrapped: boolean): void {
    this.#current().isWrapped = isWrapped;
    this.#row += 1;
    this.#column = 0;
    if (this.#row === this.#screen.length) this.#screen.push({ cells: [], isWrapped: false });
  }

  #current(): Row {
    const row = this.#screen[this.#row];
    if (row === undefined) throw new Error('The cursor left the screen.');
    return row;
  }
}

/** A character of two columns is never cut in two. */
function wrap(line: readonly string[], width: number): Row[] {
  const rows: Row[] = [{ cells: [], isWrapped: false }];
  for (let index = 0; index < line.length;) {
    const cells = [line[index] ?? ''];
    while (line[index + cells.length] === '') cells.push('');
    let row = rows.at(-1) as Row;
    if (row.cells.length + cells.length > width) {
      row.isWrapped = true;
      rows.push((row = { cells: [], isWrapped: false }));
    }
    row.cells.push(...cells);
    index += cells.length;
  }
  return rows;
}
