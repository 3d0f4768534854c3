import { createContext, Script } from 'node:vm';

const context = createContext(Object.create(null) as Record<string, unknown>);
const script = new Script('run()');

/**
 * What `run` returns, or `undefined` when it took longer than that: then it was ended where it
 * was, in the middle of a loop or of matching a pattern. Costs a thread each time. Contract: what
 * it works on is its own, for it may be left half done.
 *
 * @param ms wall time, which passes also while the machine does something else
 * @throws what `run` throws
 */
export function withinTime<T>(ms: number, run: () => T): { readonly value: T } | undefined {
  context['run'] = run;
  try {
    return { value: script.runInContext(context, { timeout: ms }) as T };
  } catch (error) {
    if ((error as { code?: unknown } | null)?.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') {
      return undefined;
    }
    throw error;
  } finally {
    context['run'] = undefined;
  }
}
