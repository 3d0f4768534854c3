/** What the hooks say of one call: before its body, and of its result. */
import { ArgumentError } from '../../protocol/errors.ts';
import type { ToolCallRequest } from '../../protocol/host-services.ts';
import type { Json } from '../../protocol/json.ts';
import { joinSignals } from '../base/deferred.ts';
import type { Hooks } from '../base/hooks.ts';
import type { ToolHooks, ToolResultView } from './hooks.ts';
import * as results from './results.ts';
import type { ToolResult } from './results.ts';

/** The chains of a harness, as far as they are about tools. */
export type ToolHookChains = Pick<Hooks<ToolHooks>, 'has' | 'run'>;

/** One call as hooks are asked about it. */
export interface HookedCall {
  readonly agent: unknown;
  readonly request: ToolCallRequest;
  /** The raw text when that was no JSON. */
  readonly args: Json;
  /** The turn's. */
  readonly signal: AbortSignal;
  /** Aborts when the call is dropped. */
  readonly stop: AbortSignal;
}

export type Verdict =
  | { readonly kind: 'go' }
  | { readonly kind: 'refuse'; readonly result: ToolResult }
  /** A hook threw: nobody is asked about the result. */
  | { readonly kind: 'fail'; readonly result: ToolResult };

const ABORTED = Symbol('aborted');

/** Whether the body may run, as far as hooks decide that. Never rejects. */
export async function askBefore(hooks: ToolHookChains, call: HookedCall): Promise<Verdict> {
  const refuse = (result: ToolResult): Verdict => ({ kind: 'refuse', result });
  const { signal, request } = call;
  try {
    const decision = await asked(call, (joined) =>
      hooks.run(
        'tool/pre-execute',
        contextOf(call, { signal: joined }),
        () => ({ kind: 'allow' }),
        joined,
      ),
    );
    if (decision !== ABORTED && decision?.kind === 'deny') {
      return refuse(results.denied(reasonOf(decision)));
    }
    if (signal.aborted) return refuse(results.abortedBeforeDispatch(request.name));
    if (decision !== ABORTED && decision?.kind === 'allow') return { kind: 'go' };
    throw undecided('tool/pre-execute', 'allow" or "deny');
  } catch (error) {
    // A hook that throws because its turn was aborted does as it should.
    if (signal.aborted) return refuse(results.abortedBeforeDispatch(request.name));
    return { kind: 'fail', result: results.hookFailed(error) };
  }
}

/** What a result becomes once the hooks have seen it. Never rejects. */
export async function askAfter(
  hooks: ToolHookChains,
  call: HookedCall,
  result: ToolResult,
): Promise<ToolResult> {
  const { signal, request } = call;
  // As without hooks: an abort takes a success away, and leaves a failure what it is.
  const unheard = (): ToolResult => (result.isError ? result : results.aborted(request.name));
  try {
    const decision = await asked(call, (joined) =>
      hooks.run(
        'tool/post-execute',
        contextOf(call, { signal: joined, result: viewOf(result) }),
        () => ({ kind: 'accept' }),
        joined,
      ),
    );
    if (decision === ABORTED || signal.aborted) return unheard();
    if (decision?.kind === 'block') return results.denied(reasonOf(decision));
    if (decision?.kind === 'accept') return results.accepted(request.name, result, decision);
    throw undecided('tool/post-execute', 'accept" or "block');
  } catch (error) {
    return signal.aborted ? unheard() : results.hookFailed(error);
  }
}

/**
 * What the hooks decide, or that the call was told to stop before they did: no hook is waited
 * for beyond that, and none of the chain is asked any more. Rejects without asking when that
 * was before.
 */
async function asked<T>(
  { signal, stop }: HookedCall,
  ask: (joined: AbortSignal) => Promise<T>,
): Promise<T | typeof ABORTED> {
  const joined = joinSignals([signal, stop]);
  try {
    return await new Promise<T | typeof ABORTED>((resolve, reject) => {
      // A decision passes through several promises on its way out of the chain. The abort waits
      // for one that was made before it.
      const onAbort = (): void => void setImmediate(resolve, ABORTED);
      joined.signal.addEventListener('abort', onAbort, { once: true });
      ask(joined.signal).then(resolve, reject);
    });
  } finally {
    joined.release();
  }
}

function contextOf<More extends object>({ agent, request, args }: HookedCall, more: More) {
  const { turn, step, callId, name } = request;
  return Object.freeze({ agent, turn, step, callId, name, args, ...more });
}

function viewOf({ content, isError, error, value }: ToolResult): ToolResultView {
  return Object.freeze({
    content,
    isError,
    ...(error === undefined ? {} : { error }),
    ...(value === undefined ? {} : { value }),
  });
}

function reasonOf({ reason }: { readonly reason: unknown }): string {
  if (typeof reason !== 'string') throw new ArgumentError('A hook that refuses says why, in text.');
  return reason;
}

function undecided(type: keyof ToolHooks, kinds: string): ArgumentError {
  return new ArgumentError(`A hook of "${type}" must decide "${kinds}".`);
}
