/**
 * `subagents send`: something more for a session. The process that runs it, or that is the only one
 * on its store, is told; where there is none, this one brings it back and waits for its answer.
 */
import {
  connectControl,
  localControl,
  type ControlClient,
  type Harness,
  type SessionId,
} from '../../index.ts';
import type { SendArguments } from '../args/act.ts';
import { resumeRoot, SERVER } from '../build.ts';
import type { Call } from '../call.ts';
import { EXIT, UsageError } from '../exit-codes.ts';
import { planAgents, type AgentPlan } from '../input.ts';
import { print, printJson } from '../output.ts';
import { findStored, processesOf } from '../reach.ts';
import { showRun } from '../run-shown.ts';
import { existingStore } from '../store-file.ts';

export async function sendVerb(given: SendArguments, call: Call): Promise<number> {
  const { surroundings, streams, signal } = call;
  if (given.text === '') throw new UsageError('There is nothing to send: give a text.');
  const path = await existingStore(given.store, surroundings.cwd);
  const sessionId = await findStored(path, given.session, signal);
  const client = await whoRunsIt(path, sessionId, call);
  if (client !== undefined) return sendTo(client, sessionId, given, call);
  const plan = await planAgents({ ...given, store: path }, surroundings, signal);
  const begin = (harness: Harness): Promise<SessionId> =>
    sendHere(harness, plan, sessionId, given.text, signal);
  const { exitCode } = await showRun(plan, begin, given, streams, surroundings, signal);
  return exitCode;
}

/** The process in which it is live, or something above it is; else the only one on the store. */
async function whoRunsIt(
  path: string,
  sessionId: string,
  call: Call,
): Promise<ControlClient | undefined> {
  const [owner] = await processesOf(path, call, sessionId);
  if (owner !== undefined) return owner;
  const all = await connectControl(path, { signal: call.signal });
  const [only] = all;
  if (all.length === 1) return only;
  await Promise.all(all.map((client) => client.close()));
  return undefined;
}

async function sendTo(
  client: ControlClient,
  sessionId: string,
  { text, json }: SendArguments,
  { streams: { stdout }, signal }: Call,
): Promise<number> {
  try {
    const { messageId } = await client.call('session/send', { sessionId, text }, { signal });
    const { pid } = client;
    if (json === true) await printJson(stdout, { messageId, process: pid }, signal);
    else await print(stdout, `Sent: process ${pid} runs it.\n`, signal);
    return EXIT.completed;
  } finally {
    await client.close();
  }
}

/** @throws {UsageError} when its model, or one above it, is not the one of the plan's server. */
async function sendHere(
  harness: Harness,
  plan: AgentPlan,
  sessionId: string,
  text: string,
  signal: AbortSignal,
): Promise<SessionId> {
  await using control = await localControl(harness);
  const { rootId } = await control.call('session/find', { sessionId }, { signal });
  if (plan.server === undefined) await assertEmbedded(harness, control, sessionId, signal);
  await resumeRoot(harness, plan, rootId, signal);
  await control.call('session/send', { sessionId, text }, { signal });
  return sessionId as SessionId;
}

/** Another model would answer in its place, or none. @throws {UsageError} naming the one it had. */
async function assertEmbedded(
  harness: Harness,
  control: ControlClient,
  sessionId: string,
  signal: AbortSignal,
): Promise<void> {
  for (let id: string | undefined = sessionId; id !== undefined;) {
    const { events } = await harness.sessions.inspect(id as SessionId);
    const asked = events.findLast((event) => event.type === 'request/context')?.data;
    if (asked?.provider === SERVER) {
      throw new UsageError(
        `Session ${id} had the model "${asked.model}" of a server: name that again, or another, ` +
          'with --base-url and --model.',
      );
    }
    const place: { readonly parentId?: string } = await control.call(
      'session/find',
      { sessionId: id },
      { signal },
    );
    id = place.parentId;
  }
}
