/** The far end of one connection: a peer that is asked, and the operations that answer it. */
import type { Readable, Writable } from 'node:stream';
import { failureOf, Operations } from './operations.ts';
import type { OperationsOptions } from './operations.ts';
import { paramsText } from './rendered.ts';
import { RPC, RpcPeer } from './rpc-peer.ts';
import type { RpcError } from './rpc-peer.ts';

/** Of one line that somebody else sends. */
const MAX_LINE_BYTES = 1_048_576;
/** Of what somebody else asks: more than a message may hold, and far less than brackets can say. */
const MAX_VALUES = 200_000;
const MAX_DEPTH = 1_000;
export const MAX_ASKED = { depth: MAX_DEPTH, values: MAX_VALUES } as const;

/** Serve a connection until it ends. Everything that was open on its behalf ends with it. */
export function serveConnection(
  options: OperationsOptions,
  streams: { readonly input: Readable; readonly output: Writable },
): RpcPeer {
  const peer: RpcPeer = new RpcPeer({
    ...streams,
    maxLineBytes: MAX_LINE_BYTES,
    maxLine: MAX_ASKED,
    onRequest: (method, params) => answer(operations, method, params),
  });
  const operations = new Operations(
    options,
    (name, params) => peer.notify(name, paramsText(name, params)),
    () => peer.close(),
  );
  void peer.closed.then(() => operations.close());
  return peer;
}

async function answer(
  operations: Operations,
  method: string,
  params: unknown = {},
): Promise<{ result: unknown } | { error: RpcError }> {
  try {
    return { result: await operations.call(method as never, params as never) };
  } catch (thrown) {
    return { error: rpcErrorOf(thrown) };
  }
}

export function rpcErrorOf(thrown: unknown): RpcError {
  const data = failureOf(thrown);
  const numbers: Readonly<Record<string, number>> = {
    INVALID_ARGUMENT: RPC.params,
    UNKNOWN_OPERATION: RPC.method,
  };
  return { code: numbers[data.code] ?? RPC.failed, message: data.message, data };
}
