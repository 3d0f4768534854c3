/**
 * What an agent is doing.
 * - `queued`: it has work and waits for a thread; `starting`: no turn of it is open yet
 * - `running`: its model writes, or a step ends; `waiting`: see `WaitingOn`
 * - `idle`: it is live and has nothing to do; `settled`: it is not live
 */
export type RowStatus = 'queued' | 'starting' | 'running' | 'waiting' | 'idle' | 'settled';
/** `model`: nothing came of the request yet; `child`: a tool call or the agent waits for children. */
export type WaitingOn = 'model' | 'tool' | 'child';

/** What a session does now, and how it ended what it did before. */
export interface SessionStatus {
  readonly status: RowStatus;
  readonly waitingOn?: WaitingOn;
  /** While no turn is open: how its last turn ended, `completed`, `aborted`, … */
  readonly reason?: string;
  readonly failure?: RowFailure;
}

/** How the last turn failed: a code, and a sentence for people. */
export interface RowFailure {
  readonly code: string;
  readonly message: string;
}
