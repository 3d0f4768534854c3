/** `subagents interrupt` and `subagents drain`: asked of the process that runs the session. */
import type { SessionArguments } from '../args/options.ts';
import type { Call } from '../call.ts';
import { EXIT } from '../exit-codes.ts';
import { counted, print, printJson } from '../output.ts';
import { askOwner } from '../reach.ts';

export async function interruptVerb(given: SessionArguments, call: Call): Promise<number> {
  const { wasRunning } = await askOwner(given.store, given.session, call, (client, sessionId) =>
    client.call('session/interrupt', { sessionId }, { signal: call.signal }),
  );
  const text = wasRunning ? 'It was told to stop.' : 'It has no open turn.';
  await tell(given, call, { wasRunning }, text);
  return EXIT.completed;
}

export async function drainVerb(given: SessionArguments, call: Call): Promise<number> {
  const { ended } = await askOwner(given.store, given.session, call, (client, sessionId) =>
    client.call('session/drain', { sessionId }, { signal: call.signal }),
  );
  await tell(given, call, { ended }, `Ended ${counted(ended, 'session')} below it.`);
  return EXIT.completed;
}

const tell = (
  { json }: SessionArguments,
  { streams: { stdout }, signal }: Call,
  value: object,
  text: string,
): Promise<void> =>
  json === true ? printJson(stdout, value, signal) : print(stdout, `${text}\n`, signal);
