/**
 * One end of JSON-RPC 2.0 over lines of JSON, on any pair of streams: requests both ways,
 * notifications, answers. Owns the streams: when they end, or a line is not to be borne, everything
 * that waits is rejected and both are destroyed. Knows no operation.
 */
import type { Readable, Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { ProtocolError } from '../../protocol/errors.ts';
import { isPlainObject } from '../../protocol/json.ts';
import { deferred } from '../base/deferred.ts';
import type { Deferred } from '../base/deferred.ts';
import { newId } from '../base/ids.ts';
import { beyondBounds } from '../base/json-text.ts';
import type { JsonBounds } from '../base/json-text.ts';

/** As JSON-RPC has it; `data` is an `OperationFailure` where there is one. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

export const RPC = {
  parse: -32_700,
  request: -32_600,
  method: -32_601,
  params: -32_602,
  failed: -32_000,
} as const;

export interface RpcPeerOptions {
  readonly input: Readable;
  readonly output: Writable;
  /** Of one line of the other end, without its line end. */
  readonly maxLineBytes: number;
  /** Values and nesting of a line, looked at before it is read. Default any. */
  readonly maxLine?: JsonBounds;
  /** Answers a request. It may take its time: others are answered meanwhile. Never rejects. */
  onRequest?(method: string, params: unknown): Promise<{ result: unknown } | { error: RpcError }>;
  onNotification?(method: string, params: unknown): void;
}

/** Requests of the other end that are under way: with more, it is read no further. */
const MAX_UNDER_WAY = 1_024;

/** What was written last has so long to be taken. */
const PARTING_MS = 1_000;

type Id = string | number;

interface Pending extends Deferred<unknown> {
  readonly onResult: ((result: unknown) => void) | undefined;
}

export class RpcPeer {
  readonly #options: RpcPeerOptions;
  readonly #pending = new Map<Id, Pending>();
  readonly #closed = deferred<void>();
  readonly #decoder = new StringDecoder('utf8');
  #line = '';
  #lineBytes = 0;
  #underWay = 0;
  #isPaused = false;
  #isEnded = false;
  /** The other end has said all it had to say: it is answered, and then this is over. */
  #isHeardOut = false;
  /** Present while the other end does not take what is written. */
  #drained: Deferred<void> | undefined;

