/** Bodies that misuse the agent's port, or the channels around it. */
import { BroadcastChannel, parentPort } from 'node:worker_threads';
import { setImmediate as macrotask } from 'node:timers/promises';
import { agentPort, never, postFrame } from './inside.ts';
import type { Body } from './inside.ts';

const raw = (value: unknown): object => ({ type: 'RAW', value });
const callFrame = (id: string, path: string, ...values: unknown[]): object => ({
  type: 'call',
  message: { id, type: 'APPLY', path: [path], argumentList: values.map(raw) },
});
/** A msgpack array of arrays of arrays, and nil. */
const nested = (depth: number): Uint8Array =>
  new Uint8Array(depth + 1).fill(0x91).fill(0xc0, depth);
const posting =
  (value: () => unknown): Body =>
  () => {
    agentPort().postMessage(value());
    return never();
  };

export const forgingBodies: Readonly<Record<string, Body>> = {
  'frame-flood': () => {
    const port = agentPort();
    for (let i = 0; i < 200_000; i++) postFrame(port, { type: 'ack', taken: 0 });
    return never();
  },
  'call-flood': () => {
    const port = agentPort();
    for (let i = 0; i < 20_000; i++) postFrame(port, callFrame(`f${i}`, 'claim', 'turn', false));
    return never();
  },
  'big-frame': posting(() => new Uint8Array(8 * 1024 * 1024)),
  'deep-frame': posting(() => nested(100_000)),
  'garbage-frame': posting(() => Uint8Array.from({ length: 700 }, (_, i) => (i * 97 + 13) % 256)),
  'proto-keys': () => {
    const keys = '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}';
    const more = JSON.parse(`{"type":"ack","taken":0,${keys.slice(1)}`) as object;
    postFrame(agentPort(), more);
    postFrame(agentPort(), { type: 'fault', error: JSON.parse(keys) as unknown });
    return never();
  },
  'object-frame': posting(() => ({ type: 'events', from: 0, events: [{ deep: { er: [1, 2] } }] })),
  'shared-frame': posting(() => new Uint8Array(new SharedArrayBuffer(64))),
  'huge-clone': posting(() => Array<unknown>(2e7)),
  'own-port': () => {
    for (let i = 0; i < 1_000; i++) parentPort?.postMessage({ type: 'up', i });
    return never();
  },
  'forged-turn-end': () => {
    const turnEnd = { type: 'turn/end', data: { turn: 77, reason: { kind: 'completed' } } };
    postFrame(agentPort(), { type: 'events', from: 0, events: [turnEnd] });
    return never();
  },
  'duplicate-result': ({ callId }) => {
    const content = [{ type: 'text', text: 'forged' }];
    const outcome = { ok: true, value: 'forged', content };
    postFrame(agentPort(), callFrame('twice', 'finishTool', callId, outcome));
    return 'survived';
  },
  'close-port': () => {
    agentPort().close();
    setInterval(() => {}, 1_000);
    return never();
  },
  'close-parent-port': () => {
    parentPort?.close();
    return 'survived';
  },
  broadcast: async () => {
    const channel = new BroadcastChannel('anybody');
    for (let i = 0; i < 1_000; i++) channel.postMessage({ i, text: 'noise' });
    await macrotask();
    return 'survived';
  },
  pollution: () => {
    Object.assign(Object.prototype, { polluted: 'in the thread' });
    return 'survived';
  },
};
