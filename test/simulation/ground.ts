/** The harness of one life, and who holds what of it. */
import type { Agent, AgentHandle } from '../../src/agent/agent.ts';
import { buildHarness } from '../../src/harness.ts';
import type { Harness } from '../../src/harness.ts';
import type { MemoryStore } from '../../src/session/memory-store.ts';
import { installSubagentTools } from '../../src/subagent-tools/install.ts';
import type { SubagentRun } from '../../src/subagents/provider.ts';
import type { ProcessReadings } from '../../src/worker-host/process-readings.ts';
import type { WorkerHost } from '../../src/worker-host/worker-host.ts';
import type { Dice } from '../interleavings/plan.ts';
import { MODEL, SECOND } from './hooks.ts';
import type { HookWatch } from './hooks.ts';
import { here } from './life.ts';
import type { Life } from './life.ts';
import { PERSONA } from './minds.ts';
import type { Minds } from './minds.ts';
import type { Oracle } from './oracle.ts';
import { INTERRUPT_GRACE_MS, ROOT, STOP_GRACE_MS } from './plan.ts';
import type { Plan } from './plan.ts';
import { SimStore } from './sim-store.ts';

export interface Ground {
  readonly life: Life;
  readonly harness: Harness;
  readonly root: AgentHandle;
  readonly runs: Set<SubagentRun>;
  readonly controllers: Set<AbortController>;
}

export interface GroundParts {
  readonly plan: Plan;
  readonly dice: Dice;
  readonly oracle: Oracle;
  readonly minds: Minds;
  readonly disk: MemoryStore;
  readonly hooks: HookWatch;
}

const MIB = 1024 * 1024;
/** A process that uses nothing, in a machine that bears everything. */
const READINGS: ProcessReadings = {
  rssBytes: () => 100 * MIB,
  ownBytes: () => 20 * MIB,
  pageBytes: 4_096,
  thread: () => undefined,
  process: () => undefined,
  main: () => undefined,
  helpers: () => undefined,
  mainBusyMs: () => 0,
  memoryBytes: () => 64 * 1024 * MIB,
  freeBytes: () => 64 * 1024 * MIB,
  maps: () => undefined,
  descriptors: () => undefined,
};

/** Build a harness in this life of main, and open its root again if there was one. */
export async function ground(parts: GroundParts, life: Life, isAgain: boolean): Promise<Ground> {
  const { plan, dice, oracle, minds, disk, hooks } = parts;
  const warn = (fields: object, text: string): void => oracle.warned(text, fields);
  let host: WorkerHost | undefined;
  const { maxLiveChildren, maxTotalChildren, maxPending, restarts } = plan;
  const { steps, outputBytes, toolMs, runMs } = plan;
  const harness = await buildHarness(
    {
      store: new SimStore(life, disk),
      workers: { warm: plan.warm, entry: new URL('file:///agent-worker.cjs') },
      models: { script: minds.model, [SECOND]: minds.model },
      defaultModel: MODEL,
      tools: [...minds.tools, { module: new URL('file:///peek.mjs') }],
      persona: PERSONA,
      variables: { self: ({ agent }) => (agent as Agent).id },
      limits: {
        maxDepth: plan.maxDepth,
        maxThreads: plan.maxThreads,
        turnMs: plan.turnMs,
        memoryMb: plan.memoryMb,
        stopGraceMs: STOP_GRACE_MS,
        interruptGraceMs: INTERRUPT_GRACE_MS,
        ...(maxLiveChildren === undefined ? {} : { maxLiveChildren }),
        ...(maxTotalChildren === undefined ? {} : { maxTotalChildren }),
        ...(maxPending === undefined ? {} : { maxPending }),
        ...(steps === undefined ? {} : { steps }),
        ...(outputBytes === undefined ? {} : { outputBytes }),
        ...(toolMs === undefined ? {} : { toolMs }),
        ...(runMs === undefined ? {} : { runMs }),
        ...(restarts === undefined ? {} : { restarts }),
      },
      logger: { debug() {}, info() {}, warn, error: warn },
    },
    {
      clock: life.clock,
      random: () => dice.next(),
      readings: READINGS,
      machine: { most: () => Infinity, bound: 'nothing' },
      watch: (shown) => void (host = shown),
    },
  );
  oracle.attach(harness, host);
  if (plan.hasHooks) hooks.install(harness);
  installSubagentTools(harness, {
    delegation: [
      { provider: 'spawn', backgroundMode: 'continuable' },
      { provider: 'fork', toolName: 'forked', backgroundMode: 'one-shot' },
    ],
  });
  const root = await openRoot(harness, plan, isAgain);
  return { life, harness, root, runs: new Set(), controllers: new Set() };
}

async function openRoot(harness: Harness, plan: Plan, isAgain: boolean): Promise<AgentHandle> {
  const { agents } = harness;
  if (plan.hasHost) {
    const onMessage = async (): Promise<void> => {
      await here.life.wait('the host');
    };
    return agents.createHost({ sessionId: ROOT, onMessage });
  }
  const limits = { turnMs: plan.turnMs };
  for (let tries = 0; ; tries++) {
    try {
      if (!isAgain) return await agents.create({ sessionId: ROOT, limits });
      return await agents.resume(ROOT, { limits });
    } catch (error) {
      const { code = '' } = error as { code?: string };
      // The process died before anything of it was written.
      if (isAgain && code === 'SESSION_NOT_FOUND') return openRoot(harness, plan, false);
      // Its thread was late.
      if (!code.startsWith('WORKER_') || tries > 9) throw error;
    }
  }
}