  constructor(options: RpcPeerOptions) {
    this.#options = options;
    const { input, output } = options;
    input.on('data', (chunk: Buffer | string) => this.#read(chunk));
    input.once('end', () => this.#onEnd());
    input.once('close', () => {
      if (!input.readableEnded) this.close();
    });
    output.once('close', () => this.close());
    // The other end is gone: `close` follows, or came before.
    input.on('error', () => this.close());
    output.on('error', () => this.close());
    output.on('drain', () => {
      this.#drained?.resolve();
      this.#drained = undefined;
    });
  }

  /** Resolves when the connection has ended. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /**
   * @param onResult called with the result before anything else of the other end is read
   * @throws {RpcRefusal} (rejects) as the other end answers; `ProtocolError` when it is gone
   */
  request(
    method: string,
    params: unknown,
    onResult?: (result: unknown) => void,
  ): { readonly id: Id; readonly answer: Promise<unknown> } {
    // Unpredictable: a line of something else is no answer to it.
    const id = newId();
    const pending: Pending = { ...deferred<unknown>(), onResult };
    pending.promise.catch(() => {});
    if (this.#isEnded) pending.reject(gone());
    else {
      this.#pending.set(id, pending);
      void this.#write({ jsonrpc: '2.0', id, method, params });
    }
    return { id, answer: pending.promise };
  }

  /** Nobody waits for that answer any more. */
  forget(id: Id): void {
    this.#pending.delete(id);
  }

  /** Resolves when there is room for more. @param params as JSON */
  notify(method: string, params: string): Promise<void> {
    return this.#writeLine(
      `{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${params}}`,
    );
  }

  /** Read no further, or on; until then the other end is held up. */
  pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#flow();
  }

  /** At once: what is not written by now is lost. Idempotent. */
  close(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const { input, output } = this.#options;
    this.#drained?.resolve();
    for (const pending of this.#pending.values()) pending.reject(gone());
    this.#pending.clear();
    input.destroy();
    output.destroy();
    this.#closed.resolve();
  }

  /** When all that was written has left; what the other end says meanwhile is not read. */
  async end(): Promise<void> {
    if (this.#isEnded) return;
    const { output } = this.#options;
    // Whoever does not read is not waited for.
    const timer = setTimeout(() => this.close(), PARTING_MS);
    await new Promise<void>((done) => {
      output.once('close', done);
      void this.#closed.promise.then(done);
      output.end(() => done());
    });
    clearTimeout(timer);
    this.close();
  }

  #read(chunk: Buffer | string): void {
    let rest = typeof chunk === 'string' ? chunk : this.#decoder.write(chunk);
    for (let at = rest.indexOf('\n'); at >= 0 && !this.#isEnded; at = rest.indexOf('\n')) {
      if (!this.#gather(rest.slice(0, at))) return;
      rest = rest.slice(at + 1);
      this.#take();
    }
    if (!this.#isEnded) this.#gather(rest);
  }

  /** False: the line is longer than it may be, and the connection has ended. */
  #gather(part: string): boolean {
    this.#lineBytes += Buffer.byteLength(part);
    if (this.#lineBytes <= this.#options.maxLineBytes) {
      this.#line += part;
      return true;
    }
    const text = `A line has at most ${this.#options.maxLineBytes} bytes.`;
    this.#line = '';
    this.#options.input.pause();
    void this.#refuse(RPC.request, text).then(() => this.end());
    // What is on its way is not read as the beginning of another line.
    this.#options.input.removeAllListeners('data');
    return false;
  }

  #take(): void {
    const line = this.#line;
    this.#line = '';
    this.#lineBytes = 0;
    if (line.trim() === '') return;
    const { maxLine } = this.#options;
    if (maxLine !== undefined && beyondBounds(line, maxLine) !== undefined) {
      const text = `A line has at most ${maxLine.values} values, ${maxLine.depth} deep.`;
      void this.#refuse(RPC.request, text);
      return;
    }
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      void this.#refuse(RPC.parse, 'A line is one JSON object.');
      return;
    }
    this.#dispatch(value);
  }

  #dispatch(value: unknown): void {
    if (Array.isArray(value)) {
      void this.#refuse(RPC.request, 'Batches are not taken: send one request in a line.');
      return;
    }
    const isAnswer =
      isPlainObject(value) && (Object.hasOwn(value, 'result') || Object.hasOwn(value, 'error'));
    if (isAnswer && !Object.hasOwn(value as object, 'method')) return this.#settle(value as never);
    const { id, method, params } = (isPlainObject(value) ? value : {}) as Record<string, unknown>;
    const isId = typeof id === 'string' || (typeof id === 'number' && Number.isFinite(id));
    if (typeof method !== 'string' || (id !== undefined && !isId)) {
      const text = 'A line is a request, with a method and an id that is a text or a number.';
      void this.#refuse(RPC.request, text, isId ? id : null);
      return;
    }
    if (id === undefined) return this.#options.onNotification?.(method, params);
    void this.#answer(id as Id, method, params);
  }

  async #answer(id: Id, method: string, params: unknown): Promise<void> {
    this.#underWay++;
    this.#flow();
    const answer = (await this.#options.onRequest?.(method, params)) ?? {
      error: { code: RPC.method, message: `There is no method "${method}" here.` },
    };
    await this.#write({ jsonrpc: '2.0', id, ...answer });
    this.#underWay--;
    if (this.#isHeardOut && this.#underWay === 0) void this.end();
    else this.#flow();
  }

  #settle({ id, result, error }: { id: Id; result?: unknown; error?: unknown }): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (error === undefined || error === null) {
      pending?.onResult?.(result);
      pending?.resolve(result);
    } else pending?.reject(new RpcRefusal(error as RpcError));
  }

  #refuse(code: number, message: string, id: Id | null = null): Promise<void> {
    return this.#write({ jsonrpc: '2.0', id, error: { code, message } });
  }

  #flow(): void {
    if (this.#isEnded) return;
    const { input } = this.#options;
    if (this.#isPaused || this.#underWay >= MAX_UNDER_WAY) input.pause();
    else input.resume();
  }

  #write(value: object): Promise<void> {
    return this.#writeLine(JSON.stringify(value));
  }

  /** Never rejects: what cannot be written is for somebody who is gone. */
  async #writeLine(line: string): Promise<void> {
    const { output } = this.#options;
    if (this.#isEnded || output.destroyed || output.writableEnded) return;
    if (output.write(`${line}\n`)) return;
    this.#drained ??= deferred();
    await this.#drained.promise;
  }

  #onEnd(): void {
    // A last line may come without its end.
    const rest = this.#decoder.end();
    if (this.#gather(rest)) this.#take();
    this.#isHeardOut = true;
    if (this.#underWay === 0) void this.end();
  }
}

/** What the other end answered in place of a result. */
export class RpcRefusal extends ProtocolError {
  readonly error: RpcError;
  constructor(error: RpcError) {
    super('PROTOCOL_VIOLATION', typeof error.message === 'string' ? error.message : 'Refused.');
    this.error = error;
  }
}

const gone = (): ProtocolError =>
  new ProtocolError('CONNECTION_CLOSED', 'The connection ended before the answer came.');
