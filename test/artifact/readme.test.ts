/** Every program in the README and in docs/ runs as it stands, against the built package. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pages, readPage } from '../support/pages.ts';
import { pagePrograms, printedBy, ProgramFolder } from '../support/page-programs.ts';

let folder: ProgramFolder;
beforeAll(() => {
  folder = new ProgramFolder('pages');
});
afterAll(() => folder.remove());

const start = async (file: string): Promise<readonly string[]> => {
  const { stdout, stderr } = await folder.run(file);
  expect(stderr).toBe('');
  return stdout.split('\n');
};

it('names every program that a page shows', () => {
  expect(pagePrograms.map(({ page, file }) => `${page} ${file}`)).toEqual([
    'README.md first.mjs',
    'README.md host.mjs',
    'README.md tools/word-count.mjs',
    'docs/continuable.md continuing.mjs',
    'docs/continuable.md interrupting.mjs',
    'docs/continuable.md contributing.mjs',
    'docs/delegation.md persona.mjs',
    'docs/delegation.md hooks.mjs',
    'docs/delegation.md scope.mjs',
    'docs/guides/embed.md conversations.mjs',
    'docs/guides/embed.md hono.mjs',
    'docs/guides/embed.md express.mjs',
    'docs/guides/openai-compatible.md ask.mjs',
    'docs/guides/openai-compatible.md fake-server.mjs',
    'docs/guides/provider.md provider.mjs',
    'docs/guides/researcher.md researcher.mjs',
    'docs/guides/reviewers.md reviewers.mjs',
    'docs/guides/runaway.md tools/spin.mjs',
    'docs/guides/runaway.md runaway.mjs',
    'docs/guides/tool-module.md tools/primes.mjs',
    'docs/guides/tool-module.md uses-primes.mjs',
    'docs/isolation.md tools/read.mjs',
    'docs/isolation.md stuck.mjs',
    'docs/sessions.md listing.mjs',
    'docs/sessions.md following.mjs',
    'docs/sessions.md lines.mjs',
    'docs/testing.md testing.mjs',
  ]);
  const blocks = pages.flatMap((page) => readPage(page).match(/^```js$/gm) ?? []);
  expect(blocks).toHaveLength(pagePrograms.length);
});

describe('the page on isolation', () => {
  it('shows how a process ends whose thread cannot be ended', async () => {
    const [printed] = printedBy('docs/isolation.md');
    const ended = folder.run('stuck.mjs');
    await expect(ended).rejects.toMatchObject({ signal: 'SIGKILL', stdout: `${printed}\n` });
  });
});

describe('the README', () => {
  it('shows a parent that delegates and reads the answer', async () => {
    const lines = await start('first.mjs');
    expect(lines[0]).toMatch(/^child \S+ completed$/);
    expect(lines[1]).toBe('My child says six.');
  });

  it('shows a host that starts a child by itself', async () => {
    expect(await start('host.mjs')).toEqual([
      "completed [ { type: 'text', text: 'Paris.' } ] undefined",
    ]);
  });

  it('shows a tool that a thread can load', async () => {
    folder.write(
      'uses-tool.mjs',
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
    expect(await start('uses-tool.mjs')).toEqual(['3']);
  });
});

describe('the page of children that go on', () => {
  it('shows a start, what the parent hears, and a follow-up to a settled child', async () => {
    expect(await start('continuing.mjs')).toEqual([
      'subagent-settled Six words.',
      'undefined',
      'subagent-settled Four of them are short.',
    ]);
  });

  it('shows an interrupt that keeps what waits', async () => {
    expect(await start('interrupting.mjs')).toEqual(['true 1', 'completed']);
  });

  it('shows a contribution that gives every child a tool', async () => {
    expect(await start('contributing.mjs')).toEqual(['Halfway.', 'All done.']);
  });
});

describe('the page of delegation', () => {
  it('shows a persona with variables, and a tool filter', async () => {
    expect(await start('persona.mjs')).toEqual([
      'You review for Acme. Today is Monday.',
      "[ 'read_file' ]",
    ]);
  });

  it('shows every hook at work', async () => {
    expect(await start('hooks.mjs')).toEqual([
      '1 OVERLOADED',
      'deploy Error: Not on Fridays.',
      'completed I am sorry, not on Fridays. 1000',
    ]);
  });

  it('shows a scope that withdraws what it owns', async () => {
    expect(await start('scope.mjs')).toEqual([
      'told: completed',
      'It is noon.',
      'It is noon again.',
    ]);
  });
});

it('shows in the page of testing a script, a gate and a watch', async () => {
  expect(await start('testing.mjs')).toEqual(['as expected']);
});

describe('the page on sessions', () => {
  it('shows a settled child in a listing', async () => {
    expect(await start('listing.mjs')).toEqual(['1 child continuable scout inactive ready']);
  });

  it('shows a log that is followed while it grows', async () => {
    expect(await start('following.mjs')).toEqual([
      expect.stringMatching(/^\d+ \[ \{ type: 'text', text: 'One\.' \} \]$/),
      expect.stringMatching(/^\d+ \[ \{ type: 'text', text: 'Two\.' \} \]$/),
    ]);
  });

  it('shows a session that goes to a file and comes back', async () => {
    expect(await start('lines.mjs')).toEqual(['1 turn/end']);
  });
});
