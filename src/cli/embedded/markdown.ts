const FENCE = /^ {0,3}(`{3,}(?!.*`)|~{3,})/u;
const ATX = /^ {0,3}#{1,6}(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/u;
const UNDERLINE = /^ {0,3}(?:=+|-+)[ \t]*$/u;
/** A line that begins something other than a paragraph. */
const OTHER_BLOCK =
  /^ {0,3}(?:>|[-+*](?:[ \t]|$)|\d{1,9}[.)](?:[ \t]|$)|<[a-zA-Z/!?])|^(?: {4}|\t)/u;
const BREAK = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/u;

/**
 * The headings of a Markdown text, in order: both `# …` and underlined ones. What stands in
 * fenced or indented code, in comments or in front matter is no heading.
 */
export function markdownHeadings(source: string): readonly string[] {
  const lines = withoutFrontMatter(source.replace(/^\uFEFF/u, '').split(/\r\n|\n|\r/u));
  const headings: string[] = [];
  let fence: string | undefined;
  let inComment = false;
  let paragraph: string[] = [];
  for (const line of lines) {
    if (fence !== undefined) {
      if (closesFence(line, fence)) fence = undefined;
      continue;
    }
    if (inComment) {
      inComment = !line.includes('-->');
      continue;
    }
    const opened = FENCE.exec(line)?.[1];
    const atx = ATX.exec(line);
    if (opened !== undefined) {
      fence = opened;
      paragraph = [];
    } else if (atx !== null) {
      headings.push((atx[1] ?? '').trim());
      paragraph = [];
    } else if (/^ {0,3}<!--/u.test(line)) {
      inComment = !line.includes('-->', line.indexOf('<!--') + 4);
      paragraph = [];
    } else if (paragraph.length > 0 && UNDERLINE.test(line)) {
      headings.push(paragraph.map((part) => part.trim()).join(' '));
      paragraph = [];
    } else if (line.trim() === '' || BREAK.test(line)) {
      paragraph = [];
    } else if (
      paragraph.length > 0 ? !/^ {0,3}(?:>|[-+*] )/u.test(line) : !OTHER_BLOCK.test(line)
    ) {
      paragraph.push(line);
    } else {
      paragraph = [];
    }
  }
  return headings;
}

/** Only a longer or equal run of the same sign, alone on its line, closes a fence. */
function closesFence(line: string, fence: string): boolean {
  const closing = /^ {0,3}(`+|~+)[ \t]*$/u.exec(line)?.[1];
  return closing !== undefined && closing[0] === fence[0] && closing.length >= fence.length;
}

function withoutFrontMatter(lines: readonly string[]): readonly string[] {
  if (lines[0] !== '---') return lines;
  const end = lines.findIndex((line, index) => index > 0 && (line === '---' || line === '...'));
  return end === -1 ? lines : lines.slice(end + 1);
}
