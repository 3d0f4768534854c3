import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { failureOf } from '../../protocol/model-failure.ts';
import { ZOO } from '../support/zoo.ts';

/** What the AI SDK throws for an HTTP answer or a connection that failed. */
const apiCall = (message: string, more: object = {}): Error =>
  Object.assign(new Error(message), { name: 'AI_APICallError', url: 'http://h:1/v1/x', ...more });

const caused = (code: string, cause: object = Object.assign(new Error(code), { code })): Error =>
  new TypeError('fetch failed', { cause });

describe('failureOf', () => {
  it('believes an error that carries its own failure of the same code', () => {
    const failure = { code: 'QUOTA', message: 'Enough.', status: 402, requestId: 'r' };
    expect(failureOf(Object.assign(new Error('x'), { code: 'QUOTA', failure }))).toEqual(failure);
    expect(failureOf(Object.assign(new Error('x'), { code: 'OTHER', failure }))).toEqual({
      code: 'UNKNOWN',
      message: 'x',
    });
  });

  it('drops what no failure can hold', () => {
    const failure = { code: 'A', message: 'b', status: 7, providerRetryAfterMs: -1, requestId: 3 };
    expect(failureOf({ code: 'A', failure })).toEqual({ code: 'A', message: 'b' });
  });

  it('takes the code of an error of this library', () => {
    expect(failureOf(new ArgumentError('No.'))).toEqual({
      code: 'INVALID_ARGUMENT',
      message: 'No.',
    });
  });

  it.each([
    ['a number of seconds', { 'retry-after': '2' }, 2_000],
    ['milliseconds', { 'retry-after': '2', 'retry-after-ms': '150' }, 150],
    [
      'a date, counted from the date of the answer',
      { date: 'Wed, 21 Oct 2026 07:28:00 GMT', 'retry-after': 'Wed, 21 Oct 2026 07:28:30 GMT' },
      30_000,
    ],
    ['nothing usable', { 'retry-after': 'soon' }, undefined],
    ['no time at all', { 'retry-after': '0' }, undefined],
  ])('reads a wish to wait: %s', (_name, responseHeaders, providerRetryAfterMs) => {
    const { providerRetryAfterMs: read } = failureOf(
      apiCall('Slow down.', { statusCode: 429, responseHeaders }),
    );
    expect(read).toBe(providerRetryAfterMs);
  });

  it.each([
    'prompt is too long: 210000 tokens > 200000 maximum',
    "This model's maximum context length is 8192 tokens",
    'the request exceeds the available context size',
    'input is too long for requested model',
  ])('recognises a full context: %s', (message) => {
    expect(failureOf(apiCall(message, { statusCode: 400 }))).toMatchObject({
      code: 'CONTEXT_WINDOW_EXCEEDED',
    });
  });

  it.each([
    ['ECONNREFUSED', 'TRANSPORT', 'Start the model server, or correct its address'],
    ['ENOTFOUND', 'TRANSPORT', 'no such host'],
    ['ECONNRESET', 'TRANSPORT', 'closed'],
    ['UND_ERR_SOCKET', 'TRANSPORT', 'closed'],
    ['UND_ERR_BODY_TIMEOUT', 'TIMEOUT', 'did not answer in time'],
  ])('finds %s under what fetch throws', (code, expected, hint) => {
    const found = failureOf(caused(code));
    expect(found.code).toBe(expected);
    expect(found.message).toContain(hint);
  });

  it('finds the network error among the attempts of a name with several addresses', () => {
    const attempt = Object.assign(new Error(''), { code: 'ECONNREFUSED' });
    const found = failureOf(caused('', new AggregateError([attempt, attempt], '')));
    expect(found.message).toContain('(ECONNREFUSED)');
  });

  it('shows an address without the secrets in it', () => {
    const url = 'https://user:secret@host.example/v1/models?key=secret';
    const error = apiCall('No.', { statusCode: 500, url });
    expect(failureOf(error).message).toBe('https://host.example/v1/models answered 500: No.');
  });

  it.each([
    ['AI_LoadAPIKeyError', 'MISSING_CREDENTIAL'],
    ['AI_EmptyResponseBodyError', 'EMPTY_RESPONSE'],
    ['AI_JSONParseError', 'INVALID_RESPONSE'],
    ['TimeoutError', 'TIMEOUT'],
  ])('knows %s', (name, code) => {
    expect(failureOf(Object.assign(new Error('x'), { name })).code).toBe(code);
  });

  it.each([
    [{ type: 'overloaded_error', message: 'Overloaded' }, 'SERVER'],
    [{ type: 'rate_limit_error', message: 'Slow' }, 'RATE_LIMIT'],
    [{ type: 'invalid_request_error', message: 'prompt is too long' }, 'CONTEXT_WINDOW_EXCEEDED'],
    [{ type: 'invalid_request_error', message: 'bad' }, 'INVALID_REQUEST'],
    [{ code: 502, message: 'Bad gateway' }, 'SERVER'],
    [{ message: 'x' }, 'UNKNOWN'],
    ['just text', 'UNKNOWN'],
    [undefined, 'UNKNOWN'],
  ])('reads an error object of a stream: %j', (error, code) => {
    const failure = failureOf(error);
    expect(failure.code).toBe(code);
    expect(failure.message).not.toBe('');
  });

  it('survives a cause that causes itself', () => {
    const error = new Error('round') as Error & { cause: unknown };
    error.cause = error;
    expect(failureOf(error)).toEqual({ code: 'UNKNOWN', message: 'round' });
  });
});

it.each(ZOO)('a failure can be told of %s', (_, make) => {
  expect(failureOf(make())).toEqual({
    code: expect.stringMatching(/./),
    message: expect.stringMatching(/./),
  });
});
