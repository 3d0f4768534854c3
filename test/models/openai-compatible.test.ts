import type { ModelPart, ModelRequest } from '../../protocol/model.ts';
import type { OpenAiCompatibleOptions } from '../../src/models/openai-compatible.ts';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { MessageId } from '../../protocol/ids.ts';
import { streamModel } from '../../protocol/model-stream.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { openaiCompatible } from '../../src/models/openai-compatible.ts';
import {
  calls,
  chunk,
  fails,
  says,
  startOpenAiServer,
  usageChunk,
} from '../support/openai-server.ts';

const request: ModelRequest = {
  provider: 'local',
  model: 'test-model',
  system: 'Be brief.',
  messages: [
    {
      id: MessageId('m1'),
      role: 'user',
      content: [{ type: 'text', text: 'Hi' }],
      source: { kind: 'user' },
    },
  ],
};

async function answer(
  options: OpenAiCompatibleOptions,
  asked: Partial<ModelRequest> = {},
  signal = new AbortController().signal,
): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  const adapter = openaiCompatible(options);
  for await (const part of streamModel(adapter, { ...request, ...asked }, signal)) parts.push(part);
  return parts;
}

const failure = (parts: readonly ModelPart[]): object | undefined => {
  const last = parts.at(-1);
  return last?.type === 'finish' && last.reason.kind === 'error' ? last.reason.failure : undefined;
};

