/**
 * The few web globals that our types name, declared empty so that this folder compiles without
 * Node's types. Whoever compiles against our declarations brings the real ones.
 */
interface AbortSignal {}
interface URL {
  readonly href: string;
}

/** The build without `eval` and without the native accelerator, which has no types of its own. */
declare module 'msgpackr/index-no-eval' {
  export { Packr } from 'msgpackr';
}
