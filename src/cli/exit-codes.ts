import type { TurnEndReason } from '../index.ts';

/** What the process ends with. Part of the interface: scripts branch on it. */
export const EXIT = {
  /** The root's turn completed, and so did every delegation. */
  completed: 0,
  /** The root's turn failed or was refused. */
  failed: 1,
  /** Nothing was run: an option, a file, a key or an address is not what it has to be. */
  usage: 2,
  /** The root's turn completed although some delegations brought no result. */
  partial: 3,
  /** Whoever read stdout closed it before the run was over: it is let go, quietly. */
  unread: 0,
  interrupted: 130,
  terminated: 143,
} as const;

export function exitCodeOf(reason: TurnEndReason | undefined, failedDelegations: number): number {
  if (reason?.kind !== 'completed') return EXIT.failed;
  return failedDelegations === 0 ? EXIT.completed : EXIT.partial;
}

/** Bad input, in one line that says what to do. Nothing was built. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** What was asked for is not done, in one line that says why: the command fails. */
export class Refused extends Error {
  override readonly name = 'Refused';
}

/** The reason of a run that is stopped from outside. */
export class Stopped extends Error {
  override readonly name = 'Stopped';
  /** What the process ends with once everything is let go. */
  readonly exitCode: number;

  constructor(message: string, exitCode: number, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}
