/** `subagents show`: the conversation of one session, as it stands or as it goes on. */
import type { ControlClient, SessionEvent } from '../../index.ts';
import type { ShowArguments } from '../args/look.ts';
import type { Call } from '../call.ts';
import { EXIT } from '../exit-codes.ts';
import { print, printJson } from '../output.ts';
import { findStored, isGone, processesOf, reachStored } from '../reach.ts';
import { existingStore } from '../store-file.ts';
import { Transcript } from '../transcript.ts';

export async function showVerb(given: ShowArguments, call: Call): Promise<number> {
  const { streams, surroundings, signal } = call;
  const path = await existingStore(given.store, surroundings.cwd);
  const id = await findStored(path, given.session, signal);
  const [owner] = await processesOf(path, call, id);
  try {
    if (owner !== undefined) {
      await showAll(owner, id, given, call);
    } else {
      await using stored = await reachStored(path);
      const [client] = stored.clients;
      if (client !== undefined) await showAll(client, id, { ...given, follow: undefined }, call);
      if (given.follow === true) streams.stderr.write(`Nobody runs session ${id} now.\n`);
    }
    return EXIT.completed;
  } finally {
    await owner?.close();
  }
}

async function showAll(
  client: ControlClient,
  id: string,
  {
    follow,
    from = 0,
    json,
  }: Omit<ShowArguments, 'follow'> & { readonly follow?: true | undefined },
  { streams: { stdout }, signal }: Call,
): Promise<void> {
  const transcript = new Transcript();
  const events =
    follow === true ? followed(client, id, from, signal) : pages(client, id, from, signal);
  for await (const event of events) {
    if (json === true) await printJson(stdout, event, signal);
    else await print(stdout, transcript.textOf(event), signal);
  }
}

/** Also when it settles and is brought back, until its process is gone. */
async function* followed(
  client: ControlClient,
  id: string,
  from: number,
  signal: AbortSignal,
): AsyncGenerator<SessionEvent> {
  try {
    yield* client.follow(id, { from, forever: true, signal });
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

async function* pages(
  client: ControlClient,
  sessionId: string,
  from: number,
  signal: AbortSignal,
): AsyncGenerator<SessionEvent> {
  for (let next: number | undefined = from; next !== undefined;) {
    const page: { readonly events: readonly SessionEvent[]; readonly next?: number } =
      await client.call('session/read', { sessionId, from: next }, { signal });
    yield* page.events;
    next = page.next;
  }
}
