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
  /** The turn's: a hook that waits for something gives up when it aborts. */
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

/** Both run in the order of the calls, one after another; only bodies overlap. */
export interface ToolHooks<A = unknown> {
  /**
   * Before the body of a call that is known, permitted and valid. `deny` gives the model an
   * error with the reason; no hook can permit what a guard or a filter refuses.
   */
  'tool/pre-execute': {
    readonly context: OfCall<A>;
    readonly decision:
      | { readonly kind: 'allow' }
      | { readonly kind: 'deny'; readonly reason: string };
  };
  /**
   * After a call, also one that failed: what its result is to be. `block` makes it an error with
   * the reason as feedback; what the body did is done. `accept` may show other content or add
   * messages for the next step.
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
