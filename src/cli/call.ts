import type { Surroundings } from './input.ts';

export interface Streams {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

/** What a command is carried out with, besides its arguments. */
export interface Call {
  readonly streams: Streams;
  readonly surroundings: Surroundings;
  /** Stops it; it then lets go of everything and rejects with the reason. */
  readonly signal: AbortSignal;
}

/** Resolves to the exit code. */
export type CarryOut<Arguments> = (given: Arguments, call: Call) => Promise<number>;