describe('openaiCompatible', () => {
  it('streams text as the server sends it, with disjoint token counts', async () => {
    await using server = await startOpenAiServer({
      respond: () => ({ chunks: [...says('Hel', 'lo'), usageChunk(12, 3)] }),
    });
    const parts = await answer(
      { baseURL: server.url, apiKey: 'k-1', headers: { 'X-Team': 'acme' } },
      { maxTokens: 50, temperature: 0.5, stop: ['END'] },
    );
    expect(parts).toEqual([
      { type: 'block-start', index: 0, blockType: 'text' },
      { type: 'text-delta', index: 0, text: 'Hel' },
      { type: 'text-delta', index: 0, text: 'lo' },
      { type: 'block-end', index: 0, block: { type: 'text', text: 'Hello' } },
      {
        type: 'usage',
        usage: { inputTokens: 12, outputTokens: 3, cacheReadTokens: 0, reasoningTokens: 0 },
      },
      { type: 'finish', reason: { kind: 'stop' } },
    ]);
    const [seen] = server.requests;
    expect(seen?.path).toBe('/v1/chat/completions');
    expect(seen?.headers).toMatchObject({ authorization: 'Bearer k-1', 'x-team': 'acme' });
    expect(seen?.body).toMatchObject({
      model: 'test-model',
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 50,
      temperature: 0.5,
      stop: ['END'],
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hi' },
      ],
    });
  });

  it('offers tools and streams the calls of one answer', async () => {
    await using server = await startOpenAiServer({
      respond: () => ({
        chunks: calls(
          { id: 'c1', name: 'add', arguments: { a: 1 } },
          { id: 'c2', name: 'add', arguments: { a: 2 } },
        ),
      }),
    });
    const parameters = { type: 'object', properties: { a: { type: 'number' } } } as const;
    const parts = await answer(
      { baseURL: server.url },
      { tools: [{ name: 'add', description: 'Adds.', parameters }] },
    );
    const ends = parts.filter((part) => part.type === 'block-end').map((part) => part.block);
    expect(ends).toEqual([
      { type: 'tool-call', id: 'c1', name: 'add', arguments: '{"a":1}' },
      { type: 'tool-call', id: 'c2', name: 'add', arguments: '{"a":2}' },
    ]);
    expect(parts.at(-1)).toEqual({ type: 'finish', reason: { kind: 'tool-calls' } });
    expect(server.requests[0]?.body['tools']).toEqual([
      { type: 'function', function: { name: 'add', description: 'Adds.', parameters } },
    ]);
  });

  it('closes the connection at once when the request is aborted, whatever the reason', async () => {
    await using server = await startOpenAiServer({
      respond: () => ({ chunks: [chunk({ content: 'Hel' })], ending: 'hang' }),
    });
    const controller = new AbortController();
    const parts: ModelPart[] = [];
    const adapter = openaiCompatible({ baseURL: server.url });
    for await (const part of streamModel(adapter, request, controller.signal)) {
      parts.push(part);
      if (part.type === 'text-delta') controller.abort(new Error('not an AbortError'));
    }
    expect(parts.at(-1)).toMatchObject({ type: 'finish', reason: { kind: 'aborted' } });
    expect(await server.closed(0)).toBe('cut');
  });

  it('closes the connection of a request that is aborted before any answer', async () => {
    await using server = await startOpenAiServer({ respond: () => ({ hang: true }) });
    const controller = new AbortController();
    const parts = answer({ baseURL: server.url }, {}, controller.signal);
    await server.arrived(0);
    controller.abort();
    expect(await parts).toMatchObject([{ type: 'finish', reason: { kind: 'aborted' } }]);
    expect(await server.closed(0)).toBe('cut');
  });

  it('fails with TIMEOUT and closes the connection when the server falls silent', async () => {
    await using server = await startOpenAiServer({
      respond: () => ({ chunks: [chunk({ content: 'Hel' })], ending: 'hang' }),
    });
    const parts = await answer({ baseURL: server.url, idleMs: 100 });
    expect(failure(parts)).toEqual({
      code: 'TIMEOUT',
      message: 'The provider sent nothing for 0.1 s.',
    });
    expect(await server.closed(0)).toBe('cut');
  });

  it.each([
    [401, 'AUTH', {}],
    [403, 'AUTH', {}],
    [404, 'INVALID_REQUEST', {}],
    [408, 'TIMEOUT', {}],
    [429, 'RATE_LIMIT', { headers: { 'retry-after': '7', 'x-request-id': 'r-9' } }],
    [429, 'QUOTA', { code: 'insufficient_quota' }],
    [500, 'SERVER', {}],
    [503, 'SERVER', {}],
  ])('turns status %i into %s', async (status, code, more) => {
    await using server = await startOpenAiServer({ respond: () => fails(status, 'No.', more) });
    const parts = await answer({ baseURL: server.url, apiKey: 'k' });
    expect(parts).toHaveLength(1);
    expect(failure(parts)).toMatchObject({
      code,
      status,
      message: expect.stringContaining(`${server.url}/chat/completions answered ${status}: No.`),
      ...('headers' in more ? { providerRetryAfterMs: 7_000, requestId: 'r-9' } : {}),
    });
  });

  it.each([
    ['a plain text', 'no model "m"\n  is loaded here', ': no model "m" is loaded here'],
    ['another JSON', { detail: 'No such model.' }, ': {"detail":"No such model."}'],
    ['a web page', ' <!doctype html><p>Not here</p>', ''],
    ['nothing', '', ''],
    ['a long text', 'long '.repeat(200), `: ${'long '.repeat(100).slice(0, 499)}…`],
  ])('keeps what an error answer says when its body is %s', async (_name, body, said) => {
    await using server = await startOpenAiServer({ respond: () => ({ status: 404, body }) });
    expect(failure(await answer({ baseURL: server.url }))).toMatchObject({
      code: 'INVALID_REQUEST',
      message: `${server.url}/chat/completions answered 404: Not Found${said}`,
    });
  });

  it.each([
    ['bad key', 'bad key.'],
    ['Bad key!', 'Bad key!'],
  ])('ends "%s" as a sentence before its advice', async (given, said) => {
    await using server = await startOpenAiServer({ respond: () => fails(401, given) });
    expect(failure(await answer({ baseURL: server.url, apiKey: 'k' }))).toMatchObject({
      message: `${server.url}/chat/completions answered 401: ${said} Check the API key of this provider.`,
    });
  });

  it('says that a key is missing when none was given', async () => {
    await using server = await startOpenAiServer({ respond: () => fails(401, 'Who are you?') });
    expect(failure(await answer({ baseURL: server.url }))).toEqual({
      code: 'MISSING_CREDENTIAL',
      status: 401,
      message: `${server.url} wants an API key, and none was given: set "apiKey".`,
    });
  });

  it('tells a request that is too long for the model', async () => {
    await using server = await startOpenAiServer({
      respond: () => fails(400, "This model's maximum context length is 8192 tokens."),
    });
    expect(failure(await answer({ baseURL: server.url }))).toMatchObject({
      code: 'CONTEXT_WINDOW_EXCEEDED',
    });
  });

  it('names the address and what to do when nothing listens there', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    expect(failure(await answer({ baseURL: `http://127.0.0.1:${port}/v1` }))).toEqual({
      code: 'TRANSPORT',
      message:
        `Cannot reach http://127.0.0.1:${port}/v1/chat/completions (ECONNREFUSED): nothing is ` +
        'listening there. Start the model server, or correct its address.',
    });
  });

  it('fails with TRANSPORT when the connection breaks in mid-answer', async () => {
    await using server = await startOpenAiServer({
      respond: () => ({ chunks: [chunk({ content: 'Hel' })], ending: 'reset' }),
    });
    expect(failure(await answer({ baseURL: server.url }))).toMatchObject({ code: 'TRANSPORT' });
  });

  it('does not take an answer that broke off for a finished one', async () => {
    await using server = await startOpenAiServer({
      respond: () => ({ chunks: [chunk({ content: 'Hel' })], ending: 'end' }),
    });
    expect(failure(await answer({ baseURL: server.url }))).toEqual({
      code: 'TRANSPORT',
      message: "The model's answer broke off before its end.",
    });
  });

  it('fails when the server sends broken JSON in mid-stream', async () => {
    await using server = await startOpenAiServer({
      respond: () => ({ chunks: [chunk({ content: 'Hel' }), 'data: {"cho\n\n'], ending: 'hang' }),
    });
    const parts = await answer({ baseURL: server.url });
    expect(parts.map((part) => part.type)).toEqual(['block-start', 'text-delta', 'finish']);
    expect(failure(parts)).toMatchObject({ code: 'INVALID_RESPONSE' });
    expect(await server.closed(0)).toBe('cut');
  });

  it.each([
    ['a web page', { status: 200, body: '<html>Welcome</html>' }],
    ['nothing', { status: 200 }],
    ['only [DONE]', { chunks: [] }],
  ])('fails with EMPTY_RESPONSE when the server sends %s', async (_name, given) => {
    await using server = await startOpenAiServer({ respond: () => given });
    expect(failure(await answer({ baseURL: server.url }))).toMatchObject({
      code: 'EMPTY_RESPONSE',
    });
  });

  it('reports an error that the server sends inside its stream', async () => {
    await using server = await startOpenAiServer({
      respond: () => ({
        chunks: [chunk({ content: 'Hel' }), { error: { message: 'Slow down.', code: 429 } }],
      }),
    });
    expect(failure(await answer({ baseURL: server.url }))).toMatchObject({
      code: 'RATE_LIMIT',
      status: 429,
    });
  });

  it('tells an answer that was cut by its token limit', async () => {
    await using server = await startOpenAiServer({
      respond: () => ({ chunks: [chunk({ content: 'Hel' }), chunk({}, 'length')] }),
    });
    const parts = await answer({ baseURL: server.url });
    expect(parts.at(-1)).toEqual({ type: 'finish', reason: { kind: 'max-tokens' } });
  });

  it.each([
    ['no URL', { baseURL: 'localhost' }],
    ['no scheme', { baseURL: 'localhost:8080/v1' }],
    ['a file', { baseURL: 'file:///v1' }],
    ['a full endpoint', { baseURL: 'http://h/v1/chat/completions' }],
    ['a password', { baseURL: 'http://u:p@h/v1' }],
    ['an empty key', { baseURL: 'http://h/v1', apiKey: '' }],
    ['a broken header', { baseURL: 'http://h/v1', headers: { 'a b': 'c' } }],
    ['no time', { baseURL: 'http://h/v1', idleMs: 0 }],
  ])('refuses %s at once', (_name, options) => {
    expect(() => openaiCompatible(options)).toThrow(ArgumentError);
  });
});
