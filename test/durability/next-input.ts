import { Dice } from '../interleavings/plan.ts';
import { Brain } from './brain.ts';
import { Victim } from './victim.ts';

/** What a model is asked when this agent of this file, which is changed by it, is told something. */
export async function nextInput(
  store: string,
  { id, provider }: { readonly id: string; readonly provider: string },
): Promise<string> {
  const brain = await Brain.start(new Dice(1), { ownerOf: () => '', mark: () => '' });
  brain.isCalm = true;
  const victim = new Victim({ store, url: brain.url, file: `${store}.effects` });
  try {
    await victim.opened;
    await victim.ask('resume', { id, provider });
    await victim.ask('tell', { id, how: 'followup', text: '[t0] say' });
    await victim.ask('quiet');
    return brain.firstInput;
  } finally {
    victim.kill();
    await victim.ended;
    await brain.stop();
  }
}
