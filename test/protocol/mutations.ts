/** Frames that a session really sends, and what a hostile thread could make of them. */
import { pack } from '../../protocol/codec.ts';
import { Dice } from '../interleavings/plan.ts';
import { testHarness } from '../support/harness.ts';

/** Every frame that threads posted in a small session: turns, tools, a failure, a child, a stop. */
export async function recordedFrames(): Promise<readonly Uint8Array[]> {
  const frames: Uint8Array[] = [];
  const script = [
    { text: ['Hel', 'lo'], reasoning: 'Well.', usage: { inputTokens: 3, outputTokens: 4 } },
    { toolCalls: [{ name: 'echo', arguments: { text: 'x', list: [1, 2.5, null, true, {}] } }] },
    'done',
    { failure: { code: 'AUTH', message: 'No.' } },
  ];
  await using t = await testHarness({
    script,
    tools: [
      {
        name: 'echo',
        description: 'Repeats.',
        parameters: { type: 'object' },
        execute: (args) => JSON.stringify(args),
      },
    ],
    threads: {
      made(thread) {
        const assign = thread.assign.bind(thread);
        thread.assign = (init) => {
          const port = assign(init);
          port.on('message', (value) => {
            if (value instanceof Uint8Array) frames.push(Uint8Array.from(value));
          });
          return port;
        };
      },
    },
  });
  for (const text of ['one', 'two', 'three']) await t.ask(text);
  return [...frames, ...rareFrames()];
}

/** Frames of every type, and events of every kind, that the session above may not have. */
export function rareFrames(): Uint8Array[] {
  const at = { turn: 1, step: 1 };
  const chunk = (part: object): object => ({
    type: 'assistant/chunk',
    data: { ...at, stream: 'm1', chunk: part },
  });
  const error = { name: 'Error', code: 'E', message: 'No.', stack: 'at', cause: undefined };
  const failure = { message: 'No.', code: 'E', status: 500, requestId: 'r' };
  const raw = (value: unknown): object => ({ type: 'RAW', value });
  const call = (name: string, ...values: unknown[]): object => ({
    type: 'call',
    message: { id: 'c', type: 'APPLY', path: [name], argumentList: values.map(raw) },
  });
  return [
    { type: 'up', protocol: 2, heapLimitBytes: 1e9, node: 'v20.0.0' },
    { type: 'ready', tools: [{ name: 'a', description: 'A.', parameters: { type: 'object' } }] },
    {
      type: 'events',
      from: 0,
      events: [
        chunk({ type: 'block-start', index: 0, blockType: 'text' }),
        chunk({ type: 'text-delta', index: 0, text: 'Grüße, 😀' }),
        chunk({ type: 'tool-call-delta', index: 1, id: 'c', name: 'a', argumentsDelta: '{"a":1}' }),
        chunk({ type: 'finish', reason: { kind: 'error', failure }, replayState: { a: [1] } }),
        { type: 'turn/end', data: { turn: 1, reason: { kind: 'error', error: failure } } },
      ],
    },
    call('claim', 'turn', false),
    call('callTool', { ...at, callId: 'c', name: 'a', arguments: '{}' }),
    call('finishTool', 'c', { ok: true, value: { 7: [1e300, -1, 2 ** 40] }, content: [] }),
    call('finishTool', 'c', { ok: false, error }),
    call('openModel', { ...at, attempt: 1 }),
    { type: 'ack', taken: 7 },
    { type: 'stopped', reason: 'asked' },
    { type: 'fault', error, turn: 3 },
  ].map(pack);
}

const LEADS = [
  0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc4, 0xc7, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd6,
  0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xff,
];
const KEYS = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'length',
  '1000',
  '4999',
  'type',
];
const KEY_BYTES = KEYS.map((key) => pack(key));

/** Frames made from others by a few of the things that can be wrong with bytes. */
export class Mutator {
  readonly #dice: Dice;
  readonly #frames: readonly Uint8Array[];

  constructor(frames: readonly Uint8Array[], seed: number) {
    this.#frames = frames;
    this.#dice = new Dice(seed);
  }

  next(): Uint8Array {
    const dice = this.#dice;
    if (dice.int(20) === 0) return this.#noise();
    let frame = dice.pick(this.#frames);
    for (let left = 1 + dice.int(4); left > 0; left--) frame = this.#mutated(frame);
    return frame;
  }

  #noise(): Uint8Array {
    const dice = this.#dice;
    const lead = dice.pick(LEADS);
    return Uint8Array.from({ length: 1 + dice.int(400) }, (_, at) =>
      at === 0 ? lead : dice.int(3) === 0 ? dice.pick(LEADS) : dice.int(256),
    );
  }

  #mutated(frame: Uint8Array): Uint8Array {
    const dice = this.#dice;
    const at = dice.int(Math.max(1, frame.length));
    const copy = Uint8Array.from(frame);
    switch (dice.int(9)) {
      case 0:
        copy[at] = (copy[at] ?? 0) ^ (1 << dice.int(8));
        return copy;
      case 1:
        return frame.slice(0, at);
      case 2:
        return joined(frame, frame.subarray(at));
      case 3: {
        const other = dice.pick(this.#frames);
        return joined(frame.subarray(0, at), other.subarray(dice.int(other.length)));
      }
      // Of another type, or of another length: what follows is read as something else.
      case 4:
        copy[at] = dice.pick(LEADS);
        return copy;
      case 5:
        copy[at] = ((copy[at] ?? 0) & 0xf0) | dice.int(16);
        return copy;
      case 6: {
        const key = dice.pick(KEY_BYTES);
        return joined(frame.subarray(0, at), key, frame.subarray(at));
      }
      case 7: {
        // One thing many times, with a length that says so.
        const times = 1 + dice.int(dice.int(50) === 0 ? 60_000 : 40);
        const item = dice.pick([
          [0x80],
          [0x90],
          [0xc0],
          [0x81, 0xa4, 0x31, 0x30, 0x30, 0x30, 0xc0],
        ]);
        const many = new Uint8Array(times * item.length);
        for (let from = 0; from < many.length; from += item.length) many.set(item, from);
        const header = Uint8Array.of(0xdd, times >>> 24, times >>> 16, times >>> 8, times);
        return joined(frame.subarray(0, at), header, many, frame.subarray(at + 1));
      }
      default:
        return joined(frame.subarray(0, at), frame.subarray(at + 1 + dice.int(8)));
    }
  }
}

function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
