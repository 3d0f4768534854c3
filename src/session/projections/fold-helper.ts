/** The entry of a thread that folds logs. Loaded by `Offload`. */
import type { FoldJob, FoldReply } from './cold-fold.ts';
import { foldJob } from './cold-fold.ts';

// A promise that a unit's module lets go of is not the next fold's failure, which it would become.
process.on('unhandledRejection', () => {});

export default function fold(job: FoldJob): Promise<FoldReply> {
  return foldJob(job, (module) => import(module));
}
