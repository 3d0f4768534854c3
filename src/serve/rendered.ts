/** What is told, as JSON: what happens in a tree is rendered once for all who watch it. */
import type { NotificationMap, NotificationName } from './operation-map.ts';
import type { RuntimeEvent } from './runtime-events.ts';

/** For as long as somebody has the event still to be told. */
const rendered = new WeakMap<RuntimeEvent, string>();

export function paramsText<N extends NotificationName>(
  name: N,
  params: NotificationMap[N],
): string {
  if (name !== 'tree.event') return JSON.stringify(params);
  const { watchId, event } = params as NotificationMap['tree.event'];
  let text = rendered.get(event);
  if (text === undefined) rendered.set(event, (text = JSON.stringify(event)));
  return `{"watchId":${JSON.stringify(watchId)},"event":${text}}`;
}
