/**
 * A module that is at fault while it is loaded, or when it is asked for its model: its address says
 * how, and which file has to be there for it.
 */
import { appendFileSync, existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { ModelAdapter } from '../../protocol/model.ts';
import { bodyOf } from './bodies.ts';
import { clock } from './inside.ts';
import model from './thread-model.ts';
import type { ThreadOptions } from './thread-tools.ts';

const asked = new URL(import.meta.url).searchParams;
const kind = asked.get('kind') ?? '';
const armed = asked.get('armed') ?? '';
const place = asked.get('place');

async function fault(): Promise<void> {
  if (!existsSync(armed)) return;
  const body = bodyOf(kind);
  // It has no cells yet; the ground reads this when all is over.
  appendFileSync(armed, `${clock()}\n`);
  await body({ folder: dirname(armed), callId: undefined, signal: undefined });
}

if (place === 'load') await fault();

export default async (options: ThreadOptions): Promise<ModelAdapter> => {
  if (place === 'factory') await fault();
  return model(options);
};
