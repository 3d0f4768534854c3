/** In place of the package: ids in the order in which they were made. */
import { here } from '../life.ts';

export const uuidv7 = (): string => `id-${String(here.ids++).padStart(6, '0')}`;
