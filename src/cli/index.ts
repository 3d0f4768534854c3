/** What the demo shares with the command. Not a part of the package's public surface. */
export { runShown } from './run-shown.ts';
export { planRun } from './input.ts';
export { runUnderSignals } from './signals.ts';
