import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { Inbox } from '../../src/agent/inbox.ts';
import { checkStore } from '../../src/session/doctor.ts';
import type { Session } from '../../src/session/session.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import {
  asks,
  assistantMessage,
  delta,
  header,
  inStep,
  text,
  toolCall,
  toolResult,
  userMessage,
} from './log-parts.ts';
import { linesOf } from './lines.ts';
import { a, codeOf, setup } from './watched-store.ts';

/** Every type of event, with all that it can hold. */
function everything(): readonly SessionEvent[] {
  const at = { turn: 1, step: 1 };
  const session = inStep(false);
  const failure = { code: 'SERVER', message: 'It failed.' };
  const notice = {
    ...userMessage('It ended.'),
    source: {
      kind: 'subagent-settled',
      form: 'notice',
      summary: 'It ended.',
      senderSessionId: SessionId('child'),
      turn: 1,
      stopReason: 'completed',
      waiting: 0,
    },
  } as const;
  const config = { provider: 'p', model: 'm' };
  session.append('subagent/descriptor', {
    version: 1,
    mode: 'continuable',
    provider: 'spawn',
    label: 'it',
    toolFilter: { allow: ['look'] },
  });
  session.append('agent/inbox/spliced', {
    target: 'next-step',
    start: 0,
    inserted: [userMessage('a'), notice],
  });
  session.append('agent/inbox/spliced', {
    target: 'next-step',
    start: 0,
    removedCount: 1,
    inserted: [],
    outcome: 'canceled',
  });
  session.append('step/start', at);
  session.append('user/message', notice);
  const tools = [{ name: 'look', description: 'Look.', parameters: { type: 'object' } }] as const;
  session.append('request/header', {
    header: { config, system: 'Be brief.', tools: tools as never },
    reason: 'initial',
  });
  session.append('request/context', config);
  session.append('assistant/chunk', delta('a'));
  const retry = { ...at, retryId: 'r', retry: 1 };
  session.append('llm/retry', { ...retry, provider: 'p', maxRetries: 5, delayMs: 1, failure });
  session.append('llm/retry-started', retry);
  const content = [text('a'), { type: 'reasoning', text: 'b' } as const, asks('c')];
  session.append('assistant/message', {
    ...at,
    message: assistantMessage(...content),
    usage: { inputTokens: 1, outputTokens: 1 },
  });
  session.append('tool/call', toolCall('c'));
  session.append('tool/result', {
    ...toolResult('c', at, { isError: true }),
    error: { name: 'ToolError', code: 'X' },
  });
  session.append('step/end', at);
  session.append('turn/end', { turn: 1, reason: { kind: 'error', error: failure } });
  for (const [index, reason] of [
    { kind: 'aborted', reason: { kind: 'user' } } as const,
    { kind: 'blocked', reason: 'No.' } as const,
  ].entries()) {
    session.append('turn/start', { turn: index + 2 });
    session.append('turn/end', { turn: index + 2, reason });
  }
  session.append('session/end-seed', {});
  return session.events;
}

type Path = readonly (string | number)[];

/** Of the `nth` event of a type: another value at this place of its data. */
function changed(type: string, nth: number, path: Path, value: unknown): readonly SessionEvent[] {
  const events = structuredClone(everything()) as SessionEvent[];
  const event = events.filter((one) => one.type === type)[nth] as unknown;
  let at = event as Record<string | number, unknown>;
  const all = ['data', ...path];
  for (const key of all.slice(0, -1)) at = at[key] as typeof at;
  if (value === undefined) delete at[all.at(-1)!];
  else at[all.at(-1)!] = value;
  return events;
}

/** What import, check and resume say of a log that is in a store. */
async function verdicts(events: readonly SessionEvent[], seedLength = 0) {
  const { sessions, store } = setup();
  const head = header('a', seedLength === 0 ? {} : { seedLength });
  await store.append([{ id: a, epoch: FIRST_EPOCH, header: head, events }]);
  const lines = [
    { format: 'subagent-runtime/sessions', version: 1, sessions: [a] },
    { header: head },
    ...events,
    { end: { session: a, events: events.length } },
  ].map((line) => JSON.stringify(line));
  const imported = setup().sessions.importLines(lines);
  const message = await imported.then(
    () => undefined,
    (error: unknown) => error,
  );
  const findings = (await checkStore(store)).filter(({ severity }) => severity !== 'note');
  const exported = (await linesOf(sessions.exportLines([a]))).at(-1)!;
  return {
    imported: message,
    findings: findings.map(({ kind }) => kind),
    isDamaged: exported.startsWith('{"damaged"'),
    resumed: await codeOf(
      sessions.load(a).then(async (session: Session) => {
        try {
          void new Inbox(session, { inserted() {}, discarded() {}, claimed() {} });
        } finally {
          await sessions.release(session);
        }
      }),
    ),
  };
}

