/** A command line carried out in this process, as far as no thread is needed. */
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Streams } from '../../src/cli/call.ts';
import { runCommand } from '../../src/cli/command.ts';

export interface Carried {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export async function commandHere(argv: readonly string[], cwd: string): Promise<Carried> {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const streams = { stdin, stdout, stderr } as unknown as Streams;
  const told = Promise.all([text(stdout), text(stderr)]);
  const { signal } = new AbortController();
  const code = await runCommand(argv, streams, { cwd, env: {} }, signal);
  stdout.end();
  stderr.end();
  const [out, err] = await told;
  return { code, stdout: out, stderr: err };
}
