/** The bodies by kind. Loaded inside threads. */
import { forgingBodies } from './bodies-forging.ts';
import { hungryBodies } from './bodies-hungry.ts';
import { loopingBodies } from './bodies-looping.ts';
import { systemBodies } from './bodies-system.ts';
import { throwingBodies } from './bodies-throwing.ts';
import type { Body } from './inside.ts';

const BODIES: Readonly<Record<string, Body>> = {
  ...throwingBodies,
  ...loopingBodies,
  ...hungryBodies,
  ...forgingBodies,
  ...systemBodies,
};

export function bodyOf(kind: string): Body {
  const body = BODIES[kind];
  if (body === undefined) throw new Error(`The kind "${kind}" has no body.`);
  return body;
}
