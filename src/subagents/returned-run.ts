/** Reads what a provider answers with. It may be anything, and its accessors may throw. */
import type { SubagentResult, SubagentRun } from './provider.ts';

/** The parts of an answer, each read once. Those of one with a problem need not be what they are. */
export interface ReturnedRun {
  readonly id: SubagentRun['id'];
  readonly localAgent: SubagentRun['localAgent'];
  readonly result: PromiseLike<SubagentResult>;
  /** Asks the answer itself; absent when that has no such method. */
  readonly dispose: (() => Promise<void>) | undefined;
  /** What keeps it from being a run. */
  readonly problem: string | undefined;
}

export function readRun(returned: unknown): ReturnedRun {
  let problem: string | undefined;
  const read = <K extends keyof SubagentRun>(key: K): SubagentRun[K] => {
    try {
      return (returned as SubagentRun | null | undefined)?.[key] as SubagentRun[K];
    } catch {
      // An accessor that throws. The others may do: what can be disposed is to be.
      problem = `its ${key} cannot be read`;
      return undefined as unknown as SubagentRun[K];
    }
  };
  const parts = { id: read('id'), localAgent: read('localAgent'), result: read('result') };
  const dispose =
    typeof read('dispose') === 'function' ? () => (returned as SubagentRun).dispose() : undefined;
  problem ??= problemOf(returned, parts);
  if (dispose === undefined) problem ??= 'it cannot be disposed';
  return { ...parts, dispose, problem };
}

function problemOf(
  returned: unknown,
  { id, localAgent, result }: Omit<SubagentRun, 'dispose'>,
): string | undefined {
  if (typeof returned !== 'object' || returned === null) {
    return `it is ${returned === null ? 'null' : typeof returned}`;
  }
  if (typeof id !== 'string' || (id as string) === '') return 'it has no id';
  try {
    if (typeof result?.then !== 'function') return 'its result is no promise';
    if (localAgent === undefined || localAgent?.id === id) return undefined;
    return 'its agent is not the one of its id';
  } catch {
    return 'its result or its agent cannot be read';
  }
}
