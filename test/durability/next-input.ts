import { Dice } from '../interleavings/plan.ts';
import { Brain } from './brain.ts';
import type { Child, Root } from './client.ts';
import type { Victim } from './victim.ts';

/** Marks that no client has given. */
const FIRST_MARK = 900_000;

/**
 * What the models of these agents are asked for the message that they are told next, by this
 * process, out of this file, which is changed by it.
 */
export async function nextInputs(
  victim: Victim,
  store: string,
  roots: readonly Root[],
  children: readonly Child[],
): Promise<readonly (string | undefined)[]> {
  const brain = await Brain.start(new Dice(1), {
    ownerOf: (mark) => mark,
    parentOf: () => undefined,
    mark: () => '',
  });
  brain.isCalm = true;
  const marks: string[] = [];
  const text = (): string => {
    marks.push(String(FIRST_MARK + marks.length));
    return `[t${marks.at(-1)}] say`;
  };
  try {
    await victim.open({ store, url: brain.url, file: `${store}.effects` });
    for (const { id, isHost, provider } of roots) {
      await victim.ask(isHost ? 'host' : 'resume', { id, provider });
    }
    for (const { id } of roots) await victim.ask('tell', { id, how: 'followup', text: text() });
    await victim.ask('quiet');
    for (const { id, parent } of children) {
      // One whose parent is a child itself is not to be reached now.
      await victim.ask('followup', { parent, id, text: text() }).catch(() => {});
    }
    await victim.ask('quiet');
    await victim.ask('dispose');
    return marks.map((mark) => brain.inputFor(mark));
  } finally {
    await brain.stop();
  }
}
