import type { ContentBlock, UserMessage } from '../../protocol/content.ts';
import type { CallId } from '../../protocol/ids.ts';
import type { Json } from '../../protocol/json.ts';

interface OfCall<A> {
  readonly agent: A;
  readonly turn: number;
  readonly step: number;
  readonly callId: CallId;
  readonly name: string;
  /** As the model gave them: the raw text where that is no JSON. */
  readonly args: Json;
  /** The turn's, also aborted when its thread is lost: a hook that waits then gives up. */
  readonly signal: AbortSignal;
}

/** What a call came to, as a hook sees it and a model will. */
export interface ToolResultView {
  readonly content: readonly ContentBlock[];
  readonly isError: boolean;
  /** Present when the failure has a code. */
  readonly error?: { readonly name: string; readonly code: string };
  /** What the body returned; absent for a failure. */
  readonly value?: Json;
}

/**
 * Both run in the order of the calls, one after another; only bodies overlap. What a hook throws
 * is the error result of its call, about which nobody is asked any more.
 */
export interface ToolHooks<A = unknown> {
  /**
   * Before the body of a call that is known, permitted and valid. `deny` gives the model an
   * error with the reason; no hook can permit what a guard or a filter refuses. Once the turn is
   * aborted only a denial counts, and only one that comes at once.
   */
  'tool/pre-execute': {
    readonly context: OfCall<A>;
    readonly decision:
      | { readonly kind: 'allow' }
      | { readonly kind: 'deny'; readonly reason: string };
  };
  /**
   * After a call, also one that failed: what its result is to be. `block` makes it an error with
   * the reason as feedback; what the body did is done. `accept` may show other content, to the
   * model only, or add messages for the next step. Not asked, and not heard, once the turn is
   * aborted.
   */
  'tool/post-execute': {
    readonly context: OfCall<A> & { readonly result: ToolResultView };
    readonly decision:
      | {
          readonly kind: 'accept';
          readonly content?: readonly ContentBlock[];
          readonly contexts?: readonly UserMessage[];
        }
      | { readonly kind: 'block'; readonly reason: string };
  };
}
