import { stripVTControlCharacters } from 'node:util';
import stringWidth from 'string-width';

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/**
 * One line that is safe to print: what a model or a tool wrote can hold sequences that move the
 * cursor or change the terminal.
 */
export function cleanLine(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/[\p{Cc}\u200E\u200F\u2028-\u202E\u2066-\u2069]+/gu, ' ')
    .trim();
}

/** The same for a text of several lines. What turns the direction of text round is left out too. */
export function cleanText(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/\r\n?/gu, '\n')
    .replace(/[\u202A-\u202E\u2066-\u2069]|[^\P{Cc}\n\t]/gu, '');
}

/** An address as it may be shown: without a user name and a password. */
export const withoutSecrets = (address: string): string =>
  address.replace(/^([^/?#]*\/\/)?[^/?#]*@/u, '$1…@');

/** Exactly `width` columns: padded, or cut with an ellipsis. */
export function fit(text: string, width: number): string {
  const columns = stringWidth(text);
  if (columns <= width) return text + ' '.repeat(width - columns);
  let kept = '';
  let used = 0;
  for (const { segment } of graphemes.segment(text)) {
    const more = stringWidth(segment);
    if (used + more > width - 1) break;
    kept += segment;
    used += more;
  }
  return width <= 0 ? '' : `${kept}…${' '.repeat(width - 1 - used)}`;
}

export function fitRight(text: string, width: number): string {
  return ' '.repeat(Math.max(0, width - stringWidth(text))) + text;
}

/** How many rows of a terminal a line takes. A character of two columns is never cut in two. */
export function rowsOf(text: string, columns: number): number {
  let rows = 1;
  let used = 0;
  for (const { segment } of graphemes.segment(stripVTControlCharacters(text))) {
    const more = stringWidth(segment);
    if (used > 0 && used + more > columns) {
      rows += 1;
      used = 0;
    }
    used += more;
  }
  return rows;
}

export const columnsOf = (text: string): number => stringWidth(text);

/** `0.4 s`, `59.9 s`, `12:03`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}

/** `312`, `4.1k`, `2.0M`. */
export function tokenCount(count: number): string {
  if (count < 1000) return String(count);
  if (count < 999_950) return `${(count / 1000).toFixed(1)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}
