import type { ModelAdapter, ModelPart, ModelRequest } from '../../protocol/model.ts';
import { streamModel } from '../../protocol/model-stream.ts';

/** A request that says as little as a request can. */
export const bareRequest: ModelRequest = { provider: 'p', model: 'm', messages: [] };

/** An adapter that yields these things, whatever they are. */
export const yields = (...values: unknown[]): ModelAdapter => ({
  async *stream() {
    yield* values as ModelPart[];
  },
});

/** All parts of one request, as `streamModel` lets them through. */
export async function readStream(
  adapter: ModelAdapter | undefined,
  signal: AbortSignal = new AbortController().signal,
  request = bareRequest,
): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of streamModel(adapter, request, signal)) parts.push(part);
  return parts;
}
