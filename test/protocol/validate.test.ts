import { describe, expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import { ProtocolError } from '../../protocol/errors.ts';
import { DEFAULT_RETRY_POLICY } from '../../protocol/retry-policy.ts';
import { MAX_CONTROL_FRAME_BYTES, MAX_FRAME_BYTES } from '../../protocol/to-main.ts';
import { checkCall, decodeFrame } from '../../protocol/validate.ts';

const violation = expect.objectContaining({ code: 'PROTOCOL_VIOLATION' }) as ProtocolError;
const stepEnd = { type: 'step/end', data: { turn: 1, step: 1 } };
const events = (...list: readonly unknown[]): object => ({ type: 'events', from: 0, events: list });
const message = {
  id: 'm1',
  role: 'assistant',
  content: [
    { type: 'text', text: 'a' },
    { type: 'reasoning', text: 'b' },
    { type: 'tool-call', id: 'c1', name: 'read', arguments: '{}' },
  ],
  source: { kind: 'model', provider: 'p', model: 'm', replayState: { any: [1] } },
};
const committed = (more: object = {}, changed: object = {}): object =>
  events({
    type: 'assistant/message',
    data: { turn: 1, step: 1, stream: 's', parts: 3, message: { ...message, ...changed }, ...more },
  });
const chunk = (part: unknown): object =>
  events({ type: 'assistant/chunk', data: { turn: 1, step: 1, stream: 's', chunk: part } });
const turnEnd = (reason: unknown): object =>
  events({ type: 'turn/end', data: { turn: 1, reason } });
const failure = {
  message: 'no',
  code: 'AUTH',
  status: 401,
  providerRetryAfterMs: 5,
  requestId: 'r',
};
const error = {
  name: 'Error',
  code: 'UNKNOWN',
  message: 'no',
  stack: 'at',
  cause: { name: 'Error', code: 'X', message: '' },
};

function caused(causes: number): object {
  return causes === 0 ? error : { ...error, cause: caused(causes - 1) };
}
function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = { value };
  return value;
}

