/** A part of a file's text, as `read_file` shows it: one line that says which, then the text. */
export interface Page {
  readonly text: string;
  /** Where the next page begins; absent at the end. */
  readonly next?: number;
}

export const PAGE_CHARACTERS = 64 * 1024;

/** The page from `offset` on. A character made of two halves is never cut in two. */
export function showPage(path: string, text: string, offset: number): string {
  let end = Math.min(text.length, offset + PAGE_CHARACTERS);
  if (end < text.length && /[\uDC00-\uDFFF]/u.test(text.charAt(end))) end -= 1;
  const more = end < text.length ? `; continue with offset ${end}` : '';
  return `[${path}: characters ${offset} to ${end} of ${text.length}${more}]\n${text.slice(offset, end)}`;
}

/** Read back what {@link showPage} wrote. */
export function pageText(shown: string): Page {
  const headEnd = shown.indexOf('\n');
  const next = /; continue with offset (\d+)\]$/u.exec(shown.slice(0, headEnd))?.[1];
  const text = shown.slice(headEnd + 1);
  return next === undefined ? { text } : { text, next: Number(next) };
}
