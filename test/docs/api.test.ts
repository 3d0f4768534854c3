/** The API reference is what the docstrings say now, and nothing in it is left unsaid. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { root } from '../support/imports.ts';

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'api-test-'));
const committed = join(root, 'docs/api');
const read = (from: string, page: string): string => readFileSync(join(from, page), 'utf8');
const pages = readdirSync(committed).sort();
let said = '';

beforeAll(async () => {
  const args = [join(root, 'scripts/docs.mjs'), folder];
  // Ends with a failure, and what it says, when a docstring or an export is missing.
  const { stdout, stderr } = await run(process.execPath, args, { cwd: tmpdir() });
  said = `${stdout}${stderr}`;
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the API reference', () => {
  it('is generated without a warning', () => {
    expect(said.trim().split('\n').sort()).toEqual(pages);
  });

  it.each(pages)('has in %s what is generated now: `npm run docs` writes it', (page) => {
    expect(read(committed, page)).toBe(read(folder, page));
  });

  it('has pages in which something can be found, and no place of this machine', () => {
    for (const page of pages) {
      const text = read(committed, page);
      expect(text.length).toBeLessThan(60_000);
      expect(text).not.toMatch(/\/(tmp|home|work|root)\//);
    }
  });
});
