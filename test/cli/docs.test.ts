import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { says, startOpenAiServer } from '../support/openai-server.ts';
import { folderWith, MAIN, REPOSITORY, start, type Folder, type Running } from './command-line.ts';

const PAGE = readFileSync(join(REPOSITORY, 'docs/cli.md'), 'utf8');
const COMMANDS = [...PAGE.matchAll(/^```sh\n([^]*?)^```$/gmu)].flatMap(([, block = '']) =>
  block
    .replaceAll(/\\\n|\n(?= )/gu, ' ')
    .trim()
    .split('\n'),
);
const DEFINITION = /^```markdown\n([^]*?)^```$/mu.exec(PAGE)?.[1] ?? '';
/** Ends when somebody ends it. */
const STAYS = /--watch|--follow|serve --http/u;
/** Asks one that stays. */
const ASKS = /^curl /u;
const CHANGES = /subagents (?:send|interrupt|drain|export|import|doctor|rm) /u;
const VERBS = [
  ...'run ls show send interrupt drain export import rm doctor bench serve'.split(' '),
];
const ENV = { LLM_KEY: 'k', SUBAGENTS_TOKEN: 't' };

/** In a shell, as it stands, but for who answers and for the ids. Resolves to its exit code. */
async function inShell(folder: Folder, command: string, url: string): Promise<number | null> {
  const line = command
    .replaceAll('npx subagents', `'${process.execPath}' '${MAIN}'`)
    .replaceAll('http://127.0.0.1:8080/v1', url)
    .replaceAll('3f9c', 'main')
    .replaceAll('77ab', 'kept');
  const { PATH = '' } = process.env;
  const options = { cwd: folder.path, env: { PATH, ...ENV }, stdio: 'ignore' } as const;
  const [code] = (await once(spawn('sh', ['-c', line], options), 'close')) as [number | null];
  return code;
}

/** A process that runs one root, which has answered once. */
async function prompted(folder: Folder, sessionId: string, store: string): Promise<Running> {
  const args = [MAIN, 'serve', '--stdio', '--store', store];
  const run = start(args, { cwd: folder.path, input: 'open' });
  const params = { sessionId, contentBlocks: [{ type: 'text', text: 'Hello' }] };
  const asked = { jsonrpc: '2.0', id: 1, method: 'session/prompt', params };
  run.process.stdin?.write(`${JSON.stringify(asked)}\n`);
  await run.wrote(/"status":"idle"/u);
  return run;
}

it('has no command in its page that does not do what the page says', async () => {
  await using server = await startOpenAiServer({ respond: () => ({ chunks: says('Fine.') }) });
  await using folder = await folderWith({
    'a.md': '# a\n',
    'task.md': 'Summarise.',
    '.agents/reviewer.md': DEFINITION,
  });
  const kept = await prompted(folder, 'kept', 'kept.db');
  kept.process.stdin?.end();
  await kept.finished;
  // One session is run by another process all the time.
  const running = await prompted(folder, 'main', 'runs.db');
  const carryOut = async (command: string): Promise<void> => {
    if (!STAYS.test(command)) {
      expect([command, await inShell(folder, command, server.url)]).toEqual([command, 0]);
      return;
    }
    const args = command.replace('npx subagents ', '').replace('3f9c', 'main').split(' ');
    const staying = start([MAIN, ...args], { cwd: folder.path, env: ENV });
    await staying.wrote(/\S/u);
    const asked = command.includes('--http') ? COMMANDS.filter((each) => ASKS.test(each)) : [];
    for (const each of asked)
      expect([each, await inShell(folder, each, server.url)]).toEqual([each, 0]);
    staying.process.kill('SIGINT');
    expect([command, (await staying.finished).code]).toEqual([command, 130]);
  };
  // Two at once: those that change something in their order, and those that do not.
  const rows = [true, false].map((changes) =>
    COMMANDS.filter((each) => CHANGES.test(each) === changes && !ASKS.test(each)),
  );
  const inOrder = async (commands: readonly string[]): Promise<void> => {
    for (const each of commands) await carryOut(each);
  };
  const ends = await Promise.allSettled(rows.map(inOrder));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  running.process.stdin?.end();
  expect((await running.finished).code).toBe(0);
}, 600_000);

it.each(VERBS)('says in its page what %s is for', (verb) => {
  expect(PAGE).toMatch(new RegExp(`^\\| .*\`${verb}\``, 'mu'));
  expect(COMMANDS.some((command) => command.includes(`npx subagents ${verb} `))).toBe(true);
});
