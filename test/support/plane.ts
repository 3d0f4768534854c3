/**
 * One scenario and the planes it is played on: the loop in this process, in a thread, and in a
 * thread with its model. Its model's answers are data, and nothing in it depends on how parts
 * are batched or on who is faster: it acts on events of the log and inside tools of main.
 */
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { ToolModule } from '../../protocol/tool.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { Harness } from '../../src/harness.ts';
import type * as library from '../../src/index.ts';
import type { ScriptedStep } from '../../src/models/scripted.ts';
import type { Session } from '../../src/session/session.ts';
import type { SubagentRun, SubagentStartRequest } from '../../src/subagents/provider.ts';
import type { HostTool } from '../../src/tools/registry.ts';
import { canonicalLogs } from './canonical-log.ts';
import type { CanonicalLog } from './canonical-log.ts';

export type Library = typeof library;

/** Stands in a streamed text: the answer is held there until its request is aborted. */
export const HELD = { held: true } as const;

/** One answer of a scripted model, as data: a thread can be given it, too. */
export type PlannedAnswer =
  | string
  | (Omit<ScriptedStep, 'text' | 'reasoning' | 'hold' | 'throws'> & {
      readonly text?: string | readonly (string | typeof HELD)[];
      readonly reasoning?: string;
      /** Held before its first part. */
      readonly hold?: typeof HELD;
    });

/** Quick, and the same every time. */
export const RETRY = {
  maxRetries: 2,
  retryableCodes: ['SERVER'],
  initialDelayMs: 1,
  maxDelayMs: 1,
  jitterRatio: 0,
} as const;

/** The script that plays these answers. */
export function scriptOf(answers: readonly PlannedAnswer[]): ScriptedStep[] {
  const never = { wait: () => new Promise<void>(() => {}) };
  return answers.map((answer): ScriptedStep => {
    if (typeof answer === 'string') return { text: answer };
    const { text = [], hold, ...rest } = answer;
    const pieces = (typeof text === 'string' ? [text] : text).map((piece) =>
      typeof piece === 'string' ? piece : never,
    );
    return {
      ...rest,
      ...(pieces.length === 0 ? {} : { text: pieces }),
      ...(hold === undefined ? {} : { hold: never }),
    };
  });
}

export interface Scenario {
  readonly name: string;
  /** By provider name. One agent for each, because a thread that has its model begins its script. */
  readonly models: Readonly<Record<string, readonly PlannedAnswer[]>>;
  /** Made anew for each plane. */
  tools?(library: Library): readonly (HostTool | ToolModule)[];
  /** What it resolves with is compared, too. */
  play(plane: Plane): Promise<unknown>;
}

/** What a plane is made of: a harness whose default model is `parent`, and a root on it. */
export interface PlaneParts {
  readonly library: Library;
  readonly harness: Harness;
  readonly root: Agent;
}

export interface Played {
  readonly outcome: unknown;
  readonly logs: readonly CanonicalLog[];
}

/** One scenario on one plane: what came of it, and every log, in the order of the sessions. */
export async function playOn(scenario: Scenario, parts: PlaneParts): Promise<Played> {
  const plane = new Plane(parts);
  const outcome: unknown = await scenario.play(plane);
  await parts.harness.dispose();
  return { outcome, logs: canonicalLogs(plane.sessions) };
}

export class Plane {
  readonly library: Library;
  readonly harness: Harness;
  readonly root: Agent;
  readonly sessions: Session[];

  constructor({ library, harness, root }: PlaneParts) {
    this.library = library;
    this.harness = harness;
    this.root = root;
    this.sessions = [root.session];
    harness.on('session/created', ({ session }) => void this.sessions.push(session));
    for (const name of ['child', 'grandchild']) {
      if (harness.models.resolve(name) === undefined) continue;
      harness.tools.register(
        library.subagentTool(harness.subagents, {
          provider: 'spawn',
          toolName: `ask_${name}`,
          agentOptions: { provider: name, model: 'test' },
        }),
      );
    }
  }

  /** Tell the root this, and wait until it has nothing to do. */
  async ask(text: string): Promise<void> {
    this.root.followup(this.library.createUserMessage(text));
    await this.root.whenIdle();
  }

  start(more: Partial<SubagentStartRequest> = {}, provider = 'spawn'): Promise<SubagentRun> {
    return this.harness.subagents.start(provider, {
      parent: this.root,
      prompt: [{ type: 'text', text: 'Work.' }],
      signal: new AbortController().signal,
      agentOptions: { provider: 'child', model: 'test' },
      ...more,
    });
  }

  /** The result of one run that is let go of afterwards. */
  async run(more: Partial<SubagentStartRequest> = {}, provider?: string): Promise<unknown> {
    const run = await this.start(more, provider);
    const result = await run.result;
    await run.dispose();
    return result;
  }

  /** Called in the tick of every event that is shown to `isIt`, the first time that it says yes. */
  once(isIt: (event: SessionEvent) => boolean, then: (session: Session) => void): void {
    const off = this.harness.on('session/event', ({ session, event }) => {
      if (!isIt(event)) return;
      off();
      then(session);
    });
  }
}

/** The part of a stream that brings this text. */
export const brings =
  (text: string) =>
  (event: SessionEvent): boolean =>
    event.type === 'assistant/chunk' &&
    event.data.chunk.type === 'text-delta' &&
    event.data.chunk.text === text;
