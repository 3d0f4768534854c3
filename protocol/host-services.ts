import type { ErrorRecord, Outcome } from './error-record.ts';
import type { ContentBlock, UserMessage } from './content.ts';
import type { CallId, StreamId } from './ids.ts';
import type { Json, JsonObject } from './json.ts';
import type { ModelRequest } from './model.ts';
import type { TurnEndReason } from './session-events.ts';

/**
 * What one agent's loop may ask of main. The object behind it was made for that agent, so no
 * call names its caller. A call keeps its place behind the events posted before it.
 * @internal
 */
export interface HostServices {
  /** Take the next work. Main alone decides idleness, in one tick, and opens the turn or step. */
  claim(boundary: ClaimBoundary, concluded: boolean): Promise<Outcome<ClaimReply>>;
  /** Ask for one tool call: it was carried out on main, or the body is to be run here. */
  callTool(call: ToolCallRequest): Promise<Outcome<ToolCallReply>>;
  /** Hand in what a module's tool did; main settles the authoritative result. */
  finishTool(callId: CallId, outcome: ToolOutcome): Promise<Outcome<ToolSettled>>;
  /**
   * Ask for a model request: its parts come as frames, or the model is to be run here. After one
   * that failed, ask for the next attempt: whether and when it is made is main's to decide, and
   * the answer waits until then.
   */
  openModel(request: ModelCallRequest): Promise<Outcome<ModelCallReply>>;
}

export type ClaimBoundary = 'turn' | 'step';

export type ClaimReply =
  /** A step is open in the log, and its messages are committed. */
  | { readonly kind: 'enter'; readonly turn: number; readonly step: number }
  /** Nothing to run; nothing was logged. */
  | { readonly kind: 'idle' }
  /** A concluded step, and nothing waits: end the turn. */
  | { readonly kind: 'close'; readonly turn: number }
  /** The turn is open and must end so. */
  | { readonly kind: 'end'; readonly turn: number; readonly reason: TurnEndReason };

export interface ToolCallRequest {
  readonly turn: number;
  readonly step: number;
  readonly callId: CallId;
  readonly name: string;
  /** The model's raw text. */
  readonly arguments: string;
  /** For a module's tool: what its own classifier says of these arguments. */
  readonly concurrencySafe?: boolean;
}

/**
 * One call has its result, and the log has it once it has those of the calls before. The content
 * stays on main, where the log is.
 */
export interface ToolSettled {
  readonly done: true;
  /** It succeeded and asked that the turn end after this step. */
  readonly concludesTurn: boolean;
}
export type ToolCallReply =
  | ToolSettled
  | { readonly done: false; readonly runHere: true; readonly args: JsonObject };

/** What a module's tool did: a value and how to show it, or what it threw. */
export type ToolOutcome =
  | {
      readonly ok: true;
      readonly value: Json;
      readonly content: readonly ContentBlock[];
      readonly contexts?: readonly UserMessage[];
      readonly concludesTurn?: boolean;
    }
  | { readonly ok: false; readonly error: ErrorRecord };

export interface ModelCallRequest {
  readonly turn: number;
  readonly step: number;
  /** 1 for the first request of a step, one more after each that failed. */
  readonly attempt: number;
}

export type ModelCallReply =
  /** The parts come down as `parts` frames. */
  | {
      readonly route: 'host';
      readonly stream: StreamId;
      readonly provider: string;
      readonly model: string;
    }
  /**
   * Run the module here. `request.messages` holds only what this thread was not given before:
   * its history is that many messages long, then these.
   */
  | {
      readonly route: 'here';
      readonly stream: StreamId;
      readonly knownMessages: number;
      readonly request: ModelRequest;
    }
  /** The request that failed is not made again: its failure is the turn's. */
  | { readonly route: 'none' };

/** The four calls, for the guard in front of the dispatcher. */
export const HOST_SERVICE_NAMES = ['claim', 'callTool', 'finishTool', 'openModel'] as const;
export type HostServiceName = (typeof HOST_SERVICE_NAMES)[number];
