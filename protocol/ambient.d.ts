/**
 * The few web globals that this folder names, declared with no more than it uses, so that it
 * compiles without Node's types. Whoever compiles against our declarations brings the real ones.
 */
interface AbortSignal {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}
interface URL {
  readonly href: string;
}
declare class TextDecoder {
  constructor(label: 'utf-8', options: { readonly ignoreBOM: boolean });
  decode(bytes: Uint8Array): string;
}

/** The build without `eval` and without the native accelerator, which has no types of its own. */
declare module 'msgpackr/index-no-eval' {
  export { Packr } from 'msgpackr';
}
