/**
 * Watches that the four events of delegation tell a story that can be true. It changes nothing
 * and throws nothing: what it finds is data.
 */
import type { RunId } from '../../protocol/ids.ts';
import { printed } from '../../protocol/error-record.ts';
import type { LifecycleEvents, SubagentRunInfo } from './lifecycle.ts';
import type { ProviderEvents } from './registry.ts';
import type { SubagentRuntime } from './runtime.ts';

/** Something that cannot be true of runs or providers. */
export interface LifecycleViolation {
  readonly rule:
    | 'provider-without-name'
    | 'provider-added-twice'
    | 'unknown-provider-removed'
    | 'start-without-identity'
    | 'run-id-used-twice'
    | 'end-without-start'
    | 'end-of-another';
  /** What was told, and what keeps it from being true. */
  readonly message: string;
}

/** Fed with the events in their order, it collects what cannot be true of them. */
export class LifecycleChecker {
  readonly violations: LifecycleViolation[] = [];
  readonly #providers: Set<string>;
  readonly #open = new Map<RunId, SubagentRunInfo>();
  readonly #used = new Set<RunId>();

  /** @param providers names that were there before the first event */
  constructor(providers: Iterable<string> = []) {
    this.#providers = new Set(providers);
  }

  /** Starts without an end so far. */
  get open(): readonly SubagentRunInfo[] {
    return [...this.#open.values()];
  }

  added({ name }: ProviderEvents['subagent/provider-added']): void {
    if (!isName(name)) {
      this.#report('provider-without-name', `A provider was added as ${quoted(name)}.`);
    } else if (this.#providers.has(name)) {
      this.#report('provider-added-twice', `The provider ${quoted(name)} was added twice.`);
    }
    this.#providers.add(name);
  }

  removed(name: ProviderEvents['subagent/provider-removed']): void {
    if (this.forget(name)) return;
    this.#report(
      'unknown-provider-removed',
      `The provider ${quoted(name)} was removed, and was not there.`,
    );
  }

  /** A registration was taken back by a listener: its removal is not told. */
  forget(name: string): boolean {
    return this.#providers.delete(name);
  }

  /** Its provider may be gone: a run outlives it. */
  started(info: LifecycleEvents['subagent/start']): void {
    const { runId, provider, id } = info;
    for (const [what, value] of Object.entries({ runId, provider, id })) {
      if (isName(value)) continue;
      this.#report(
        'start-without-identity',
        `The run ${quoted(runId)} was started with ${quoted(value)} as its ${what}.`,
      );
    }
    if (this.#used.has(runId)) {
      this.#report('run-id-used-twice', `The run ${quoted(runId)} was started twice.`);
    }
    this.#used.add(runId);
    this.#open.set(runId, info);
  }

  ended(info: LifecycleEvents['subagent/end']): void {
    const { runId } = info;
    const start = this.#open.get(runId);
    this.#open.delete(runId);
    if (start === undefined) {
      const why = this.#used.has(runId) ? 'had ended already' : 'was never started';
      this.#report('end-without-start', `The run ${quoted(runId)} ended and ${why}.`);
      return;
    }
    for (const part of ['provider', 'id', 'local'] as const) {
      if (start[part] === info[part]) continue;
      const [was, is] = [start[part], info[part]].map(quoted);
      this.#report(
        'end-of-another',
        `The run ${quoted(runId)} was started with ${was} as its ${part} and ended with ${is}.`,
      );
    }
  }

  #report(rule: LifecycleViolation['rule'], message: string): void {
    this.violations.push(Object.freeze({ rule, message }));
  }
}

/** A watch over what is told of delegation. */
export interface InvariantWatch {
  /** What was found so far; it grows. */
  readonly violations: readonly LifecycleViolation[];
  /** Runs whose start was told and whose end was not: none once the harness is disposed. */
  readonly open: readonly SubagentRunInfo[];
  /** Stop watching. Idempotent. */
  dispose(): void;
}

/** Watch a harness, from before its first delegation on. */
export function watchInvariants(harness: {
  readonly subagents: Pick<SubagentRuntime, 'list' | 'on'>;
}): InvariantWatch {
  const { subagents } = harness;
  const checker = new LifecycleChecker(subagents.list());
  const stops = [
    subagents.on('subagent/provider-added', (provider) => {
      checker.added(provider);
      // A later listener may refuse it, by throwing, in this very tick.
      queueMicrotask(() => {
        if (!subagents.list().includes(provider.name)) checker.forget(provider.name);
      });
    }),
    subagents.on('subagent/provider-removed', (name) => checker.removed(name)),
    subagents.on('subagent/start', (info) => checker.started(info)),
    subagents.on('subagent/end', (info) => checker.ended(info)),
  ];
  return {
    violations: checker.violations,
    get open() {
      return checker.open;
    },
    dispose: () => stops.forEach((stop) => stop()),
  };
}

const isName = (value: unknown): boolean => typeof value === 'string' && value !== '';
const quoted = (value: unknown): string =>
  typeof value === 'string' ? `"${value}"` : printed(value);
