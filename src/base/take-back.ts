import { toErrorRecord } from '../../protocol/error-record.ts';
import type { Logger } from './logger.ts';

/**
 * Undo what a failed start had built: each step, whatever became of the others. Never rejects,
 * because the failure that made it necessary is the one to be told.
 */
export async function takeBack(
  logger: Logger,
  ...steps: (() => Promise<void> | undefined)[]
): Promise<void> {
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      const fields = { error: toErrorRecord(error) };
      logger.warn(fields, 'A start that failed could not be taken back wholly.');
    }
  }
}
