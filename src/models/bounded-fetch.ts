/** Bytes of an answer, and of an error's explanation, that are taken from a server. */
const ANSWER_BYTES = 64 * 1024 * 1024;
const ERROR_BYTES = 256 * 1024;

/**
 * `fetch`, for a server that may never stop: beyond the bound the body ends in an error and the
 * connection is let go of. An error's body is cut there instead, which is enough to read it.
 */
export async function boundedFetch(
  input: string | URL | Request,
  init?: RequestInit,
): Promise<Response> {
  const response = await fetch(input, init);
  const { body, ok, status, statusText, headers } = response;
  if (body === null) return response;
  let left = ok ? ANSWER_BYTES : ERROR_BYTES;
  const bounded = body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        left -= chunk.byteLength;
        if (left >= 0) return controller.enqueue(chunk);
        if (ok) {
          const text = `The server's answer is larger than ${ANSWER_BYTES} bytes.`;
          return controller.error(Object.assign(new Error(text), { code: 'RESPONSE_TOO_LARGE' }));
        }
        controller.enqueue(chunk.subarray(0, chunk.byteLength + left));
        controller.terminate();
      },
    }),
  );
  return new Response(bounded, { status, statusText, headers });
}
