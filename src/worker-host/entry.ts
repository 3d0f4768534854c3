import { existsSync } from 'node:fs';
import { WorkerError } from '../../protocol/errors.ts';

/**
 * The built thread entry. Beside the built package it is one folder up from `src`; run from the
 * sources it is in `dist`.
 *
 * @throws {WorkerError} `WORKER_START_FAILED` when the package was not built.
 */
export function workerEntry(): URL {
  for (const place of ['../../agent-worker.cjs', '../../dist/agent-worker.cjs']) {
    const url = new URL(place, import.meta.url);
    if (existsSync(url)) return url;
  }
  throw new WorkerError(
    'WORKER_START_FAILED',
    'The thread entry is missing: run `npm run build`, or install the package again.',
  );
}
