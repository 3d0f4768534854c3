/**
 * The closed set of codes, one list per class that has more than one. Codes are API; messages are
 * prose. `docs/errors.md` says of each when it comes and what to do.
 */
export const SUBAGENT_ERROR_CODES = [
  'DUPLICATE_PROVIDER',
  'NO_PROVIDER',
  'UNSUPPORTED_CAPABILITY',
  'DRAINING',
  'UNAUTHORIZED',
  'ACTIVATION_TEARDOWN_FAILED',
  'CAPACITY',
  'ISOLATION_UNAVAILABLE',
  'CONTINUATION_UNAVAILABLE',
  'PERSISTENCE_UNAVAILABLE',
  'DUPLICATE_CHILD',
  'ACTIVATION_CLOSING',
  'PARENT_UNAVAILABLE',
  'NOT_RESUMABLE',
  'ACTIVATION_SETUP_REVOKED',
  'ACTIVATION_SETUP_RELEASE_FAILED',
  'SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE',
  'SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE',
  'CANCELLED',
] as const;
export const TOOL_FILTER_ERROR_CODES = ['UNKNOWN_TOOL_NAME', 'EMPTY_FILTER'] as const;
export const PROTOCOL_ERROR_CODES = [
  'PROTOCOL_VIOLATION',
  'PROTOCOL_VERSION',
  'UNKNOWN_OPERATION',
  'CONNECTION_CLOSED',
  'INTERNAL',
] as const;
export const WORKER_ERROR_CODES = [
  'WORKER_START_FAILED',
  'WORKER_START_TIMEOUT',
  'WORKER_CRASHED',
  'WORKER_EXITED',
  'WORKER_OUT_OF_MEMORY',
  'WORKER_UNRESPONSIVE',
  'WORKER_STUCK',
  'WORKER_FLOODED',
  'MEMORY_LIMIT_VOID',
] as const;
export const STORE_ERROR_CODES = [
  'STORE_FULL',
  'STORE_READ_ONLY',
  'STORE_IO',
  'STORE_CORRUPT',
  'STORE_FORMAT_UNSUPPORTED',
  'SESSION_NOT_FOUND',
  'SESSION_OWNED_ELSEWHERE',
  'STALE_EPOCH',
] as const;

/** The codes of a `SubagentError`. */
export type SubagentErrorCode = (typeof SUBAGENT_ERROR_CODES)[number];
/** @inline */
export type ToolFilterErrorCode = (typeof TOOL_FILTER_ERROR_CODES)[number];
/** @inline */
export type ProtocolErrorCode = (typeof PROTOCOL_ERROR_CODES)[number];
/** @inline */
export type WorkerErrorCode = (typeof WORKER_ERROR_CODES)[number];
/** @inline */
export type StoreErrorCode = (typeof STORE_ERROR_CODES)[number];

/** Every code. `docs/errors.md` says of each when it comes and what to do. */
export type ErrorCode =
  | SubagentErrorCode
  | 'DEPTH_EXCEEDED'
  | 'UNSUPPORTED_SCHEMA'
  | ToolFilterErrorCode
  | 'INVALID_ARGUMENT'
  | ProtocolErrorCode
  | WorkerErrorCode
  | 'LIMIT_EXCEEDED'
  | 'PROJECTION_FAILED'
  | StoreErrorCode;

/** Every error of ours. A proxy is none, not even that of one. */
const ours = new WeakSet<object>();
/** What is read of an error of ours without more ado. */
const READ = ['code', 'message', 'cause'] as const;

/** Every error this library throws at a caller. A caller's own abort reason is rethrown as it is. */
export class HarnessError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    ours.add(this);
  }
  // Spelled out in every class: a bundle renames the classes themselves.
  override get name(): string {
    return 'HarnessError';
  }
  /**
   * What foreign code threw is asked for its class in many places: the answer runs nothing of
   * it and never throws, and what is one of ours can be read.
   * @internal
   */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (!ours.has(value as object)) return false;
    if (READ.some((key) => Object.getOwnPropertyDescriptor(value, key)?.get !== undefined)) {
      return false;
    }
    try {
      return Function.prototype[Symbol.hasInstance].call(this, value);
    } catch {
      // It was given a prototype that is a proxy: it is nothing of ours any more.
      return false;
    }
  }
}

/** An operation of the `subagents` service was refused, or a part of it failed. */
export class SubagentError extends HarnessError {
  constructor(code: SubagentErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
  override get name(): string {
    return 'SubagentError';
  }
}

/** A child would be deeper than its cap allows. */
export class SubagentDepthError extends HarnessError {
  readonly attemptedDepth: number;
  readonly maxDepth: number;
  constructor(attemptedDepth: number, maxDepth: number) {
    super(
      'DEPTH_EXCEEDED',
      `Cannot start a child: depth ${attemptedDepth} exceeds maxDepth ${maxDepth}.`,
    );
    this.attemptedDepth = attemptedDepth;
    this.maxDepth = maxDepth;
  }
  override get name(): string {
    return 'SubagentDepthError';
  }
}

/** A JSON Schema is outside the enforced subset; `violations` lists all that was found. */
export class JsonSchemaError extends HarnessError {
  readonly violations: readonly string[];
  constructor(violations: readonly string[]) {
    super('UNSUPPORTED_SCHEMA', `Unsupported JSON Schema: ${violations.join('; ')}.`);
    this.violations = violations;
  }
  override get name(): string {
    return 'JsonSchemaError';
  }
}

/** A tool filter names no tool, or a tool that does not exist. */
export class ToolFilterError extends HarnessError {
  constructor(code: ToolFilterErrorCode, message: string) {
    super(code, message);
  }
  override get name(): string {
    return 'ToolFilterError';
  }
}

/** An argument is not what the operation takes. Nothing was built. */
export class ArgumentError extends HarnessError {
  constructor(message: string, options?: ErrorOptions) {
    super('INVALID_ARGUMENT', message, options);
  }
  override get name(): string {
    return 'ArgumentError';
  }
}

/** A thread, or the other end of a connection, sent what the protocol does not allow, or is gone. */
export class ProtocolError extends HarnessError {
  constructor(code: ProtocolErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
  override get name(): string {
    return 'ProtocolError';
  }
}

/** A thread did not start, died, or had to be ended. */
export class WorkerError extends HarnessError {
  constructor(code: WorkerErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
  override get name(): string {
    return 'WorkerError';
  }
}

/** A limit of one child was exceeded. */
export class LimitError extends HarnessError {
  readonly limit: string;
  constructor(limit: string, message: string) {
    super('LIMIT_EXCEEDED', message);
    this.limit = limit;
  }
  override get name(): string {
    return 'LimitError';
  }
}

/** The store could not keep or give what was asked. */
export class StoreError extends HarnessError {
  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
  override get name(): string {
    return 'StoreError';
  }
}

/** A projection could not tell its value of one session. The session itself is as it was. */
export class ProjectionError extends HarnessError {
  /** The key of its unit. */
  readonly projection: string;
  constructor(projection: string, message: string, options?: ErrorOptions) {
    super('PROJECTION_FAILED', message, options);
    this.projection = projection;
  }
  override get name(): string {
    return 'ProjectionError';
  }
}
