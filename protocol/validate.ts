/**
 * Where a thread's words become facts: every frame up and every call passes here before main
 * acts on it. Main only; a thread trusts main and never loads this file.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ValidateFunction } from 'ajv/dist/2020.js';
import { unpack } from './codec.ts';
import { ProtocolError } from './errors.ts';
import { HOST_SERVICE_NAMES } from './host-services.ts';
import type { HostServiceName } from './host-services.ts';
import { callArgumentSchemas, toMainSchemas, workerEventSchemas } from './schemas.ts';
import { MAX_CONTROL_FRAME_BYTES, MAX_FRAME_BYTES } from './to-main.ts';
import type { RpcCall, ToMain, ToMainType, WorkerEventType } from './to-main.ts';

const ajv = new Ajv2020({ strict: false, allErrors: false, ownProperties: true });

type Validators<K extends string> = { readonly [T in K]: ValidateFunction };
function compile<K extends string>(schemas: { readonly [T in K]: object }): Validators<K> {
  const compiled = {} as { [T in K]: ValidateFunction };
  for (const key of Object.keys(schemas) as K[]) compiled[key] = ajv.compile(schemas[key]);
  return compiled;
}
const frameValidators = compile<ToMainType>(toMainSchemas);
const eventValidators = compile<WorkerEventType>(workerEventSchemas);
const argumentValidators = compile<HostServiceName>(callArgumentSchemas);

function violation(what: string, options?: ErrorOptions): never {
  throw new ProtocolError('PROTOCOL_VIOLATION', what, options);
}

function check(validate: ValidateFunction, value: unknown, what: string): void {
  if (validate(value)) return;
  const first = validate.errors?.[0];
  violation(`${what} is malformed: ${first?.instancePath ?? ''} ${first?.message ?? ''}`.trim());
}

const BULK_FRAMES: ReadonlySet<string> = new Set(['events', 'call', 'ready']);

/**
 * One frame from a thread, checked: bytes and nothing else, small enough before it is decoded,
 * JSON of bounded depth, and of the shape its type asks for.
 *
 * @throws {ProtocolError} `PROTOCOL_VIOLATION`
 */
export function decodeFrame(received: unknown): { frame: ToMain; bytes: number } {
  if (!(received instanceof Uint8Array)) violation('A thread may post bytes only.');
  if (!(received.buffer instanceof ArrayBuffer)) violation('A frame must not share its memory.');
  // Its memory is reserved up to what it may grow to, whatever is in it.
  if (isResizable(received.buffer)) violation('A frame must not be able to grow.');
  const bytes = received.byteLength;
  // A view of a few bytes brings its whole buffer with it.
  const brought = received.buffer.byteLength;
  if (brought > MAX_FRAME_BYTES) violation(`A frame of ${brought} bytes is larger than allowed.`);
  let value: unknown;
  try {
    value = unpack(received);
  } catch (error) {
    violation('A frame could not be decoded.', { cause: error });
  }
  if (typeof value !== 'object' || value === null) violation('A frame must be an object.');
  const { type, ...payload } = value as Record<string, unknown>;
  if (typeof type !== 'string' || !Object.hasOwn(frameValidators, type)) {
    violation('A frame has no known type.');
  }
  if (bytes > MAX_CONTROL_FRAME_BYTES && !BULK_FRAMES.has(type)) {
    violation(`A ${type} frame of ${bytes} bytes is larger than allowed.`);
  }
  check(frameValidators[type as ToMainType], payload, `A ${type} frame`);
  if (type === 'events') {
    for (const event of payload['events'] as { type: WorkerEventType; data: unknown }[]) {
      check(eventValidators[event.type], event.data, `A ${event.type} event`);
    }
  }
  return { frame: value as ToMain, bytes };
}

/** Not yet among the types of our language level. */
function isResizable(buffer: ArrayBuffer): boolean {
  return (buffer as ArrayBuffer & { readonly resizable?: boolean }).resizable === true;
}

/**
 * One call, checked before the dispatcher sees it: a plain application of one of the four
 * services to plain data. Left to itself the dispatcher would let the far side read, set and
 * construct whatever is reachable.
 *
 * @throws {ProtocolError} `PROTOCOL_VIOLATION`
 */
export function checkCall(message: unknown): RpcCall {
  if (typeof message !== 'object' || message === null) violation('A call must be an object.');
  const call = message as Record<string, unknown>;
  const keys = Object.keys(call).sort().join();
  if (keys !== 'argumentList,id,path,type') violation('A call has other parts than a call has.');
  if (call['type'] !== 'APPLY') violation('A call may only apply a service.');
  const { id, path, argumentList } = call;
  if (typeof id !== 'string' || id === '' || id.length > 128) violation('A call has no usable id.');
  const name: unknown = Array.isArray(path) && path.length === 1 ? path[0] : undefined;
  if (!HOST_SERVICE_NAMES.includes(name as HostServiceName)) violation('A call names no service.');
  if (!Array.isArray(argumentList)) violation('A call has no arguments.');
  const values = argumentList.map((argument: unknown) => {
    const { type, value, ...rest } = (argument ?? {}) as Record<string, unknown>;
    if (type !== 'RAW' || Object.keys(rest).length > 0) violation('An argument must be data.');
    return value;
  });
  check(argumentValidators[name as HostServiceName], values, `A call of ${String(name)}`);
  return message as RpcCall;
}
