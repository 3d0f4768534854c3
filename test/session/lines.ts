/** Trees of sessions as lines. */
import { SessionId } from '../../protocol/ids.ts';
import type { Sessions } from '../../src/session/sessions.ts';
import { stored } from './following.ts';
import { userMessage } from './log-parts.ts';
import { a, setup } from './watched-store.ts';

export const b = SessionId('b');
export const c = SessionId('c');

export async function linesOf(lines: AsyncIterable<string>): Promise<readonly string[]> {
  const all: string[] = [];
  for await (const line of lines) all.push(line);
  return all;
}

/** `a` with `b` below it, and `c` below `b`. */
export async function tree(sessions: Sessions): Promise<void> {
  await stored(sessions, 2);
  for (const [id, parentSession] of [
    [b, a],
    [c, b],
  ] as const) {
    const session = sessions.prepare({ id, meta: { parentSession, origin: 'subagent' } });
    sessions.enter(session);
    sessions.accept(session);
    const source = { kind: 'subagent-report', form: 'relay', senderSessionId: c } as const;
    session.append('user/message', { ...userMessage('from c'), source });
    session.append('agent/inbox/spliced', {
      target: 'next-turn',
      start: 0,
      inserted: [{ ...userMessage('x'), source }, userMessage('from nobody')],
    });
    await sessions.leave(session);
  }
}

/** How many turns of the event loop others had meanwhile. */
export async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

/** The lines of one export, of two sessions with two events each. */
export async function someLines(): Promise<string[]> {
  const { sessions } = setup();
  await tree(sessions);
  return [...(await linesOf(sessions.exportLines([a, b])))];
}
