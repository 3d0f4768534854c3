import type { Failure } from './model.ts';
import { printed } from './error-record.ts';
import { HarnessError } from './errors.ts';

/** Codes this library gives to failures of model requests. An adapter may have others. */
export const MODEL_FAILURE_CODES = [
  'ABORTED',
  'AUTH',
  'CONTENT_FILTER',
  'CONTEXT_WINDOW_EXCEEDED',
  'EMPTY_RESPONSE',
  'INVALID_REQUEST',
  'INVALID_RESPONSE',
  'MISSING_CREDENTIAL',
  'NO_ADAPTER',
  'QUOTA',
  'RATE_LIMIT',
  'RESPONSE_TOO_LARGE',
  'SCRIPT_EXHAUSTED',
  'SERVER',
  'TIMEOUT',
  'TRANSPORT',
  'UNKNOWN',
] as const;
type ModelFailureCode = (typeof MODEL_FAILURE_CODES)[number];

const MESSAGE_CHARS = 4_096;
const CODE_CHARS = 256;
/** How much of an error answer's body is told. */
const BODY_CHARS = 500;
/** How far causes are followed. */
const CAUSES = 6;

/** Read a property of anything; a hostile accessor reads as `undefined`. */
function read(value: unknown, key: string): unknown {
  try {
    return (value as Record<string, unknown> | null | undefined)?.[key];
  } catch {
    // What a throwing accessor hides is not needed to report the failure.
    return undefined;
  }
}

function text(value: unknown, limit = MESSAGE_CHARS): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value.slice(0, limit) : undefined;
}

function isStatus(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 100 && (value as number) <= 599;
}

/** A failure an adapter reported, brought into bounds; `undefined` when it is none. */
export function checkFailure(value: unknown): Failure | undefined {
  const message = text(read(value, 'message'));
  const code = text(read(value, 'code'), CODE_CHARS);
  if (message === undefined || code === undefined) return undefined;
  const status = read(value, 'status');
  const wait = read(value, 'providerRetryAfterMs');
  const requestId = text(read(value, 'requestId'), CODE_CHARS);
  return {
    message,
    code,
    ...(isStatus(status) ? { status } : {}),
    ...(typeof wait === 'number' && Number.isFinite(wait) && wait > 0
      ? { providerRetryAfterMs: wait }
      : {}),
    ...(requestId === undefined ? {} : { requestId }),
  };
}

/**
 * Why a model request failed, from whatever was thrown or reported for it. Never throws.
 *
 * An error that carries its own `failure` of the same `code` is believed; so is the code of an
 * error of this library. HTTP answers, network errors and the AI SDK's errors are recognised by
 * their shape. The rest is `UNKNOWN`.
 */
export function failureOf(thrown: unknown): Failure {
  const own = checkFailure(read(thrown, 'failure'));
  if (own !== undefined && own.code === read(thrown, 'code')) return own;
  if (thrown instanceof HarnessError) {
    return { code: thrown.code, message: text(thrown.message) ?? thrown.code };
  }
  const message = messageOf(thrown);
  const status = statusOf(thrown);
  if (status !== undefined && status >= 300) return httpFailure(thrown, status, message);
  return (
    networkFailure(thrown) ?? {
      code: codeByName(read(thrown, 'name')) ?? codeByType(read(thrown, 'type'), message),
      message,
    }
  );
}

function messageOf(thrown: unknown): string {
  const isObject = typeof thrown === 'object' && thrown !== null;
  const found = isObject ? text(read(thrown, 'message')) : text(printed(thrown));
  return found ?? text(read(thrown, 'name')) ?? 'The model failed without a message.';
}

/** An error chunk of a stream has no HTTP status of its own; many servers put one in `code`. */
function statusOf(thrown: unknown): number | undefined {
  for (const key of ['statusCode', 'status', 'code']) {
    const value = read(thrown, key);
    if (isStatus(value)) return value;
  }
  return undefined;
}

function httpFailure(thrown: unknown, status: number, message: string): Failure {
  const headers = read(thrown, 'responseHeaders');
  const body = text(read(thrown, 'responseBody')) ?? '';
  const providerRetryAfterMs = retryAfterMs(headers);
  const requestId =
    text(read(headers, 'x-request-id'), CODE_CHARS) ??
    text(read(headers, 'request-id'), CODE_CHARS);
  const address = addressOf(thrown);
  const code = codeByStatus(status, `${message} ${body}`);
  const said = message + unsaid(message, body);
  const advised =
    code === 'AUTH' ? `${asSentence(said)} Check the API key of this provider.` : said;
  return {
    code,
    message: `${address ?? 'The provider'} answered ${status}: ${advised}`,
    status,
    ...(providerRetryAfterMs === undefined ? {} : { providerRetryAfterMs }),
    ...(requestId === undefined ? {} : { requestId }),
  };
}

/** What a body says that the message does not: only a known form of body is read by the SDKs. */
function unsaid(message: string, body: string): string {
  const line = (asJson(body) ?? body).replace(/\s+/g, ' ').trim();
  // A web page says nothing that helps.
  if (line === '' || line.startsWith('<')) return '';
  if (line.includes(message) || line.includes(JSON.stringify(message).slice(1, -1))) return '';
  return `: ${line.length > BODY_CHARS ? `${line.slice(0, BODY_CHARS - 1)}…` : line}`;
}

function asJson(body: string): string | undefined {
  try {
    return JSON.stringify(JSON.parse(body));
  } catch {
    // No JSON, or cut: it is shown as it is.
    return undefined;
  }
}

const asSentence = (said: string): string => (/[.?!…]$/.test(said) ? said : `${said}.`);

const CONTEXT_EXCEEDED =
  /context.{0,12}(length|window|size)|maximum context|too many (input )?tokens|(prompt|input) is too long|token limit/i;
