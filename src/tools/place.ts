/** Where in a value or a schema something is: a chain, so that going deeper costs nothing. */
export type Place = { readonly up: Place; readonly key: string | number } | undefined;

/** Keys of a place that are told; of a deeper one the last ones. */
const SHOWN_KEYS = 16;
const SHOWN_KEY_CHARS = 64;

export function within(up: Place, ...keys: readonly (string | number)[]): Place {
  return keys.reduce<Place>((place, key) => ({ up: place, key }), up);
}

/** A place as a model or an author reads it. */
export function placeOf(place: Place, root = 'the value'): string {
  if (place === undefined) return root;
  const keys: string[] = [];
  let at: Place = place;
  for (; at !== undefined && keys.length < SHOWN_KEYS; at = at.up) {
    keys.push(String(at.key).slice(0, SHOWN_KEY_CHARS));
  }
  if (at !== undefined) keys.push('…');
  return `"${keys.reverse().join('.')}"`;
}
