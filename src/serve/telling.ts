/** How the sessions of a harness are told, stopped and drained on behalf of its user. */
import { textOf } from '../../protocol/content.ts';
import type { ContentBlock, UserMessage } from '../../protocol/content.ts';
import { ArgumentError, StoreError, SubagentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import { createUserMessage } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import { reachChild } from '../subagents/runtime.ts';
import type { Board } from './board.ts';
import { sessionOf } from './board.ts';
import { headerOf, unknown } from './rows.ts';

/** What a root is made with when it is prompted for the first time. */
export interface RootOptions {
  readonly cwd?: string;
  readonly provider?: string;
  readonly model?: string;
  readonly maxTokens?: number;
}

const USER = { kind: 'user' } as const;

/** What whoever is outside may call a new root; one that is there has the name that it has. */
const NEW_ID = /^[A-Za-z0-9][A-Za-z0-9._:-]*$/u;
const NEW_ID_CHARS = 128;

/**
 * Make a root, or open a stored one again, once whoever does the same is done.
 * @throws {ArgumentError} for a new one with an id that nobody could read or type
 * @throws what `agents.create` and `agents.resume` throw
 */
export async function openRoot(
  { harness, opening, roots }: Board,
  id: string,
  options: RootOptions | undefined,
  signal: AbortSignal,
): Promise<Agent> {
  return opening.run(id, async () => {
    const live = harness.agents.get(id as SessionId);
    if (live !== undefined) return live;
    if (options === undefined || (await harness.sessions.isStored(id as SessionId))) {
      const handle = await harness.agents.resumeManaged(id, { signal });
      roots.add(handle);
      return handle.agent;
    }
    if (id.length > NEW_ID_CHARS || !NEW_ID.test(id)) {
      throw new ArgumentError(
        `The id of a new session has at most ${NEW_ID_CHARS} characters: letters, digits, ".", ` +
          '"_", ":" and "-", of which a letter or a digit is the first.',
      );
    }
    const { cwd, ...agentOptions } = options;
    const handle = await harness.agents.createManaged({
      sessionId: id,
      ...(agentOptions.provider === undefined ? {} : { agentOptions }),
      meta: cwd === undefined ? {} : { cwd },
      signal,
    });
    roots.add(handle);
    return handle.agent;
  });
}

/** What a user says. @throws {ArgumentError} when there is nothing in it that can be read */
export function userMessage(content: readonly ContentBlock[] | string): UserMessage {
  const message = createUserMessage(content, USER);
  if (textOf(message.content).trim() !== '') return message;
  throw new ArgumentError('A message needs some text.');
}

/** A message for a root: its id, once it is kept. @throws {StoreError} */
export async function tellRoot(
  { harness }: Board,
  agent: Agent,
  message: UserMessage,
): Promise<{ readonly messageId: string }> {
  agent.followup(message);
  await harness.sessions.flush(agent.session);
  return { messageId: message.id };
}

/** A message for a session that exists: a root, or a child through its own parent. */
export async function tell(
  board: Board,
  id: string,
  message: UserMessage,
  signal: AbortSignal,
): Promise<{ readonly messageId: string }> {
  const [root = id, ...below] = await lineOf(board, id, signal);
  const told = board.roots.tell(root);
  try {
    const top = await openRoot(board, root, undefined, signal);
    if (below.length === 0) return await tellRoot(board, top, message);
    const chain = below as SessionId[];
    const { content } = message;
    return await reachChild(board.harness.subagents, top, chain, content, { source: USER, signal });
  } finally {
    told();
  }
}

/** Stop the open turn of a session; what waits for it stays. Returns whether there was one. */
export async function interrupt(board: Board, id: string, signal: AbortSignal): Promise<boolean> {
  const { agents, subagents } = board.harness;
  const agent = agents.get(id as SessionId);
  if (agent === undefined) {
    await headerAnywhere(board, id, signal);
    return false;
  }
  const { parentSession: parentSessionId } = agent.session.header;
  const wasRunning = agent.status === 'running';
  const isContinuable = parentSessionId !== undefined && isResident(agent);
  if (isContinuable) subagents.interrupt(id as SessionId, { kind: 'user', parentSessionId });
  // A one-shot child is its caller's; its turn can be stopped all the same.
  else agent.cancel(USER, { keepInbox: true });
  return wasRunning;
}

/** End what goes on below a live session. Returns how many children of it there were. */
export async function drain(board: Board, id: string, signal: AbortSignal): Promise<number> {
  const { agents, subagents } = board.harness;
  const agent = agents.get(id as SessionId);
  if (agent === undefined) {
    await headerAnywhere(board, id, signal);
    return 0;
  }
  const below = agents.list().filter((other) => isResident(other) && isBelow(board, other, id));
  await subagents.drainContinuableDescendants([agent]);
  return below.length;
}

/** The ids from the root down to this session. @throws {StoreError} `SESSION_NOT_FOUND` */
export async function lineOf(
  board: Board,
  id: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const line = [id];
  const seen = new Set(line);
  let header = await headerAnywhere(board, id, signal);
  while (header.parentSession !== undefined) {
    const above = header.parentSession;
    if (seen.has(above)) throw new ArgumentError(`Session \`${id}\` is below itself.`);
    seen.add(above);
    line.unshift(above);
    try {
      header = await headerAnywhere(board, above, signal);
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'SESSION_NOT_FOUND') throw error;
      const text = `\`${id}\` cannot be told anything: its ancestor \`${above}\` is gone.`;
      throw new SubagentError('NOT_RESUMABLE', text, { cause: error });
    }
  }
  return line;
}

/** Of one that is live or stored. @throws {StoreError} `SESSION_NOT_FOUND` */
export async function headerAnywhere(
  { harness }: Board,
  id: string,
  signal: AbortSignal,
): Promise<SessionHeader> {
  const live = sessionOf(harness, id);
  if (live !== undefined) return live.header;
  const header = await headerOf(harness.sessionPersistence, id as SessionId, signal);
  if (header === undefined) throw unknown(id);
  return header;
}

/** It says of itself that it is a child that goes on. */
function isResident({ session }: Agent): boolean {
  return session
    .eventsFrom(session.header.seedLength ?? 0)
    .some(({ type, data }) => type === 'subagent/descriptor' && data.mode === 'continuable');
}

function isBelow({ harness }: Board, agent: Agent, id: string): boolean {
  const seen = new Set<string>();
  let above = agent.session.header.parentSession;
  while (above !== undefined && !seen.has(above)) {
    if (above === id) return true;
    seen.add(above);
    above = sessionOf(harness, above)?.header.parentSession;
  }
  return false;
}
