/** Every program in the README runs as it stands, against the built package. */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** Inside the package, so that its own name resolves to it. */
const folder = join(root, '.artifacts', 'readme');
const run = promisify(execFile);

interface Program {
  readonly file: string;
  readonly code: string;
}

/** The `js` blocks, named by their first line. */
function programs(): Program[] {
  const text = readFileSync(join(root, 'README.md'), 'utf8');
  return [...text.matchAll(/^```js\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)].map(([, file, code]) => ({
    file: file ?? '',
    code: code ?? '',
  }));
}

const start = async (file: string): Promise<string> =>
  (await run(process.execPath, [join(folder, file)], { cwd: folder, timeout: 30_000 })).stdout;

describe('the README', () => {
  beforeAll(() => {
    for (const { file, code } of programs()) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), code);
    }
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('names every program it shows', () => {
    expect(programs().map(({ file }) => file)).toEqual([
      'first.mjs',
      'host.mjs',
      'tools/word-count.mjs',
    ]);
    const text = readFileSync(join(root, 'README.md'), 'utf8');
    expect(text.match(/^```js$/gm)).toHaveLength(programs().length);
  });

  it('shows a parent that delegates and reads the answer', async () => {
    const lines = (await start('first.mjs')).trim().split('\n');
    expect(lines[0]).toMatch(/^child \S+ completed$/);
    expect(lines[1]).toBe('My child says six.');
  });

  it('shows a host that starts a child by itself', async () => {
    expect((await start('host.mjs')).trim()).toBe(
      "completed [ { type: 'text', text: 'Paris.' } ] undefined",
    );
  });

  it('shows a tool that a thread can load', async () => {
    writeFileSync(
      join(folder, 'uses-tool.mjs'),
      [
        "import { createHarness, createUserMessage, textOf } from 'subagent-runtime';",
        "import { scriptedModel } from 'subagent-runtime/testing';",
        'const script = [',
        "  { toolCalls: [{ name: 'count_words', arguments: { text: 'one two three' } }] },",
        '  ({ messages }) => textOf(messages.at(-1).content[0].content),',
        '];',
        'const harness = await createHarness({',
        '  models: { script: scriptedModel(script) },',
        "  defaultModel: { provider: 'script', model: 'demo' },",
        "  tools: [{ module: new URL('./tools/word-count.mjs', import.meta.url) }],",
        '});',
        'const { agent } = await harness.agents.create();',
        "agent.followup(createUserMessage('count'));",
        'await agent.whenIdle();',
        'console.log(textOf(agent.session.deriveMessages().at(-1).content));',
        'await harness.dispose();',
      ].join('\n'),
    );
    expect((await start('uses-tool.mjs')).trim()).toBe('3');
  });
});
