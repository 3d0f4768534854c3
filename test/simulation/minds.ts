/** Models and tools whose every answer is drawn. */
import { defineTool } from '../../protocol/tool.ts';
import type { Failure, ModelRequest } from '../../protocol/model.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import type { ScriptedModel, ScriptedStep, ScriptedToolCall } from '../../src/models/scripted.ts';
import type { Dice } from '../interleavings/plan.ts';
import type { HookWatch } from './hooks.ts';
import { here } from './life.ts';
import type { Oracle } from './oracle.ts';
import type { SimThread } from './sim-thread.ts';

export interface Minds {
  readonly model: ScriptedModel;
  readonly tools: ReturnType<typeof defineTool>[];
  modules(url: string, thread: SimThread): unknown;
}

export interface MindState {
  delegations: number;
  answers: number;
  /** Children whose ids somebody knows. */
  readonly children: readonly string[];
}

const BROKEN: Failure = { code: 'BROKEN', message: 'Broken.' };
const BUSY: Failure = { code: 'SERVER', message: 'Busy.', status: 503 };
/** In the system prompt: who is asking. */
export const PERSONA = '[me:{{self}}]';

export function mindsOf(
  dice: Dice,
  state: MindState,
  { oracle, hooks }: { readonly oracle: Oracle; readonly hooks: HookWatch },
): Minds {
  const hold = (what: string): { wait(): Promise<void> } => ({ wait: () => here.life.wait(what) });
  const answer = ({ tools = [], sessionId }: ModelRequest): ScriptedStep => {
    if (--state.answers < 0) return { text: 'Enough.' };
    const names = tools.map(({ name }) => name);
    const roll = dice.int(20);
    if (roll < 8)
      return { text: dice.chance(0.5) ? 'Well.' : ['So', hold('the model'), ' be it.'] };
    if (roll === 8 || roll === 9) {
      const failure = roll === 8 ? BROKEN : BUSY;
      oracle.causes.failed(sessionId, failure.code);
      return { text: roll === 8 ? 'Hm.' : '', failure };
    }
    if (roll === 10) return { text: 'Too lon', finish: 'max-tokens' };
    const calls = Array.from({ length: 1 + dice.int(2) }, () => call(names)).filter(
      (made) => made !== undefined,
    );
    return { text: 'Let me see.', toolCalls: calls };
  };
  const call = (names: readonly string[]): ScriptedToolCall | undefined => {
    const name = names.length === 0 ? undefined : dice.pick(names);
    const child = state.children.length === 0 ? 'nobody' : dice.pick(state.children);
    switch (name) {
      case 'subagent':
      case 'forked':
        if (--state.delegations < 0) return { name: 'look', arguments: {} };
        return {
          name,
          arguments: {
            description: 'help',
            prompt: 'Do it.',
            ...(dice.chance(0.4) ? { run_in_background: dice.chance(0.8) } : {}),
          },
        };
      case 'send_message':
        return { name, arguments: { subagent_id: child, message: 'And this.' } };
      case 'interrupt_agent':
        return { name, arguments: { agent_id: child } };
      case 'report':
        return { name, arguments: { output: 'So far.' } };
      case undefined:
        return undefined;
      default:
        return { name, arguments: {} };
    }
  };
  const model = scriptedModel(async (request, { signal }) => {
    const me = /\[me:(.*?)\]/.exec(request.system ?? '')?.[1];
    oracle.works(me, 'a model was asked');
    if (me !== request.sessionId) oracle.say(`${String(me)} asks as ${request.sessionId}`);
    hooks.asked(String(me), request);
    for (let left = dice.int(3); left > 0; left--) await here.life.wait('the model', signal);
    return answer(request);
  });
  const look = defineTool({
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object' },
    isConcurrencySafe: () => true,
    async execute(_args, { agent, signal }) {
      oracle.works((agent as { id: string }).id, 'a tool was called');
      const isDeaf = dice.chance(0.1);
      for (let left = dice.int(3); left > 0; left--) {
        await here.life.wait('a tool', isDeaf ? undefined : signal);
      }
      if (dice.chance(0.1)) throw new Error('It cannot be seen.');
      return 'seen';
    },
  });
  return {
    model,
    tools: [look as never],
    modules: (_url, thread) => ({
      default: {
        name: 'peek',
        description: 'Looks from the thread.',
        parameters: { type: 'object' },
        async execute() {
          const to = dice.pick(['stdout', 'stderr'] as const);
          if (dice.chance(0.5)) thread.print(to, `${thread.threadId} peeks. `);
          for (let left = dice.int(3); left > 0; left--) {
            await new Promise<void>((resolve) => thread.defer(resolve));
          }
          return 'peeked';
        },
      },
    }),
  };
}
