import type { Harness, HarnessEvents } from '../../src/harness.ts';

const LIFE = [
  'session/created',
  'agent/created',
  'agent/status',
  'agent/disposed',
  'session/disposed',
] as const satisfies readonly (keyof HarnessEvents)[];

/** What is told of agents and their sessions from now on. */
export function watch(harness: Harness): string[] {
  const told: string[] = [];
  for (const type of LIFE) {
    harness.on(type, (event) => {
      told.push('status' in event ? `${type} ${event.status}` : type);
    });
  }
  return told;
}
