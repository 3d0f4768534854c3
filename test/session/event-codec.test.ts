import { describe, expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { Json } from '../../protocol/json.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import {
  decodeCheckpoint,
  decodeEvent,
  decodeHeader,
  encodeEntry,
  headerField,
  UNREADABLE,
} from '../../src/session/event-codec.ts';
import { header, inStep, toolCall, toolResult } from './log-parts.ts';

const JSON_TEXT = '{'.charCodeAt(0);

/** A result of a tool with this beside it, at the end of a log. */
function resultWith(meta: Json): SessionEvent {
  const session = inStep();
  const { seq } = session.append('tool/call', toolCall('c'));
  session.append('tool/result', { ...toolResult('c'), meta }, { sources: [seq] });
  return session.events.at(-1) as SessionEvent;
}

const bodiesOf = (...events: readonly SessionEvent[]): readonly Uint8Array[] =>
  encodeEntry({ id: SessionId('a'), epoch: 1, events }).bodies;

const parsed = (json: string): Json => JSON.parse(json) as Json;

describe('the bytes of an event', () => {
  it.each([
    ['packed when packing gives it back', parsed('{"a":[1,"ä",null]}'), false],
    ['text for half a pair in a list', ['half \ud83d'], true],
    ['text for half a pair as a key', { 'half \ud83d': 1 }, true],
    ['text for a key that is a prototype elsewhere', parsed('{"__proto__":{"a":1}}'), true],
    ['text for more than unpacking takes', Array.from({ length: 100_001 }, () => 0), true],
    ['text for deeper than unpacking takes', parsed('['.repeat(70) + ']'.repeat(70)), true],
  ])('are %s', (_, meta, isText) => {
    const event = resultWith(meta);
    const [body = new Uint8Array()] = bodiesOf(event);
    expect(body[0] === JSON_TEXT).toBe(isText);
    expect(decodeEvent(event.seq, body)).toEqual(event);
  });

  it('are none for events that are copied', () => {
    const { events } = inStep();
    const entry = { id: SessionId('a'), epoch: 1, events };
    expect(encodeEntry(entry, 1).bodies).toEqual(bodiesOf(...events.slice(1)));
  });

  it('name the session of an event that cannot be written down', () => {
    const event = { ...resultWith(1), data: { toJSON: () => fail(), half: '\ud83d' } };
    expect(() => bodiesOf(event as never)).toThrow(
      expect.objectContaining({ code: 'STORE_CORRUPT', message: expect.stringContaining('`a`') }),
    );
  });

  it.each([
    ['cut off', Uint8Array.of(JSON_TEXT), 'STORE_CORRUPT'],
    ['no object', pack(7), 'STORE_CORRUPT'],
    ['of a type to come', pack({ type: 'dream/start', time: 1, data: {} }), /newer version/],
  ])('are refused when they are %s', (_, body, why) => {
    const error = thrownBy(() => decodeEvent(3, body));
    expect(error).toMatchObject({ message: expect.stringContaining('event 3') });
    if (typeof why === 'string') expect(error).toMatchObject({ code: why });
    else expect(error).toMatchObject({ code: 'STORE_FORMAT_UNSUPPORTED' });
  });
});

describe('the bytes of a header', () => {
  it.each([
    ['another version', { version: 1 }, 'STORE_FORMAT_UNSUPPORTED'],
    ['a field that is none', { seedLength: -1 }, 'STORE_CORRUPT'],
  ])('are refused with %s', (_, more, code) => {
    const body = pack({ ...header('a'), ...more });
    expect(thrownBy(() => decodeHeader('a', body))).toMatchObject({ name: 'StoreError', code });
  });

  it('say what they can of a header that cannot be read as a whole', () => {
    const damaged = pack({ id: 'a', version: 0, parentSession: 'p', seedLength: 'many' });
    expect(headerField(damaged, 'parentSession')).toBe('p');
    expect(headerField(damaged, 'seedLength')).toBeNull();
    expect(headerField(damaged, 'origin')).toBe(UNREADABLE);
    expect(headerField(Uint8Array.of(JSON_TEXT), 'parentSession')).toBeNull();
    expect(headerField(pack({ ...header('a') }), 'origin')).toBeNull();
  });
});

it('makes nothing of a checkpoint that is no object, or no JSON', () => {
  expect(decodeCheckpoint(2, '{"k":{"ver":1,"val":0}}')).toEqual({
    seq: 2,
    rows: { k: { ver: 1, val: 0 } },
  });
  for (const body of ['[]', '7', '{']) expect(decodeCheckpoint(2, body)).toBeUndefined();
});

function fail(): never {
  throw new RangeError('no');
}

function thrownBy(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}
