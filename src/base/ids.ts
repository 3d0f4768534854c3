import { uuidv7 } from 'uuidv7';

/** A new unique id that sorts by the time it was made. */
export const newId = (): string => uuidv7();
