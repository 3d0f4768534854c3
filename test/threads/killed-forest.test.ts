/**
 * Continuable children whose process is killed, again and again, and gone on with by the next over
 * the same database. A few kills here; `KILLS=100` takes more, `SEED` others.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { createHarness, textOf } from '../../dist/src/index.js';
import type { Agent, Harness, MessageId, SessionEvent, SessionId } from '../../dist/src/index.js';
import { gate, scriptedModel } from '../../dist/src/testing.js';
import { endAfterClaim, fateOf } from '../continuable/fates.ts';
import { Dice } from '../interleavings/plan.ts';
import { tempStore } from '../support/temp-store.ts';
import { isRuntimeContext } from '../support/told.ts';
import { until } from '../support/until.ts';
import { fixture } from './real.ts';

const KILLS = Number(process.env['KILLS'] ?? 3);
const SEED = Number(process.env['SEED'] ?? 1);

interface Given {
  readonly child: SessionId;
  readonly message: MessageId;
}

it(
  'loses no message that was accepted, and tells each end once, when its process is killed',
  { timeout: 60_000 + KILLS * 30_000 },
  async () => {
    const dice = new Dice(SEED);
    let [ids, madeUp] = [0, 0];
    for (let kill = 0; kill < KILLS;) {
      await using temp = tempStore();
      const given: Given[] = [];
      for (let more = 1 + dice.int(3); more > 0; more--, kill++) {
        const seed = `${SEED * 1_000 + kill}`;
        given.push(...(await killedAfter(1 + dice.int(60), [temp.path, seed])));
      }
      const found = await revived(temp.path);
      const problems = [...found.problems, ...fatesOf(given, found.logs)];
      expect(problems, `SEED=${SEED}, kill ${kill}`).toEqual([]);
      ids += given.length;
      madeUp += found.madeUp;
    }
    expect(ids).toBeGreaterThan(0);
    if (process.env['SHOW'] !== undefined) {
      console.log(`${KILLS} kills, ${ids} ids, ${madeUp} notices made up for`);
    }
  },
);

/** Run the program until it wrote this many lines, and kill it as nothing can be prepared for. */
function killedAfter(lines: number, args: readonly string[]): Promise<Given[]> {
  return new Promise((resolve, reject) => {
    const program = [fileURLToPath(fixture('killed-forest.mjs')), ...args];
    const child = spawn(process.execPath, program, { stdio: ['ignore', 'pipe', 'inherit'] });
    const given: Given[] = [];
    let left = lines;
    createInterface(child.stdout).on('line', (line) => {
      const said = JSON.parse(line) as Partial<Given>;
      if (said.message !== undefined) given.push(said as Given);
      if (--left === 0) child.kill('SIGKILL');
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (signal === 'SIGKILL') resolve(given);
      else reject(new Error(`The program ended by itself, with ${code}.`));
    });
  });
}

type Logs = ReadonlyMap<string, readonly SessionEvent[]>;

/** What the next process finds: each child is gone on with, from the top down, to its end. */
async function revived(
  store: string,
): Promise<{ readonly logs: Logs; readonly problems: string[]; readonly madeUp: number }> {
  const done = gate();
  // With the parent in a turn, its own children can be told more.
  const model = scriptedModel(({ messages }) => {
    const told = messages.findLast((message) => !isRuntimeContext(message));
    return textOf(told?.content ?? []) === 'Stand by.' ? { hold: done, text: 'Well.' } : 'Well.';
  });
  await using harness = await createHarness({
    store,
    workers: { warm: 0 },
    models: { walking: model },
    defaultModel: { provider: 'walking', model: 'test' },
    limits: { maxDepth: 4, maxThreads: 64 },
  });
  const before = await logsOf(harness);
  const { agent: host } = await harness.agents.createHost({ sessionId: 'host', onMessage() {} });
  const problems: string[] = [];
  let madeUp = 0;
  const revive = async (parent: Agent): Promise<void> => {
    const headers = await harness.sessionPersistence.list();
    for (const { id } of headers.filter(({ parentSession }) => parentSession === parent.id)) {
      const [own, old] = [ownOf(parent), before.get(parent.id) ?? []];
      const turn = settledTurn(before.get(id)!);
      const told = own.filter((notice) => notice.startsWith(`${id} ${turn},`)).length;
      if (turn !== undefined && told !== 1) {
        problems.push(`the end of turn ${turn} of ${id} was told ${told} times`);
      }
      if (
        turn !== undefined &&
        !noticesIn(old).some((notice) => notice.startsWith(`${id} ${turn},`))
      )
        madeUp++;
      await harness.subagents.followup(parent, id, [{ type: 'text', text: 'Stand by.' }], {
        source: { kind: 'user' },
        signal: new AbortController().signal,
      });
      await revive(harness.agents.get(id)!);
    }
  };
  await revive(host);
  done.open();
  await until(() => harness.agents.list().length === 1);
  const logs = await logsOf(harness);
  for (const [id, events] of logs) {
    const notices = noticesIn(events);
    if (new Set(notices).size < notices.length) problems.push(`${id} was told of an end twice`);
  }
  return { logs, problems, madeUp };
}

/** Every id that was given out is in a turn by now, once, or was claimed by one that was stopped. */
function fatesOf(given: readonly Given[], logs: Logs): string[] {
  return given.flatMap(({ child, message }) => {
    const events = logs.get(child) ?? [];
    const told = events.filter(({ type, data }) => type === 'user/message' && data.id === message);
    if (told.length === 1) return [];
    const fate = fateOf(events, message);
    if (fate === 'spent' && endAfterClaim(events, message) === 'aborted') return [];
    return [`the message ${message} of ${child} is ${fate}, and told ${told.length} times`];
  });
}

/** The last turn of a child that had settled after it: nothing waits that would have run. */
function settledTurn(events: readonly SessionEvent[]): number | undefined {
  const last = events.findLast(({ type }) => type === 'turn/start' || type === 'turn/end');
  if (last?.type !== 'turn/end') return undefined;
  const waits = events.some(
    ({ type, data }) =>
      type === 'agent/inbox/spliced' &&
      data.inserted.some(({ id }) => fateOf(events, id) === 'waits'),
  );
  return waits ? undefined : last.data.turn;
}

/** By child, last turn, and what waited: a crash may cut a child off again before its next turn. */
function noticesIn(events: readonly SessionEvent[]): string[] {
  return events.flatMap((event) =>
    event.type === 'agent/inbox/spliced'
      ? event.data.inserted.flatMap(({ source }) =>
          source.kind === 'subagent-settled'
            ? [`${source.senderSessionId} ${source.turn}, ${source.waiting} wait`]
            : [],
        )
      : [],
  );
}

const ownOf = ({ session }: Agent): string[] =>
  noticesIn(session.events.slice(session.header.seedLength ?? 0));

async function logsOf({ sessionPersistence }: Harness): Promise<Map<string, SessionEvent[]>> {
  const logs = new Map<string, SessionEvent[]>();
  for (const { id } of await sessionPersistence.list()) {
    const { header, events } = await sessionPersistence.inspect(id);
    logs.set(id, events.slice(header.seedLength ?? 0));
  }
  return logs;
}