const QUOTA_EXCEEDED = /insufficient.quota|billing|credit balance/i;

function codeByStatus(status: number, said: string): ModelFailureCode {
  switch (status) {
    case 401:
    case 403:
      return 'AUTH';
    case 402:
      return 'QUOTA';
    case 408:
      return 'TIMEOUT';
    case 429:
      return QUOTA_EXCEEDED.test(said) ? 'QUOTA' : 'RATE_LIMIT';
    case 400:
    case 413:
    case 422:
      return CONTEXT_EXCEEDED.test(said) ? 'CONTEXT_WINDOW_EXCEEDED' : 'INVALID_REQUEST';
    default:
      return status >= 500 ? 'SERVER' : 'INVALID_REQUEST';
  }
}

/** Milliseconds, a number of seconds, or a date; a date counts from the answer's own date. */
function retryAfterMs(headers: unknown): number | undefined {
  const positive = (value: number): number | undefined =>
    Number.isFinite(value) && value > 0 ? value : undefined;
  const exact = text(read(headers, 'retry-after-ms'));
  if (exact !== undefined) return positive(Number(exact));
  const wish = text(read(headers, 'retry-after'));
  if (wish === undefined) return undefined;
  const seconds = Number(wish);
  if (!Number.isNaN(seconds)) return positive(seconds * 1_000);
  const answered = Date.parse(text(read(headers, 'date')) ?? '');
  return positive(Date.parse(wish) - (Number.isNaN(answered) ? Date.now() : answered));
}

/** Where a request went, without what may be secret: user info, query. */
function addressOf(thrown: unknown): string | undefined {
  const match = /^(https?:\/\/)(?:[^/?#@]*@)?([^/?#]+[^?#]*)/i.exec(
    text(read(thrown, 'url')) ?? '',
  );
  return match === null ? undefined : `${match[1]}${match[2]}`;
}

const CLOSED = 'the connection was closed before the answer was complete. Try again';
const SLOW = 'it did not answer in time. Try again, or check the network';
const NETWORK_HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing is listening there. Start the model server, or correct its address',
  ENOTFOUND: 'no such host. Correct the address, or check the network',
  EAI_AGAIN: 'the name could not be looked up. Check the network',
  ECONNRESET: CLOSED,
  EPIPE: CLOSED,
  UND_ERR_SOCKET: CLOSED,
  ETIMEDOUT: SLOW,
  UND_ERR_CONNECT_TIMEOUT: SLOW,
  UND_ERR_HEADERS_TIMEOUT: SLOW,
  UND_ERR_BODY_TIMEOUT: SLOW,
  EHOSTUNREACH: 'the host cannot be reached. Check the network',
  ENETUNREACH: 'the host cannot be reached. Check the network',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not trusted',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not trusted',
  CERT_HAS_EXPIRED: 'its certificate has expired',
};
const READ_TIMEOUTS = ['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'];

function networkFailure(thrown: unknown): Failure | undefined {
  const code = networkCode(thrown, CAUSES);
  if (code === undefined) return undefined;
  const place = addressOf(thrown) ?? 'the model provider';
  const hint = NETWORK_HINTS[code] ?? 'the connection failed. Check the address and the network';
  return {
    code: READ_TIMEOUTS.includes(code) ? 'TIMEOUT' : 'TRANSPORT',
    message: `Cannot reach ${place} (${code}): ${hint}.`,
  };
}

function networkCode(thrown: unknown, depth: number): string | undefined {
  if (typeof thrown !== 'object' || thrown === null || depth === 0) return undefined;
  const code = read(thrown, 'code');
  if (typeof code === 'string' && Object.hasOwn(NETWORK_HINTS, code)) return code;
  const among = read(thrown, 'errors');
  const some = Array.from({ length: CAUSES }, (_, index) => read(among, String(index)));
  const inner = [read(thrown, 'cause'), ...some];
  for (const error of inner) {
    const found = networkCode(error, depth - 1);
    if (found !== undefined) return found;
  }
  // What `fetch` throws without a cause that says more.
  return /^(fetch failed|failed to fetch|terminated|cannot connect to api.*)$/i.test(
    messageOf(thrown),
  )
    ? 'FETCH'
    : undefined;
}

function codeByName(name: unknown): ModelFailureCode | undefined {
  switch (name) {
    case 'AI_LoadAPIKeyError':
      return 'MISSING_CREDENTIAL';
    case 'AI_EmptyResponseBodyError':
      return 'EMPTY_RESPONSE';
    case 'AI_NoSuchModelError':
    case 'AI_InvalidPromptError':
    case 'AI_InvalidArgumentError':
    case 'AI_UnsupportedFunctionalityError':
      return 'INVALID_REQUEST';
    case 'AI_APICallError':
    case 'AI_JSONParseError':
    case 'AI_TypeValidationError':
    case 'AI_InvalidResponseDataError':
      return 'INVALID_RESPONSE';
    case 'TimeoutError':
      return 'TIMEOUT';
    default:
      return undefined;
  }
}

/** Error objects inside a stream name their kind in `type`. */
function codeByType(type: unknown, message: string): ModelFailureCode {
  switch (type) {
    case 'authentication_error':
    case 'permission_error':
      return 'AUTH';
    case 'rate_limit_error':
      return 'RATE_LIMIT';
    case 'insufficient_quota':
      return 'QUOTA';
    case 'overloaded_error':
    case 'api_error':
    case 'server_error':
      return 'SERVER';
    case 'timeout_error':
      return 'TIMEOUT';
    case 'exceed_context_size_error':
      return 'CONTEXT_WINDOW_EXCEEDED';
    case 'invalid_request_error':
      return codeByStatus(400, message);
    default:
      return 'UNKNOWN';
  }
}
