import type { AiSdkModel } from '../../protocol/ai-sdk.ts';
import type { ModelPart, ModelRequest } from '../../protocol/model.ts';
import { fromAiSdk } from '../../protocol/ai-sdk.ts';
import { readStream } from './adapters.ts';

export type Version = AiSdkModel['specificationVersion'];
/** What the model was called with. */
export interface SeenOptions {
  readonly prompt: readonly { readonly role: string; readonly content: unknown }[];
  readonly abortSignal: AbortSignal;
  readonly [key: string]: unknown;
}

/** A model object of the SDK, written by hand: it streams these parts. */
export function sdkModel(specificationVersion: Version, parts: readonly unknown[]) {
  const seen: SeenOptions[] = [];
  const built = {
    specificationVersion,
    provider: 'acme.chat',
    modelId: 'm-1',
    supportedUrls: {},
    seen,
    async doStream(options: SeenOptions) {
      seen.push(options);
      return {
        stream: new ReadableStream({
          start(controller) {
            for (const part of parts) controller.enqueue(part);
            controller.close();
          },
        }),
      };
    },
  };
  return built as typeof built & AiSdkModel;
}

const asked: ModelRequest = { provider: 'acme', model: 'asked', messages: [] };

/** All parts of one request that such a model answers. */
export const readModel = (
  source: Parameters<typeof fromAiSdk>[0],
  more: Partial<ModelRequest> = {},
  signal?: AbortSignal,
): Promise<ModelPart[]> => readStream(fromAiSdk(source), signal, { ...asked, ...more });

/** The finish of versions 3 and 4. */
export const sdkFinish = (unified: string, usage: object = {}): object => ({
  type: 'finish',
  finishReason: { unified, raw: `raw-${unified}` },
  usage,
});

/** A text block of two pieces. */
export const sdkText: readonly object[] = [
  { type: 'text-start', id: '0' },
  { type: 'text-delta', id: '0', delta: 'Hel' },
  { type: 'text-delta', id: '0', delta: 'lo' },
  { type: 'text-end', id: '0' },
];
