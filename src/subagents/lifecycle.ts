import type { ContentBlock } from '../../protocol/content.ts';
import { RunId } from '../../protocol/ids.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../agent/agent.ts';
import { frozenCopy } from '../../protocol/json.ts';
import { Emitter } from '../base/emitter.ts';
import { newId } from '../base/ids.ts';
import type { Logger } from '../base/logger.ts';
import { boundDiagnostic } from './diagnostic.ts';
import type { SubagentStopReason } from './provider.ts';

/** A published child, as its start is told. */
export interface SubagentRunInfo {
  /** Pairs a start with its end. Unique, whatever id the provider gave the child. */
  readonly runId: RunId;
  /** Who made it. The provider may be gone by the time this is read. */
  readonly provider: string;
  readonly id: SessionId;
  /** True when the child is an agent of this process. */
  readonly local: boolean;
}

export interface SubagentRunEndInfo extends SubagentRunInfo {
  readonly stopReason: SubagentStopReason;
  /** A frozen copy of the final output; absent when there is none, or none that is JSON. */
  readonly lastAssistantMessage?: readonly ContentBlock[];
  /** Why it failed or declined, as `CODE: message` in at most 4096 bytes of UTF-8. */
  readonly diagnostic?: string;
}

/** Observation only: whatever a listener does, the run goes on. */
export interface LifecycleEvents {
  'subagent/start': SubagentRunInfo;
  'subagent/end': SubagentRunEndInfo;
}

/** What is told, on whose behalf, and what the delegation is called, if it is called anything. */
export interface Carried<Info> {
  readonly parent: Agent;
  readonly label: string | undefined;
  readonly info: Info;
}
type Carriers = { [T in keyof LifecycleEvents]: Carried<LifecycleEvents[T]> };

/** Tells the end of one run; only the first call counts. */
export type SubagentEnd = (
  stopReason: SubagentStopReason,
  output?: readonly ContentBlock[],
  diagnostic?: string,
) => void;

/** Tells of published children, each start with exactly one end, on behalf of their parent. */
export class SubagentLifecycle {
  readonly #emitter: Emitter<Carriers>;

  constructor(logger: Logger) {
    this.#emitter = new Emitter(logger);
  }

  /** With `agent`, only of delegations by that very agent. */
  on<T extends keyof LifecycleEvents>(
    type: T,
    listener: (info: LifecycleEvents[T]) => unknown,
    options: { readonly agent?: Agent } = {},
  ): () => void {
    return this.#emitter.on(type, ({ parent, info }) => {
      if (options.agent === undefined || options.agent === parent) return listener(info);
      return undefined;
    });
  }

  /** As `on`, with the parent and the label. */
  onCarried<T extends keyof LifecycleEvents>(
    type: T,
    listener: (carried: Carried<LifecycleEvents[T]>) => unknown,
  ): () => void {
    return this.#emitter.on(type, listener as (carried: Carriers[T]) => unknown);
  }

  /** Tell the start now. Returns what tells the end, once. */
  start(parent: Agent, child: Omit<SubagentRunInfo, 'runId'>, label?: string): SubagentEnd {
    const info: SubagentRunInfo = Object.freeze({ runId: RunId(newId()), ...child });
    let open = true;
    this.#emitter.emit('subagent/start', { parent, label, info });
    return (stopReason, output = [], diagnostic) => {
      if (!open) return;
      open = false;
      const told = copyOf(output);
      const end = {
        ...info,
        stopReason,
        ...(told === undefined ? {} : { lastAssistantMessage: told }),
        ...(diagnostic === undefined ? {} : { diagnostic: boundDiagnostic(diagnostic) }),
      };
      this.#emitter.emit('subagent/end', { parent, label, info: Object.freeze(end) });
    };
  }
}

/** Of what is told; below what a message can hold. */
const MAX_VALUES = 100_000;

/**
 * Listeners share nothing with the holder of the result, who may go on with it as it likes. What
 * a provider of someone else gives may be anything: what cannot be copied is not told.
 */
function copyOf(output: readonly ContentBlock[]): readonly ContentBlock[] | undefined {
  try {
    const copy = frozenCopy(output, Infinity, { left: MAX_VALUES });
    return Array.isArray(copy) && copy.length > 0 ? (copy as readonly ContentBlock[]) : undefined;
  } catch {
    // No JSON, too much of it, or an accessor that throws.
    return undefined;
  }
}
