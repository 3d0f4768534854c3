/** What can be asked of a running harness from outside, and what it tells: one shape for all doors. */
import type { ContentBlock } from '../../protocol/content.ts';
import type { ErrorCode } from '../../protocol/errors.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { RuntimeEvent } from './runtime-events.ts';
import type { SessionStatus } from './session-status.ts';

/** One session of a harness, live or stored, as a tree shows it. */
export interface SessionRow extends SessionStatus {
  readonly id: string;
  readonly parentId?: string;
  /** Edges from its root, as its header says. */
  readonly depth: number;
  /** `external`: a run without an agent here; it is in no store. */
  readonly mode: 'root' | 'one-shot' | 'continuable' | 'external';
  readonly label?: string;
  /** It is live in the process that answers. */
  readonly live: boolean;
  readonly createdAt: number;
  /** Time in turns that have ended, in milliseconds. */
  readonly workedMs: number;
  /** When the open turn began. */
  readonly workingSince?: number;
  /** Absent when its model never told. Cached input counts as input. */
  readonly tokens?: { readonly input: number; readonly output: number };
  /** The last line it wrote; while it has written none in this step, the tool it called last. */
  readonly lastLine?: string;
}

/** A stored session that cannot be shown. */
export interface RowDiagnostic {
  readonly id: string;
  readonly parentId?: string;
  readonly reason: 'corrupt' | 'unavailable' | 'unsupported';
}

/** Rows of sessions, and what is known of those that cannot be read. */
export interface RowListing {
  readonly rows: readonly SessionRow[];
  readonly diagnostics: readonly RowDiagnostic[];
}

/** One entry per operation: the only place one is spelled out. */
export interface OperationMap {
  /** Who serves, and the options of roots that this connection makes from now on. */
  initialize: {
    params: {
      readonly protocolVersion?: number;
      readonly cwd?: string;
      readonly provider?: string;
      readonly model?: string;
      readonly maxTokens?: number;
    };
    result: {
      readonly serverInfo: { readonly name: string; readonly version: string };
      readonly protocolVersion: number;
      readonly pid: number;
    };
  };
  /**
   * Tell a root something: a later turn of its own. An unknown id makes a root of that id, which is
   * then at most 128 letters, digits and `.`, `_`, `:`, `-`, with a letter or a digit in front; a
   * stored one is opened again. The receipt says that it is kept; what comes of it is told.
   */
  'session/prompt': {
    params: { readonly sessionId: string; readonly contentBlocks: readonly ContentBlock[] };
    result: { readonly messageId: string };
  };
  /** Stop the open turn and discard what waits. Of a child: as `session/interrupt`. */
  'session/cancel': { params: { readonly sessionId: string }; result: Empty };
  /**
   * Tell a session that exists something. A root: a later turn; a child: through its own direct
   * parent, which is brought back first, with all above it, when it is not live.
   */
  'session/send': {
    params: { readonly sessionId: string; readonly text: string };
    result: { readonly messageId: string };
  };
  /** Stop the open turn; what waits stays. One that is not live has nothing to stop. */
  'session/interrupt': {
    params: { readonly sessionId: string };
    result: { readonly wasRunning: boolean };
  };
  /** End all continuable children below a live session, and discard what waits for them. */
  'session/drain': { params: { readonly sessionId: string }; result: { readonly ended: number } };
  /**
   * Let go of a root that was opened from outside, once it has nothing to do: another process can
   * own it then. What waits for it is kept. Refused for what the program itself opened.
   */
  'session/close': {
    params: { readonly sessionId: string };
    result: { readonly wasLive: boolean };
  };
  /** Rows of all sessions, or of one and all below it, each in front of its children. */
  'session/list': { params: { readonly rootId?: string }; result: RowListing };
  /** Where a session is: whether it is known, live here, and what is above it. */
  'session/find': {
    params: { readonly sessionId: string };
    result: {
      readonly live: boolean;
      readonly rootId: string;
      readonly isRootLive: boolean;
      readonly parentId?: string;
    };
  };
  /** A page of a log, from `from` on; `next` is absent at the end of what there is by now. */
  'session/read': {
    params: { readonly sessionId: string; readonly from?: number; readonly limit?: number };
    result: { readonly events: readonly SessionEvent[]; readonly next?: number };
  };
  /**
   * Be told of the events of one log, as `session.event` with this `followId`, then `follow.end`:
   * all of it after the answer.
   */
  'session/follow': {
    params: { readonly sessionId: string; readonly from?: number; readonly forever?: boolean };
    result: { readonly followId: string };
  };
  'session/unfollow': { params: { readonly followId: string }; result: Empty };
  /** Be told of a whole tree, after the answer: `tree.snapshot`, then `tree.event` as it happens. */
  'tree/watch': { params: { readonly rootId?: string }; result: { readonly watchId: string } };
  'tree/unwatch': { params: { readonly watchId: string }; result: Empty };
  metrics: { params: Empty; result: Readonly<Record<string, number>> };
  /** End the whole server, where whoever runs it allows that. */
  shutdown: { params: Empty; result: Empty };
}
/** @inline */
type Empty = Readonly<Record<never, never>>;

/** The name of something that can be asked. */
export type OperationName = keyof OperationMap;
/** What an operation is asked with. */
export type OperationParams<M extends OperationName> = OperationMap[M]['params'];
/** What an operation answers. */
export type OperationResult<M extends OperationName> = OperationMap[M]['result'];

/** What is told without being asked, by name. */
export interface NotificationMap {
  /** With `followId`: for that following. Without: of a session that this connection prompted. */
  'session.event': {
    readonly sessionId: string;
    readonly followId?: string;
    readonly event: SessionEvent;
  };
  'session.status': { readonly sessionId: string; readonly status: 'running' | 'idle' };
  'subagent.started': { readonly parentSessionId: string; readonly childSessionId: string };
  'subagent.finished': {
    readonly provider: string;
    readonly agentId: string;
    readonly parentSessionId: string;
    readonly childSessionId: string;
    readonly status: 'completed' | 'error';
    readonly stopReason: string;
    readonly lastAssistantMessage?: readonly ContentBlock[];
  };
  'follow.end': {
    readonly sessionId: string;
    readonly followId: string;
    readonly error?: OperationFailure;
  };
  'tree.snapshot': { readonly watchId: string } & RowListing;
  'tree.event': { readonly watchId: string; readonly event: RuntimeEvent };
  /** What was told since is lost on this reader: a new snapshot follows. */
  'tree.overflow': { readonly watchId: string };
}
/** The name of something that is told. */
export type NotificationName = keyof NotificationMap;

/** What is wrong, as data: the `data` of a JSON-RPC error. */
export interface OperationFailure {
  readonly code: ErrorCode;
  readonly message: string;
}
