/** Words about continuable children, what they and their parents are told, and who is in the way. */
import { textOf } from '../../protocol/content.ts';
import type { ContentBlock, UserMessage } from '../../protocol/content.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import type { Script, ScriptedModel } from '../../src/models/scripted.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness, TestHarnessOptions } from '../support/harness.ts';
import { until } from '../support/until.ts';
import { USER } from '../worker-host/agent-words.ts';

export const noSignal = (): AbortSignal => new AbortController().signal;
export const text = (words: string): ContentBlock[] => [{ type: 'text', text: words }];

/** What each generation answers; who is given nothing says "Noted.". */
export interface Scripts {
  readonly root?: Script;
  readonly child?: Script;
  readonly grandchild?: Script;
}

export interface Family extends AsyncDisposable {
  readonly rt: TestHarness;
  readonly models: Readonly<Record<'root' | 'child' | 'grandchild', ScriptedModel>>;
  /** A continuable child that has accepted `prompt`. */
  start(options?: StartOptions): Promise<Agent>;
  tell(child: Agent, words: string, parent?: Agent): Promise<unknown>;
  /** Its residency is over, and its parent was told. */
  gone(child: Agent): Promise<void>;
  isLive(child: Agent): boolean;
}

export interface StartOptions {
  readonly parent?: Agent;
  readonly label?: string;
  readonly prompt?: string;
  readonly signal?: AbortSignal;
}

/** A harness whose agents have a model of their own for each generation. */
export async function family(scripts: Scripts, options: TestHarnessOptions = {}): Promise<Family> {
  const noted: Script = () => 'Noted.';
  const models = {
    child: scriptedModel(scripts.child ?? noted),
    grandchild: scriptedModel(scripts.grandchild ?? noted),
  };
  const rt = await testHarness({ script: scripts.root ?? noted, ...options, models });
  const { agents, subagents } = rt.harness;
  const open = new Set<string>();
  rt.harness.on('subagent/start', ({ id }) => open.add(id));
  rt.harness.on('subagent/end', ({ id }) => open.delete(id));
  return {
    rt,
    models: { root: rt.model, ...models },
    async start({ parent = rt.root, label = 'worker', prompt = 'Go.', signal = noSignal() } = {}) {
      const isChild = parent.session.header.parentSession === undefined;
      const { childId } = await subagents.startContinuable({
        provider: 'spawn',
        label,
        signal,
        request: {
          parent,
          prompt: text(prompt),
          agentOptions: { provider: isChild ? 'child' : 'grandchild', model: 'test' },
        },
      });
      return agents.get(childId)!;
    },
    tell: (child, words, parent = rt.root) =>
      subagents.followup(parent, child.id, words, { source: USER, signal: noSignal() }),
    gone: (child) => until(() => agents.get(child.id) !== child && !open.has(child.id)),
    isLive: (child) => agents.get(child.id) === child,
    [Symbol.asyncDispose]: () => rt[Symbol.asyncDispose](),
  };
}

/** What was put into its inbox, and into which list. */
export const insertions = ({ session }: Agent): { list: string; message: UserMessage }[] =>
  session.events.flatMap((event) =>
    event.type === 'agent/inbox/spliced'
      ? event.data.inserted.map((message) => ({ list: event.data.target, message }))
      : [],
  );

/** The notices it was given, as text. */
export const notices = (agent: Agent): string[] =>
  insertions(agent).flatMap(({ message: { source, content } }) =>
    source.kind === 'subagent-settled'
      ? [content.map((block) => textOf([block]).trimEnd()).join(' | ')]
      : [],
  );

const BY: Readonly<Record<string, string>> = {
  'subagent-report': 'report',
  'subagent-settled': 'notice',
};

/** Who spoke in each step it has begun, turn by turn: `[['user'], ['report', 'notice']]`. */
export function told({ session }: Agent): string[][] {
  const steps: string[][] = [];
  for (const event of session.events) {
    if (event.type === 'step/start') steps.push([]);
    else if (event.type === 'user/message' && event.data.source.kind !== 'plugin') {
      const { kind } = event.data.source;
      steps.at(-1)?.push(BY[kind] ?? kind);
    }
  }
  return steps;
}

export const turns = ({ session }: Agent): number => session.lastTurn;

/** Every call of its `cancel` from now on. */
export function cancels(agent: Agent): unknown[][] {
  const calls: unknown[][] = [];
  const cancel = agent.cancel.bind(agent);
  agent.cancel = (...given) => {
    calls.push(given);
    cancel(...given);
  };
  return calls;
}

/** Every end of a delegation from now on. */
export function endsTold(rt: TestHarness): { reason: string; said: string | undefined }[] {
  const told: { reason: string; said: string | undefined }[] = [];
  rt.harness.on('subagent/end', ({ stopReason, lastAssistantMessage }) => {
    const said = lastAssistantMessage === undefined ? undefined : textOf(lastAssistantMessage);
    told.push({ reason: stopReason, said });
  });
  return told;
}

export const codeOf = (work: () => unknown): Promise<unknown> =>
  (async () => work())().then(
    () => 'accepted',
    (error: { code?: unknown }) => error.code ?? error,
  );
