import { exportedNames } from './exports.ts';
import { markdownHeadings } from './markdown.ts';

/** What a child tells of one file. */
export interface FileSummary {
  readonly file: string;
  readonly headings: readonly string[];
  readonly exports: readonly string[];
  readonly lines: number;
}

/** The schema that a child's structured result must satisfy. */
export const FILE_SUMMARY_SCHEMA = {
  type: 'object',
  properties: {
    file: { type: 'string', description: 'The path as it was given.' },
    headings: { type: 'array', items: { type: 'string' }, description: 'Markdown headings.' },
    exports: { type: 'array', items: { type: 'string' }, description: 'Names the module exports.' },
    lines: { type: 'integer', description: 'Number of lines.' },
  },
  required: ['file', 'headings', 'exports', 'lines'],
  additionalProperties: false,
} as const;

const MARKDOWN = /\.(?:md|mdx|markdown)$/iu;
const CODE = /\.[cm]?[jt]sx?$/iu;

/** Made from the text alone: another text gives another summary. */
export function summarize(file: string, text: string): FileSummary {
  return {
    file,
    headings: MARKDOWN.test(file) ? markdownHeadings(text) : [],
    exports: CODE.test(file) ? exportedNames(text) : [],
    lines: countLines(text),
  };
}

/** A last line without a line break counts; an empty text has none. */
function countLines(text: string): number {
  const breaks = text.split('\n').length - 1;
  return text === '' || text.endsWith('\n') ? breaks : breaks + 1;
}

/** The summary in what a child returned, if it is one. */
export function parseSummary(text: string): FileSummary | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Not JSON: the child answered with words instead of a summary.
    return undefined;
  }
  const { file, headings, exports, lines } = (value ?? {}) as Partial<FileSummary>;
  const isNames = (list: unknown): list is readonly string[] =>
    Array.isArray(list) && list.every((name) => typeof name === 'string');
  if (typeof file !== 'string' || !isNames(headings) || !isNames(exports)) return undefined;
  return typeof lines === 'number' ? { file, headings, exports, lines } : undefined;
}
