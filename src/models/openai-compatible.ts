import { boundedFetch } from './bounded-fetch.ts';
import type { AiSdkProvider } from '../../protocol/ai-sdk.ts';
import type { ModelAdapter, ModelPart, ModelRequest } from '../../protocol/model.ts';
import { fromAiSdk } from '../../protocol/ai-sdk.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { failureOf } from '../../protocol/model-failure.ts';
import { withIdleTimeout } from './idle-timeout.ts';

/** Where the server is, and how it is asked. */
export interface OpenAiCompatibleOptions {
  /** Where the API begins, such as `http://127.0.0.1:8080/v1`. */
  readonly baseURL: string | URL;
  /** Sent as a bearer token. Local servers need none. */
  readonly apiKey?: string;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** How the server is called in its own extensions of the protocol. */
  readonly name?: string;
  /** Silence after which a stream fails with `TIMEOUT`; 300 s, which is also the most. */
  readonly idleMs?: number;
}

/** What the built-in `fetch` itself allows. */
const MAX_IDLE_MS = 300_000;

/**
 * A model behind a server that speaks OpenAI's chat completions: llama.cpp, Ollama, vLLM, LM
 * Studio and many services. The client is loaded with the first request. An abort closes the
 * connection at once.
 *
 * @throws {ArgumentError} for options that cannot work.
 */
export function openaiCompatible(options: OpenAiCompatibleOptions): ModelAdapter {
  if (typeof options !== 'object' || options === null) {
    throw new ArgumentError('openaiCompatible takes an object of options, with a "baseURL".');
  }
  const { idleMs = MAX_IDLE_MS } = options;
  if (!Number.isFinite(idleMs) || idleMs <= 0 || idleMs > MAX_IDLE_MS) {
    throw new ArgumentError(`"idleMs" must be more than 0 and at most ${MAX_IDLE_MS}.`);
  }
  const apiKey = checkText('apiKey', options.apiKey);
  const settings = {
    baseURL: checkBaseUrl(options.baseURL),
    name: checkText('name', options.name) ?? 'openaiCompatible',
    headers: checkHeaders(options.headers),
    includeUsage: true,
    fetch: boundedFetch,
    ...(apiKey === undefined ? {} : { apiKey }),
  };
  const hasKey = apiKey !== undefined || 'authorization' in settings.headers;
  let provider: Promise<AiSdkProvider> | undefined;
  const model = fromAiSdk(async (modelId) => {
    provider ??= import('@ai-sdk/openai-compatible').then((sdk) =>
      sdk.createOpenAICompatible(settings),
    );
    return (await provider).languageModel(modelId);
  });
  return withIdleTimeout({ stream: (request, { signal }) => answer(request, signal) }, idleMs);

  async function* answer(
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelPart, void, void> {
    try {
      yield* model.stream(request, { signal });
    } catch (error) {
      const failure = failureOf(error);
      if (failure.code !== 'AUTH' || hasKey) throw error;
      const message = `${settings.baseURL} wants an API key, and none was given: set "apiKey".`;
      yield {
        type: 'finish',
        reason: { kind: 'error', failure: { ...failure, code: 'MISSING_CREDENTIAL', message } },
      };
    }
  }
}

function checkBaseUrl(given: unknown): string {
  const text = String(given);
  const example = 'Give one such as "http://127.0.0.1:8080/v1".';
  if (!URL.canParse(text))
    throw new ArgumentError(`"baseURL" ${quoted(text)} is no URL. ${example}`);
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new ArgumentError(
      `"baseURL" ${quoted(text)} must begin with http: or https:. ${example}`,
    );
  }
  if (url.username !== '' || url.password !== '') {
    throw new ArgumentError(
      '"baseURL" must hold no user name or password: use "apiKey" or "headers".',
    );
  }
  if (url.search !== '' || url.hash !== '' || url.pathname.endsWith('/chat/completions')) {
    throw new ArgumentError(
      `"baseURL" ${quoted(text)} must end where the API begins, before /chat/completions. ${example}`,
    );
  }
  return url.href.replace(/\/+$/, '');
}

const quoted = (text: string): string => JSON.stringify(text.slice(0, 200));

function checkText(name: string, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'string' || value === '') {
    throw new ArgumentError(`"${name}" must be text that is not empty, or be left out.`);
  }
  return value;
}

/** Names in lower case; refused now rather than by every request. */
function checkHeaders(given: Readonly<Record<string, string>> = {}): Record<string, string> {
  try {
    return Object.fromEntries(new Headers(given));
  } catch (error) {
    throw new ArgumentError('"headers" must be header names with text.', { cause: error });
  }
}
