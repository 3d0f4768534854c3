/** Turns of the event loop, not time: what has not happened by then will not happen by itself. */
const TURNS = 10_000;

/**
 * Wait for a fact. For facts that follow without any time passing; time is a `ManualClock`'s.
 * @throws {Error} naming the fact when it does not come true.
 */
export async function until(fact: () => boolean, what: string = String(fact)): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) {
    if (fact()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error(`Did not come true: ${what}`);
}
