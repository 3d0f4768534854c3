import { wrap } from 'comlink';
import type { Endpoint } from 'comlink';
import type { ErrorRecord, Outcome } from '../protocol/error-record.ts';
import { frameEndpoint } from '../protocol/frame-endpoint.ts';
import type { HostServices } from '../protocol/host-services.ts';
import type { RpcCall } from '../protocol/to-main.ts';
import type { RpcReply } from '../protocol/to-worker.ts';
import { assertCallFits } from './link.ts';

export interface ServicesOptions {
  /** Post one call. Contract: it does not throw. */
  send(message: RpcCall): void;
}

/** `HostServices` as a local object: every method is a call to main. */
export class RemoteServices implements HostServices {
  readonly #deliver: (message: RpcReply) => void;
  readonly #remote: Pick<HostServices, keyof HostServices>;
  readonly #pending = new Set<(reason: Error) => void>();
  #closed: Error | undefined;

  constructor(options: ServicesOptions) {
    const endpoint = frameEndpoint<RpcReply, RpcCall>((message) => options.send(message));
    const remote = wrap<HostServices>(endpoint as unknown as Endpoint);
    // Each property read makes a proxy of its own, and a collected one tells main to release it.
    const { claim, callTool, finishTool, openModel } = remote;
    this.#remote = { claim, callTool, finishTool, openModel };
    this.#deliver = (message) => endpoint.deliver(message);
  }

  claim(...values: Parameters<HostServices['claim']>): ReturnType<HostServices['claim']> {
    return this.#call('claim', values, (remote) => remote.claim(...values));
  }
  callTool(...values: Parameters<HostServices['callTool']>): ReturnType<HostServices['callTool']> {
    return this.#call('callTool', values, (remote) => remote.callTool(...values));
  }
  finishTool(
    ...values: Parameters<HostServices['finishTool']>
  ): ReturnType<HostServices['finishTool']> {
    return this.#call('finishTool', values, (remote) => remote.finishTool(...values));
  }
  openModel(
    ...values: Parameters<HostServices['openModel']>
  ): ReturnType<HostServices['openModel']> {
    return this.#call('openModel', values, (remote) => remote.openModel(...values));
  }

  /** Hand in the answer to one call. */
  deliver(message: RpcReply): void {
    this.#deliver(message);
  }

  /** Nobody will answer any more: every call that waits, and every later one, is rejected. */
  close(reason: Error): void {
    this.#closed ??= reason;
    for (const reject of this.#pending) reject(this.#closed);
    this.#pending.clear();
  }

  #call<T>(
    name: string,
    values: readonly unknown[],
    run: (remote: Pick<HostServices, keyof HostServices>) => Promise<T>,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#closed !== undefined) throw this.#closed;
      assertCallFits(name, values);
      this.#pending.add(reject);
      const done = (): boolean => this.#pending.delete(reject);
      run(this.#remote).then(resolve, reject).finally(done);
    });
  }
}

/** An error of main, here. */
class HostError extends Error {
  readonly code: string;
  readonly #name: string;
  constructor(record: ErrorRecord) {
    super(record.message);
    this.code = record.code;
    this.#name = record.name;
  }
  override get name(): string {
    return this.#name;
  }
}

/** The value of an outcome. @throws {HostError} when there is none. */
export function valueOf<T>(outcome: Outcome<T>): T {
  if (outcome.ok) return outcome.value;
  throw new HostError(outcome.error);
}