const splice = 'agent/inbox/spliced';
const wrong: readonly [type: string, nth: number, path: Path, value: unknown][] = [
  [splice, 0, ['target'], null],
  [splice, 0, ['target'], '__proto__'],
  [splice, 0, ['start'], -1],
  [splice, 0, ['inserted'], undefined],
  [splice, 0, ['inserted', 0], null],
  [splice, 0, ['inserted', 0, 'source'], null],
  [splice, 0, ['inserted', 0, 'source', 'kind'], 1],
  [splice, 0, ['inserted', 0, 'content', 0], null],
  [splice, 0, ['inserted', 1, 'source', 'senderSessionId'], 1],
  [splice, 0, ['inserted', 1, 'source', 'turn'], null],
  [splice, 1, ['removedCount'], -1],
  [splice, 1, ['outcome'], null],
  ['user/message', 0, ['content', 0], null],
  ['user/message', 0, ['content', 0, 'text'], 1],
  ['user/message', 0, ['content', 0, 'type'], ''],
  ['user/message', 0, ['source', 'waiting'], -1],
  ['assistant/chunk', 0, ['chunk'], null],
  ['assistant/chunk', 0, ['chunk', 'text'], undefined],
  ['assistant/message', 0, ['message'], null],
  ['assistant/message', 0, ['message', 'content', 0], null],
  ['assistant/message', 0, ['message', 'content', 1, 'text'], undefined],
  ['assistant/message', 0, ['message', 'content', 2, 'name'], null],
  ['assistant/message', 0, ['message', 'source'], null],
  ['assistant/message', 0, ['message', 'source', 'provider'], ''],
  ['assistant/message', 0, ['usage'], null],
  ['assistant/message', 0, ['usage', 'outputTokens'], '1'],
  ['tool/call', 0, ['callId'], ''],
  ['tool/call', 0, ['arguments'], {}],
  ['tool/result', 0, ['message', 'source'], null],
  ['tool/result', 0, ['message', 'content'], []],
  ['tool/result', 0, ['message', 'content', 0, 'content'], null],
  ['tool/result', 0, ['message', 'content', 0, 'content', 0], null],
  ['tool/result', 0, ['error'], null],
  ['request/header', 0, ['header'], null],
  ['request/header', 0, ['header', 'config'], null],
  ['request/header', 0, ['header', 'system'], null],
  ['request/header', 0, ['header', 'tools', 0], null],
  ['request/context', 0, ['provider'], null],
  ['subagent/descriptor', 0, ['version'], '1'],
  ['subagent/descriptor', 0, ['label'], null],
  ['subagent/descriptor', 0, ['toolFilter'], null],
  ['llm/retry', 0, ['delayMs'], null],
  ['llm/retry', 0, ['failure'], null],
  ['llm/retry-started', 0, ['retryId'], null],
  ['turn/end', 0, ['reason'], null],
  ['turn/end', 0, ['reason', 'error'], null],
  ['turn/end', 0, ['reason', 'error', 'message'], undefined],
  ['turn/end', 1, ['reason', 'reason'], null],
  ['turn/end', 2, ['reason', 'reason'], null],
];

describe('a log that import takes is sound, and can be resumed', () => {
  it('with every type of event', async () => {
    const fine = { imported: undefined, findings: [], isDamaged: false, resumed: undefined };
    expect(await verdicts(everything())).toEqual(fine);
    expect(new Set(everything().map(({ type }) => type)).size).toBe(16);
    // What this version does not know is for whoever does.
    for (const [type, path, value] of [
      ['user/message', ['content', 0, 'type'], 'image'],
      ['user/message', ['source'], { kind: 'a new one' }],
      ['assistant/chunk', ['chunk'], { type: 'a new one' }],
      ['turn/end', ['reason'], { kind: 'a new one' }],
      ['subagent/descriptor', [], { version: 2, mode: 'a new one' }],
    ] as const) {
      expect([type, await verdicts(changed(type, 0, path, value))]).toEqual([type, fine]);
    }
  });

  it.each(wrong)('and one where %s %i has at %j %j is refused by all', async (...change) => {
    const events = changed(...change);
    const { imported, ...rest } = await verdicts(events);
    expect(rest).toEqual({ findings: ['broken-log'], isDamaged: true, resumed: 'STORE_CORRUPT' });
    expect(imported).toBeInstanceOf(ArgumentError);
    const [type, nth] = change;
    const { seq } = events.filter((one) => one.type === type)[nth]!;
    // After the first line and the header.
    expect((imported as Error).message).toMatch(`Line ${seq + 3} of the import is refused: `);
  });

  it.each([
    ['puts in', 0, ['start'], 1],
    ['takes out', 1, ['removedCount'], 3],
    ['begins', 1, ['start'], 2],
  ] as const)('and so is one that %s where nothing waits', async (_, nth, path, value) => {
    const { imported, ...rest } = await verdicts(changed(splice, nth, path, value));
    expect(String(imported)).toMatch(/do not wait/);
    const refused = { findings: ['broken-log'], isDamaged: true, resumed: 'INVALID_ARGUMENT' };
    expect(rest).toEqual(refused);
  });

  it('and what another session put into its inbox does not wait in this one', async () => {
    const events = everything();
    const first = events.findIndex(({ type }) => type === splice);
    const { imported, ...rest } = await verdicts(events, first + 1);
    expect(String(imported)).toMatch(/do not wait/);
    const refused = { findings: ['broken-log'], isDamaged: true, resumed: 'INVALID_ARGUMENT' };
    expect(rest).toEqual(refused);
    expect((await verdicts(events, first + 2)).imported).toBeUndefined();
  });
});
