import { expect, it } from 'vitest';
import { KINDS } from './kinds.ts';
import { sacrifice } from './sacrifice.ts';

const escapes = KINDS.filter(({ fault }) => fault === 'not contained').map(({ name }) => name);

it.each(escapes)('has the end that is known of a process that is given up to %s', async (name) => {
  const { text, isKnown } = await sacrifice(name);
  expect({ text, isKnown }).toEqual({ text, isKnown: true });
});
