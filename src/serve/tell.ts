import type { NotificationMap, NotificationName } from './operation-map.ts';

/**
 * Hand a notification to the other end. Resolves when there is room for another: whoever has more
 * to tell waits for that. Never rejects; what is told after the end is dropped.
 */
export type Tell = <N extends NotificationName>(
  name: N,
  params: NotificationMap[N],
) => Promise<void>;
