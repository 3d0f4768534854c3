/** The entry of a thread that folds logs. Loaded by `Offload`. */
import type { FoldJob, FoldReply } from './cold-fold.ts';
import { foldJob } from './cold-fold.ts';

// A promise that a unit's module lets go of is not the next fold's failure, which it would become.
process.on('unhandledRejection', () => {});

export default async function foldAll(jobs: readonly FoldJob[]): Promise<readonly FoldReply[]> {
  const loaded = new Map<string, Promise<unknown>>();
  const load = (module: string): Promise<unknown> => {
    const loading = loaded.get(module) ?? import(module);
    loaded.set(module, loading);
    return loading;
  };
  const replies: FoldReply[] = [];
  for (const job of jobs) replies.push(await foldJob(job, load));
  return replies;
}
