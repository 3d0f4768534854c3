/** Writing no faster than somebody reads. */
import { once } from 'node:events';

type Output = Pick<NodeJS.WriteStream, 'write' | 'once' | 'off'>;

/** @throws the reason of `signal` when it aborts while nobody reads. */
export async function print(output: Output, text: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (output.write(text)) return;
  await once(output as NodeJS.WriteStream, 'drain', { signal }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw error;
  });
}

export const printJson = (output: Output, value: object, signal: AbortSignal): Promise<void> =>
  print(output, `${JSON.stringify(value)}\n`, signal);

export const counted = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? '' : 's'}`;
