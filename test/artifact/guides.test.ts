/** The guides: each program is run as it stands, and prints what its page says. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { pages } from '../support/pages.ts';
import { commandsOf, printedBy, ProgramFolder } from '../support/page-programs.ts';

let folder: ProgramFolder;
beforeAll(() => {
  folder = new ProgramFolder('guides');
});
afterEach(() => folder.stopAll());
afterAll(() => folder.remove());

const ID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

it.each([
  ['reviewers', 'reviewers.mjs'],
  ['runaway', 'runaway.mjs'],
  ['provider', 'provider.mjs'],
  ['tool-module', 'uses-primes.mjs'],
])('prints what the guide %s says', async (guide, file) => {
  const { stdout, stderr } = await folder.run(file);
  expect(stderr).toBe('');
  expect([stdout]).toEqual(printedBy(`docs/guides/${guide}.md`));
});

it('asks the same researcher in another process', async () => {
  const ask = async (command: string): Promise<readonly string[]> => {
    const { stdout, stderr } = await folder.shell(command);
    expect(stderr).toBe('');
    return stdout.split('\n');
  };
  const [monday = '', tuesday = '', ...more] = commandsOf('docs/guides/researcher.md');
  expect(more).toEqual([]);
  const first = await ask(monday);
  const second = await ask(tuesday);
  expect(first[0]).toBe('I have asked.');
  expect(first.at(-1)).toMatch(/Answer 1\. The first question: Research: why is the sea salty\?$/);
  expect(second[0]).toBe('I have asked.');
  expect(second.at(-1)).toMatch(/Answer 2\. The first question: Research: why is the sea salty\?$/);
  // The very same child.
  const idsOf = (lines: readonly string[]): unknown => lines.join(' ').match(ID);
  expect(idsOf(first)).toHaveLength(1);
  expect(idsOf(second)).toEqual(idsOf(first));
});

describe.each(['hono', 'express'])('a server with %s', (framework) => {
  const json = { 'content-type': 'application/json' };
  const say = (url: string, body: object): Promise<Response> =>
    fetch(`${url}/conversations/c1`, {
      method: 'POST',
      headers: json,
      body: JSON.stringify(body),
    });

  /** Events as a browser reads them, up to the first of a type. */
  async function read(
    url: string,
    type: string,
    headers: Record<string, string> = {},
  ): Promise<readonly { readonly id: number; readonly type: string; readonly data: string }[]> {
    const leave = new AbortController();
    const { signal } = leave;
    const response = await fetch(`${url}/conversations/c1/events`, { headers, signal });
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    let text = '';
    const parse = () =>
      text
        .split('\n\n')
        .slice(0, -1)
        .map((block) => {
          const field = (name: string): string =>
            new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1] ?? '';
          return { id: Number(field('id')), type: field('event'), data: field('data') };
        });
    const body = response.body ?? [];
    try {
      for await (const chunk of body) {
        text += Buffer.from(chunk as Uint8Array).toString('utf8');
        const events = parse();
        if (events.some((event) => event.type === type)) return events;
      }
    } finally {
      leave.abort();
    }
    return parse();
  }

  it('keeps what is said, streams the log, and goes on after a restart', async () => {
    let server = await folder.serve(`${framework}.mjs`);
    const accepted = await say(server.url, { text: 'Hello' });
    expect(accepted.status).toBe(202);
    expect(await accepted.json()).toEqual({ messageId: expect.stringMatching(/./) as string });

    const events = await read(server.url, 'turn/end');
    expect(events.map(({ id }) => id)).toEqual(events.map((_, at) => at));
    const { data = '' } = events.find(({ type }) => type === 'assistant/message') ?? {};
    expect(data).toContain('I have read');
    // One that was cut off goes on behind what it has seen.
    const rest = await read(server.url, 'turn/end', { 'last-event-id': '3' });
    expect(rest[0]?.id).toBe(4);
    expect(rest.at(-1)).toEqual(events.at(-1));

    const refused = await say(server.url, { text: 7 });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ code: 'INVALID_ARGUMENT' });
    const stopped = await fetch(`${server.url}/conversations/c1/turn`, { method: 'DELETE' });
    expect(stopped.status).toBe(204);

    // A reader that stays does not keep it.
    const staying = read(server.url, 'never');
    expect(await server.stop()).toBe(0);
    expect(await staying.catch(() => 'cut')).toBeDefined();

    server = await folder.serve(`${framework}.mjs`);
    expect((await say(server.url, { text: 'Again' })).status).toBe(202);
    const last = events.at(-1)?.id ?? 0;
    const later = await read(server.url, 'assistant/message', { 'last-event-id': `${last}` });
    expect(later.every(({ id }) => id > last)).toBe(true);
    expect(await server.stop()).toBe(0);
  });
});

it('asks an OpenAI-compatible server, and says what it refused', async () => {
  const server = await folder.serve('fake-server.mjs');
  const [command = '', ...more] = commandsOf('docs/guides/openai-compatible.md');
  expect(more).toEqual([]);
  const here = command.replace('http://127.0.0.1:8080/v1', server.url);
  const { stdout, stderr } = await folder.shell(here);
  expect([stdout, stderr]).toEqual(['Paris, says qwen3.', '']);
  const failed = await folder.shell(`API_KEY=secret MODEL=none ${here}`);
  expect(failed.stdout).toBe('');
  expect(failed.stderr).toMatch(/^error INVALID_REQUEST .* 404: There is no such model\.$/);
  expect(await server.stop()).toBe(0);
});

it('has a guide for each task, and no command but those that are run here', () => {
  const guides = pages.filter((page) => page.startsWith('docs/guides/'));
  expect(guides.map((page) => page.slice('docs/guides/'.length, -3))).toEqual([
    'embed',
    'openai-compatible',
    'provider',
    'researcher',
    'reviewers',
    'runaway',
    'tool-module',
  ]);
  const withCommands = guides.filter((page) => commandsOf(page).length > 0);
  expect(withCommands).toEqual(['docs/guides/openai-compatible.md', 'docs/guides/researcher.md']);
});
