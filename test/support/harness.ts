import type { ErrorRecord } from '../../protocol/error-record.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent, AgentHandle } from '../../src/agent/agent.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { Clock } from '../../src/base/clock.ts';
import type { Logger } from '../../src/base/logger.ts';
import { buildHarness } from '../../src/harness.ts';
import type { Harness } from '../../src/harness.ts';
import type { HarnessOptions } from '../../src/harness-options.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import type { Script, ScriptedModel } from '../../src/models/scripted.ts';
import type { Session } from '../../src/session/session.ts';
import { watchInvariants } from '../../src/subagents/invariants.ts';
import type { Capacity } from '../../src/worker-host/threads.ts';
import type { WorkerHost } from '../../src/worker-host/worker-host.ts';
import { inProcessThreads } from './in-process-threads.ts';
import type { InProcessThreads, InProcessThreadsOptions } from './in-process-threads.ts';

export interface TestHarnessOptions extends HarnessOptions {
  /** What the model `script` plays; a request beyond it fails. */
  readonly script?: Script;
  readonly clock?: Clock;
  readonly machine?: Capacity;
  readonly threads?: Pick<InProcessThreadsOptions, 'delivery' | 'import' | 'failStart' | 'made'>;
}

export interface TestHarness extends AsyncDisposable {
  readonly harness: Harness;
  /** A root agent on the model `script`. */
  readonly root: Agent;
  readonly rootHandle: AgentHandle;
  readonly model: ScriptedModel;
  readonly threads: InProcessThreads;
  /** What has work and would never move again: nothing, between two tasks of the event loop. */
  stalls(): readonly string[];
  /** What was logged as a warning or an error. */
  readonly warnings: { readonly message: string; readonly error?: ErrorRecord }[];
  /** Tell an agent something and wait until it has nothing to do. */
  ask(text: string | UserMessage, agent?: Agent): Promise<void>;
}

/**
 * A whole harness whose threads' bodies run in this one, with a scripted model and a root. Its
 * disposal fails when what was told of delegations cannot be true, or leaves a run open.
 */
export async function testHarness(options: TestHarnessOptions = {}): Promise<TestHarness> {
  const { script = [], clock = systemClock, threads: threadOptions, machine, ...rest } = options;
  const warnings: TestHarness['warnings'] = [];
  const warn = (fields: object, message: string): void =>
    void warnings.push({ ...(fields as { error?: ErrorRecord }), message });
  const logger: Logger = { debug() {}, info() {}, warn, error: warn };
  const model = scriptedModel(script);
  const threads = inProcessThreads({ clock, ...threadOptions });
  let host: WorkerHost | undefined;
  const harness = await buildHarness(
    {
      workers: { warm: 0 },
      logger,
      ...rest,
      models: { script: model, ...rest.models },
      defaultModel: rest.defaultModel ?? { provider: 'script', model: 'test' },
    },
    {
      clock,
      random: () => 0.5,
      ...(machine === undefined ? {} : { machine }),
      threads: () => threads.factory,
      watch: (shown) => void (host = shown),
    },
  );
  const watch = watchInvariants(harness);
  try {
    const rootHandle = await harness.agents.create();
    return {
      harness,
      root: rootHandle.agent,
      rootHandle,
      model,
      threads,
      stalls: () => host?.stalls(harness.agents.list()) ?? [],
      warnings,
      async ask(text, agent = rootHandle.agent) {
        agent.followup(typeof text === 'string' ? createUserMessage(text) : text);
        await agent.whenIdle();
      },
      async [Symbol.asyncDispose]() {
        await harness.dispose();
        const open = watch.open.map(({ runId }) => `The run "${runId}" never ended.`);
        const wrong = [...watch.violations.map(({ message }) => message), ...open];
        if (wrong.length > 0) throw new Error(wrong.join(' '));
      },
    };
  } catch (error) {
    await harness.dispose();
    throw error;
  }
}

/** The types of a session's events, in order; chunks left out. */
export function eventTypes(session: Pick<Session, 'events'>): string[] {
  return session.events.map(({ type }) => type).filter((type) => type !== 'assistant/chunk');
}