describe('decodeFrame', () => {
  it.each<[string, object]>([
    ['up', { type: 'up', protocol: 1, heapLimitBytes: 1e9, node: 'v20' }],
    ['up with a tid', { type: 'up', protocol: 1, heapLimitBytes: 1, node: 'v20', tid: 4_194_304 }],
    ['ready', { type: 'ready', tools: [{ name: 'a', description: '', parameters: {} }] }],
    ['ready with a policy', { type: 'ready', tools: [], retryPolicy: DEFAULT_RETRY_POLICY }],
    ['events', events(stepEnd, { type: 'step/end', data: { turn: 2, step: 9 } })],
    ['a message', committed({ usage: { inputTokens: 1, outputTokens: 2 }, interrupted: true })],
    ['a message without content', committed({}, { content: [] })],
    ['the start of a block', chunk({ type: 'block-start', index: 0, blockType: 'text' })],
    ['a text delta', chunk({ type: 'text-delta', index: 0, text: 'x' })],
    ['a call delta', chunk({ type: 'tool-call-delta', index: 0, id: 'c', argumentsDelta: '' })],
    ['the end of a block', chunk({ type: 'block-end', index: 0, block: message.content[2] })],
    ['usage', chunk({ type: 'usage', usage: { inputTokens: 0, outputTokens: 0 } })],
    ['a finish', chunk({ type: 'finish', reason: { kind: 'stop' }, replayState: null })],
    ['a failed finish', chunk({ type: 'finish', reason: { kind: 'error', failure } })],
    ['a turn end', turnEnd({ kind: 'aborted' })],
    ['a failed turn end', turnEnd({ kind: 'error', error: failure })],
    ['call', { type: 'call', message: {} }],
    ['ack', { type: 'ack', taken: 0 }],
    ['stopped', { type: 'stopped', reason: '' }],
    ['fault', { type: 'fault', error, turn: 3 }],
  ])('takes %s as it is', (_, frame) => {
    const bytes = pack(frame);
    expect(decodeFrame(bytes)).toEqual({ frame, bytes: bytes.byteLength });
  });

  it.each<[string, unknown]>([
    ['an object', { type: 'ack', taken: 0 }],
    ['a text', 'ack'],
    ['nothing', undefined],
    ['an ArrayBuffer', pack({ type: 'ack', taken: 0 }).buffer],
    ['another view', new Uint16Array(4)],
    ['an error', new Error('x')],
  ])('refuses %s instead of bytes', (_, received) => {
    expect(() => decodeFrame(received)).toThrow(violation);
  });

  it('refuses a view of memory that the thread can still change', () => {
    const packed = pack({ type: 'ack', taken: 0 });
    const shared = new Uint8Array(new SharedArrayBuffer(packed.byteLength));
    shared.set(packed);
    expect(() => decodeFrame(shared)).toThrow(violation);
  });

  it('refuses memory that may grow, which is reserved up to what it may grow to', () => {
    const packed = pack({ type: 'ack', taken: 0 });
    const Growing = ArrayBuffer as unknown as new (
      bytes: number,
      options: { maxByteLength: number },
    ) => ArrayBuffer;
    const large = new Growing(packed.byteLength, { maxByteLength: 2 ** 30 });
    new Uint8Array(large).set(packed);
    expect(() => decodeFrame(new Uint8Array(large))).toThrow(violation);
    expect(() => decodeFrame(new Uint8Array(large, 0, packed.byteLength))).toThrow(violation);
  });

  it('refuses a small view of a large buffer', () => {
    const packed = pack({ type: 'ack', taken: 0 });
    const large = new Uint8Array(MAX_FRAME_BYTES + 1);
    large.set(packed);
    expect(() => decodeFrame(large.subarray(0, packed.byteLength))).toThrow(violation);
  });

  it.each<[string, unknown]>([
    ['no packed value', { bytes: Uint8Array.from([0xc1]) }],
    ['more bytes than allowed', { bytes: new Uint8Array(MAX_FRAME_BYTES + 1) }],
    ['a number', 1],
    ['null', null],
    ['a list', []],
    ['no type', { taken: 0 }],
    ['an unknown type', { type: 'wake' }],
    ['the type of an inherited key', { type: 'constructor' }],
    ['a type that is no text', { type: ['ack'], taken: 0 }],
    ['an extra key', { type: 'ack', taken: 0, extra: 1 }],
    ['an own __proto__', JSON.parse('{"type":"ack","taken":0,"__proto__":{"x":1}}')],
    ['a missing key', { type: 'ack' }],
    ['a count below zero', { type: 'ack', taken: -1 }],
    ['a count that is no integer', { type: 'ack', taken: 0.5 }],
    ['a count that is no number', { type: 'ack', taken: '0' }],
    ['a large control frame', { type: 'stopped', reason: 'x'.repeat(MAX_CONTROL_FRAME_BYTES) }],
    ['deep nesting', { type: 'call', message: nested(70) }],
    ['too many keys', { type: 'call', message: { a: Array.from({ length: 300_000 }, () => 0) } }],
    ['no events', events()],
    ['an event without data', events({ type: 'step/end' })],
    ['an unknown event', events({ type: 'turn/start', data: { turn: 1 } })],
    ['an event that is main’s to write', events({ type: 'tool/result', data: {} })],
    ['a retry, which is main’s to decide', events({ type: 'llm/retry', data: {} })],
    ...Object.entries({
      maxRetries: -1,
      retryableCodes: [1],
      initialDelayMs: -1,
      maxDelayMs: Infinity,
      jitterRatio: 2,
      more: 1,
    }).map(([key, value]): [string, object] => [
      `a retry policy with ${key} ${value}`,
      { type: 'ready', tools: [], retryPolicy: { ...DEFAULT_RETRY_POLICY, [key]: value } },
    ]),
    ['an event with a seq of its own', events({ ...stepEnd, seq: 1 })],
    ['turn 0', events({ type: 'step/end', data: { turn: 0, step: 1 } })],
    [
      'a turn beyond the cancel cell',
      events({ type: 'step/end', data: { turn: 2 ** 28, step: 1 } }),
    ],
    ['a message of a user', committed({}, { role: 'user' })],
    ['a message with a foreign source', committed({}, { source: { kind: 'user' } })],
    [
      'a message with a tool result',
      committed({}, { content: [{ type: 'tool-result', toolCallId: 'c', content: [] }] }),
    ],
    ['a block with an extra key', committed({}, { content: [{ type: 'text', text: 'a', b: 1 }] })],
    [
      'a call without an id',
      committed({}, { content: [{ type: 'tool-call', id: '', name: 'a', arguments: '' }] }),
    ],
    ['interrupted: false', committed({ interrupted: false })],
    ['usage below zero', committed({ usage: { inputTokens: -1, outputTokens: 0 } })],
    ['an unknown part', chunk({ type: 'image', index: 0 })],
    ['a delta without an index', chunk({ type: 'text-delta', text: 'x' })],
    ['an unknown finish', chunk({ type: 'finish', reason: { kind: 'refusal' } })],
    ['a failed finish without a failure', chunk({ type: 'finish', reason: { kind: 'error' } })],
    ['a stop with a failure', chunk({ type: 'finish', reason: { kind: 'stop', failure } })],
    ['a failed turn without an error', turnEnd({ kind: 'error' })],
    ['a completed turn with an error', turnEnd({ kind: 'completed', error: failure })],
    ['a turn end with its own cause', turnEnd({ kind: 'aborted', reason: { kind: 'user' } })],
    ['a turn end only repair may write', turnEnd({ kind: 'interrupted' })],
    ['a failure without a code', turnEnd({ kind: 'error', error: { message: 'x', code: '' } })],
    [
      'a failure with an impossible status',
      turnEnd({ kind: 'error', error: { ...failure, status: 7 } }),
    ],
    [
      'a tool with a name no model may see',
      { type: 'ready', tools: [{ name: 'a b', description: '', parameters: {} }] },
    ],
    ['a fault without an error', { type: 'fault' }],
    ['a long error', { type: 'fault', error: { ...error, message: 'x'.repeat(5_000) } }],
    [
      'an error with a long stack',
      { type: 'fault', error: { ...error, stack: 'x'.repeat(9_000) } },
    ],
    ['an error with a cause that is none', { type: 'fault', error: { ...error, cause: {} } }],
    ['an error with five causes', { type: 'fault', error: caused(5) }],
    ['a long failure', turnEnd({ kind: 'error', error: { ...failure, message: 'x'.repeat(2e4) } })],
  ])('refuses a frame with %s', (_, frame) => {
    const own = (frame as { bytes?: Uint8Array } | null)?.bytes;
    expect(() => decodeFrame(own ?? pack(frame))).toThrow(violation);
  });

  it('takes a large frame of events, and no larger one', () => {
    const text = (size: number): Uint8Array =>
      pack(committed({}, { content: [{ type: 'text', text: 'x'.repeat(size) }] }));
    expect(decodeFrame(text(MAX_FRAME_BYTES - 1_000)).bytes).toBeLessThanOrEqual(MAX_FRAME_BYTES);
    expect(() => decodeFrame(text(MAX_FRAME_BYTES))).toThrow(violation);
  });
});

