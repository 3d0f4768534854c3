import type { SessionId } from './ids.ts';
import type { WindowSize } from './window.ts';

/** A file the thread loads by URL, and what its default export is called with. */
export interface ModuleRef {
  /** `file:` URL as text. */
  readonly url: string;
  /** Present: the default export is a function of it. */
  readonly options?: unknown;
}

/**
 * Everything one agent's thread is born with; posted once, with the agent's port in the
 * transfer list. It holds no history and no secret: history is derived on main, and a module
 * model is given it with its first request.
 * @internal
 */
export interface WorkerInit {
  readonly sessionId: SessionId;
  readonly cwd?: string;
  readonly depth: number;
  /** Modules whose tools this agent may use. */
  readonly toolModules: readonly ModuleRef[];
  /** The module of the agent's model; absent when the model runs on main. */
  readonly modelModule?: ModuleRef;
  /** The cancel cell. */
  readonly cancel: SharedArrayBuffer;
  readonly window: WindowSize;
  /** Tool calls of one step that may be in flight together. */
  readonly toolConcurrency: number;
}

/** What is posted on the thread's own port: once, the init and the agent's end of its port. */
export interface InitMessage<P> {
  readonly init: WorkerInit;
  readonly port: P;
}

/** Any number of times: tell in this cell what memory the thread has. */
export interface MeasureMessage {
  readonly measure: SharedArrayBuffer;
}

/** What a thread is made with, before it has an agent. */
export interface ThreadData {
  /** See `PrintedCell`. */
  readonly printed: SharedArrayBuffer;
}
