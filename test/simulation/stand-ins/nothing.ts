/** In place of what no simulation uses: a database, a pool of threads. */
const refuse = (): never => {
  throw new Error('This has no place in a simulation.');
};

export const DatabaseSync = refuse;
export const Piscina = refuse;
export const constants = {};
export default { DatabaseSync, Piscina, constants };