describe('checkCall', () => {
  const raw = (...values: readonly unknown[]): object[] =>
    values.map((value) => ({ type: 'RAW', value }));
  const call = (name: string, ...values: readonly unknown[]): Record<string, unknown> => ({
    id: 'i1',
    type: 'APPLY',
    path: [name],
    argumentList: raw(...values),
  });
  const claim = call('claim', 'turn', false);
  const request = { turn: 1, step: 1, callId: 'c', name: 'read', arguments: '{}' };
  const outcome = { ok: true, value: null, content: [{ type: 'text', text: 'x' }] };
  /** As it arrives: through a frame. */
  const sent = (forged: unknown): unknown => {
    const { frame } = decodeFrame(pack({ type: 'call', message: forged }));
    return checkCall((frame as { message: unknown }).message);
  };

  it.each<[string, object]>([
    ['claim', claim],
    ['callTool', call('callTool', { ...request, concurrencySafe: true })],
    ['callTool without a name', call('callTool', { ...request, name: '' })],
    ['finishTool', call('finishTool', 'c', outcome)],
    [
      'finishTool with contexts',
      call('finishTool', 'c', {
        ...outcome,
        concludesTurn: true,
        contexts: [{ id: 'm', role: 'user', content: [], source: { kind: 'user' } }],
      }),
    ],
    ['finishTool of a failure', call('finishTool', 'c', { ok: false, error })],
    ['openModel', call('openModel', { turn: 1, step: 1, attempt: 1 })],
  ])('lets %s through', (_, message) => {
    expect(sent(message)).toEqual(message);
  });

  it.each<[string, unknown]>([
    ['GET', { id: 'i', type: 'GET', path: ['claim'] }],
    ['GET dressed as a call', { ...claim, type: 'GET' }],
    ['SET', { id: 'i', type: 'SET', path: ['claim'], value: { type: 'RAW', value: 1 } }],
    ['SET dressed as a call', { ...claim, type: 'SET' }],
    ['CONSTRUCT', { ...claim, type: 'CONSTRUCT' }],
    ['ENDPOINT', { id: 'i', type: 'ENDPOINT' }],
    ['ENDPOINT dressed as a call', { ...claim, type: 'ENDPOINT' }],
    ['RELEASE', { id: 'i', type: 'RELEASE' }],
    ['RELEASE dressed as a call', { ...claim, type: 'RELEASE' }],
    ['no type', { id: 'i', path: ['claim'], argumentList: raw('turn', false) }],
    ['an empty path', { ...claim, path: [] }],
    ['a longer path', { ...claim, path: ['claim', 'call'] }],
    ['a path to a constructor', { ...claim, path: ['constructor'] }],
    ['a path through a prototype', { ...claim, path: ['__proto__', 'claim'] }],
    ['a path to an inherited function', { ...claim, path: ['toString'] }],
    ['a path that is text', { ...claim, path: 'claim' }],
    ['a path with a list in it', { ...claim, path: [['claim']] }],
    ['another service', { ...claim, path: ['dispose'] }],
    [
      'a HANDLER argument',
      { ...claim, argumentList: [{ type: 'HANDLER', name: 'proxy', value: 1 }, ...raw(false)] },
    ],
    [
      'a HANDLER argument dressed as data',
      { ...claim, argumentList: [{ type: 'HANDLER', value: 'turn' }, ...raw(false)] },
    ],
    [
      'a throw HANDLER argument',
      { ...claim, argumentList: [{ type: 'HANDLER', name: 'throw', value: {} }] },
    ],
    [
      'an argument with a name',
      { ...claim, argumentList: [{ type: 'RAW', value: 'turn', name: 'x' }, ...raw(false)] },
    ],
    ['an argument that is no object', { ...claim, argumentList: ['turn', false] }],
    ['an argument that is null', { ...claim, argumentList: [null, null] }],
    ['arguments that are no list', { ...claim, argumentList: { length: 2 } }],
    ['an extra key', { ...claim, value: 1 }],
    ['a transfer list', { ...claim, transfer: [] }],
    ['an own __proto__', JSON.parse(JSON.stringify(claim).replace('"id"', '"__proto__":{},"id"'))],
    ['no id', { ...claim, id: '' }],
    ['an id that is no text', { ...claim, id: 1 }],
    ['a very long id', { ...claim, id: 'x'.repeat(129) }],
    ['an unknown boundary', call('claim', 'now', false)],
    ['too few arguments', call('claim', 'turn')],
    ['too many arguments', call('claim', 'turn', false, 1)],
    ['an extra key in a request', call('callTool', { ...request, agent: 'another' })],
    ['a request without arguments', call('callTool', { turn: 1, step: 1, callId: 'c', name: 'a' })],
    ['an outcome of two kinds', call('finishTool', 'c', { ...outcome, error })],
    ['an outcome of no kind', call('finishTool', 'c', { value: 1 })],
    [
      'an outcome with other content',
      call('finishTool', 'c', { ...outcome, content: [{ type: 'html' }] }),
    ],
    ['a context of a model', call('finishTool', 'c', { ...outcome, contexts: [message] })],
    ['attempt 0', call('openModel', { turn: 1, step: 1, attempt: 0 })],
  ])('refuses %s', (_, forged) => {
    expect(() => sent(forged)).toThrow(violation);
  });

  it.each([null, undefined, 1, 'call', []])('refuses %j for a call', (forged) => {
    expect(() => checkCall(forged)).toThrow(ProtocolError);
  });

  it('still checks after a thread sent a polluting key', () => {
    expect(() => sent(JSON.parse('{"__proto__":{"type":"APPLY"},"id":"i"}'))).toThrow(violation);
    expect(sent(claim)).toEqual(claim);
    expect(({} as Record<string, unknown>)['type']).toBeUndefined();
  });
});
