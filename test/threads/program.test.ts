import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { createHarness, createUserMessage, textOf } from '../../dist/src/index.js';
import { scriptedModel } from '../../dist/src/testing.js';
import { fixture, runProgram } from './real.ts';

describe('a process', () => {
  it('ends by itself while agents are idle and threads are kept warm', async () => {
    const { code, signal, stdout, stderr } = await runProgram('program.mjs', { args: ['idle'] });
    expect({ code, signal, stdout, stderr }).toEqual({
      code: 0,
      signal: null,
      stdout: 'completed\n',
      stderr: '',
    });
  });

  it('is kept alive by an agent that runs, and ends after it', async () => {
    const { code, stdout } = await runProgram('program.mjs', { args: ['running'] });
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'turn completed\n' });
  });

  it('shows nothing of what a child prints', async () => {
    const { code, stdout, stderr } = await runProgram('program.mjs', { args: ['printing'] });
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'completed\n', stderr: '' });
  });

  it('goes on beside a thread that cannot be ended, and says so', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'stuck-'));
    try {
      const args = ['stuck', join(folder, 'pipe')];
      const { code, stdout } = await runProgram('program.mjs', { args });
      expect(stdout).toBe('A thread cannot be ended.\naborted\ncompleted\n');
      expect(code).toBe(0);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it.each([
    ['on the command line', { flags: ['--max-old-space-size=900'] }],
    ['in NODE_OPTIONS', { env: { NODE_OPTIONS: '--max-old-space-size=900' } }],
  ])('refuses a limit that a heap flag %s makes void', async (_, more) => {
    const { code, stdout } = await runProgram('program.mjs', { args: ['limits'], ...more });
    expect(code).toBe(0);
    const [refused, unlimited] = stdout.trim().split('\n');
    expect(refused).toMatch(/^MEMORY_LIMIT_VOID: .*256 MiB.*'unlimited'/);
    expect(unlimited).toBe('completed');
  });
});

describe('a root agent whose process was killed in the middle of a turn', () => {
  it('is resumed with that turn closed, and runs what waited first', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'killed-'));
    const store = join(folder, 'agents.db');
    try {
      await killedAt('ready', ['killed', store]);
      const model = scriptedModel(({ messages }) => `Heard ${textOf(messages.at(-1)!.content)}.`);
      await using harness = await createHarness({
        store,
        models: { script: model },
        defaultModel: { provider: 'script', model: 'm' },
        workers: { warm: 0 },
      });
      const { agent } = await harness.agents.resume('root');
      const texts = (list: readonly { content: Parameters<typeof textOf>[0] }[]): string[] =>
        list.map(({ content }) => textOf(content));
      expect(agent.session.events.map(({ type }) => type).slice(-3)).toEqual([
        'step/end',
        'turn/end',
        'session/end-seed',
      ]);
      expect(agent.session.events.at(-2)?.data).toEqual({
        turn: 1,
        reason: { kind: 'interrupted' },
      });
      expect(texts(agent.inbox.nextTurn)).toEqual(['second']);
      expect(texts(agent.inbox.nextStep)).toEqual(['aside']);
      // Nothing runs by itself.
      expect(agent.status).toBe('idle');
      expect(model.requests).toEqual([]);

      agent.followup(createUserMessage('third'));
      await agent.whenIdle();
      expect(model.requests.map(({ messages }) => texts(messages))).toEqual([
        ['first', 'aside', 'second'],
        ['first', 'aside', 'second', 'Heard second.', 'third'],
      ]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

/** Run the program until it says this, then kill it as nothing can be prepared for. */
function killedAt(word: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [fileURLToPath(fixture('program.mjs')), ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let isKilled = false;
    child.stdout.on('data', (text: Buffer) => {
      if (!text.toString().includes(word)) return;
      isKilled = true;
      child.kill('SIGKILL');
    });
    child.on('error', reject);
    child.on('close', (code) => {
      if (isKilled) resolve();
      else reject(new Error(`The program ended by itself, with ${code}.`));
    });
  });
}
