/** Each number on the page of limits is the one in the code. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DEFAULT_RETRY_POLICY } from '../../protocol/retry-policy.ts';
import { DEFAULT_WINDOW } from '../../protocol/window.ts';
import { resolveLimits } from '../../src/worker-host/limits.ts';
import { root } from '../support/imports.ts';
import { readPage } from '../support/pages.ts';

const page = readPage('docs/limits.md');
/** Rows by what their first cell says. */
const rows = new Map(
  [...page.matchAll(/^\| (?!limit \||what \||---)([^|]+?) \| (.*) \|$/gm)].map(
    ([, name = '', rest = '']) => [name, rest],
  ),
);
/** As pages write numbers: thousands apart, from five digits on or from four, as they do here. */
const shown = (value: number): string => String(value).replaceAll(/\B(?=(\d{3})+$)/g, ' ');

/** The number that a constant is given where it is declared; products and powers are worked out. */
function constant(path: string, name: string): number {
  const text = readFileSync(join(root, path), 'utf8');
  const [, given] = new RegExp(`const ${name}(?:: \\w+)? = ([\\d_ *-]+);`).exec(text) ?? [];
  if (given === undefined) throw new Error(`${path} has no number ${name}.`);
  const factor = (part: string): number => {
    const [base = '', power = '1'] = part.split('**');
    return Number(base) ** Number(power);
  };
  return given
    .replaceAll('_', '')
    .split(/\s-\s/)
    .map((term) =>
      term
        .split(/(?<!\*)\*(?!\*)/)
        .map(factor)
        .reduce((a, b) => a * b),
    )
    .reduce((a, b) => a - b);
}

const TIME_ROW = 'time to check a value against a schema beyond the subset of `outputSchema`';
const ERROR_ROW = 'the message, and the stack, of an error that a thread tells';
const ASKED_ROW = 'values in a line, or in the body of a request';
/** Rows whose number stands in one file, under one name. */
const CONSTANTS: readonly (readonly [row: string, path: string, name: string])[] = [
  [
    'silence of a stream: `idleMs` of `openaiCompatible`',
    'src/models/openai-compatible.ts',
    'MAX_IDLE_MS',
  ],
  ['one answer as text', 'protocol/model-grammar.ts', 'MAX_ANSWER_BYTES'],
  ['blocks of one answer', 'protocol/model-grammar.ts', 'MAX_BLOCKS'],
  ['one answer as the server sends it', 'src/models/bounded-fetch.ts', 'ANSWER_BYTES'],
  ['an error as the server sends it', 'src/models/bounded-fetch.ts', 'ERROR_BYTES'],
  ['calls of one agent that run at once', 'src/worker-host/worker-host.ts', 'TOOL_CONCURRENCY'],
  ['time of a call: `timeoutMs` of the tool', 'src/tools/definition.ts', 'MAX_TIMEOUT_MS'],
  ['values in the arguments of a call', 'src/tools/arguments.ts', 'MAX_VALUES'],
  ['nesting of the arguments of a call', 'src/tools/arguments.ts', 'MAX_DEPTH'],
  ['values in an `outputSchema`', 'src/tools/json-schema.ts', 'MAX_SCHEMA_VALUES'],
  ['the result of a tool in a module', 'protocol/to-main.ts', 'MAX_FRAME_BYTES'],
  ['comparisons of a value with a schema', 'src/tools/validate-json.ts', 'MAX_STEPS'],
  [TIME_ROW, 'src/tools/validate-arguments.ts', 'CHECK_MS'],
  [TIME_ROW, 'src/tools/validate-arguments.ts', 'LARGE'],
  ['faults of a value, or of a schema, that are told', 'src/tools/json-schema.ts', 'MAX_TOLD'],
  ['faults of a value, or of a schema, that are told', 'src/tools/validate-json.ts', 'MAX_TOLD'],
  ['one line of an import', 'src/session/import-lines.ts', 'MAX_VALUES'],
  [ASKED_ROW, 'src/serve/served-connection.ts', 'MAX_VALUES'],
  [ASKED_ROW, 'src/serve/served-connection.ts', 'MAX_DEPTH'],
  ['messages that one call adds with `deferContext`', 'workers/tool-body.ts', 'MAX_CONTEXTS'],
  ['messages that one call adds with `deferContext`', 'src/tools/execute.ts', 'MAX_CONTEXTS'],
  [
    'values in the prompt of a start request',
    'src/subagents/start-request.ts',
    'MAX_PROMPT_VALUES',
  ],
  ['names in a list of a tool filter', 'src/subagents/start-request.ts', 'MAX_NAMES'],
  ['the label, and the id, of a child that goes on', 'src/subagents/continuable.ts', 'NAME_CHARS'],
  ['a report', 'protocol/model-grammar.ts', 'MAX_ANSWER_BYTES'],
  ['a `diagnostic`', 'src/subagents/diagnostic.ts', 'MAX_DIAGNOSTIC_BYTES'],
  ['the `summary` of a notice', 'src/subagents/settlement.ts', 'SUMMARY_CHARS'],
  ['ended jobs that an agent can still read', 'src/jobs/jobs.ts', 'KEPT_ENDED'],
  ['nesting of a message', 'src/agent/agent.ts', 'MAX_MESSAGE_DEPTH'],
  ['one frame to the main thread', 'protocol/to-main.ts', 'MAX_FRAME_BYTES'],
  ['nesting of a frame', 'protocol/codec.ts', 'MAX_DEPTH'],
  ['values in a frame', 'protocol/codec.ts', 'MAX_NODES'],
  ['what a frame takes in memory', 'protocol/codec.ts', 'HEAP_BYTES'],
  ['events in a frame', 'protocol/to-main.ts', 'MAX_FRAME_EVENTS'],
  [
    'time of the main thread for the frames of all threads, in one turn of its loop',
    'src/worker-host/main-share.ts',
    'SHARE_MS',
  ],
  [
    'bytes of a thread that wait for that, beyond its credit',
    'src/worker-host/link.ts',
    'UNCREDITED_BYTES',
  ],
  [ERROR_ROW, 'protocol/error-record.ts', 'ERROR_MESSAGE_CHARS'],
  [ERROR_ROW, 'protocol/error-record.ts', 'ERROR_STACK_CHARS'],
  ['the message of a failure that a thread tells', 'protocol/schemas.ts', 'FAILURE_MESSAGE_CHARS'],
  ['frames without credit, within 100 ms', 'src/worker-host/link.ts', 'FLOOD_FRAMES'],
  ['calls that a thread has open', 'src/worker-host/link.ts', 'MAX_OPEN_CALLS'],
  ['what a thread prints', 'protocol/printed.ts', 'KEPT_PRINT_BYTES'],
  [
    'callbacks of printing that was dropped, while the loop of the thread does not turn',
    'workers/printing.ts',
    'MOST_WAITING',
  ],
  ['bytes that a thread prints around that', 'src/worker-host/captured-output.ts', 'FLOOD_BYTES'],
  ['memory of a thread above `memoryMb`', 'src/worker-host/memory-guard.ts', 'MAX_GARBAGE_MB'],
  ['memory of a thread above `memoryMb`', 'src/worker-host/memory-guard.ts', 'SLACK_MB'],
  [
    'the heap limit of the engine above `memoryMb`',
    'src/worker-host/memory-guard.ts',
    'HARD_MARGIN_MB',
  ],
  ['memory of the process', 'src/worker-host/memory-guard.ts', 'BUDGET_PERCENT'],
  ['between two looks at memory', 'src/worker-host/memory-guard.ts', 'LOOK_MS'],
  ['between two looks at memory', 'src/worker-host/memory-guard.ts', 'IDLE_LOOK_MS'],
  ['looks at whether loops turn', 'src/worker-host/watchdog.ts', 'LOOKS'],
  ['looks at whether loops turn', 'src/worker-host/watchdog.ts', 'MOST_MS'],
  ['looks at whether loops turn', 'src/worker-host/watchdog.ts', 'LEAST_MS'],
  [
    'from the end by force of a thread to the verdict that it is stuck',
    'src/worker-host/thread.ts',
    'STUCK_MS',
  ],
  ['memory maps counted for each thread', 'src/worker-host/machine.ts', 'THREAD_MAPS'],
  ['memory maps counted for each thread', 'src/worker-host/machine.ts', 'SPARE_MAPS'],
  ['descriptors counted for each thread', 'src/worker-host/machine.ts', 'THREAD_DESCRIPTORS'],
  ['descriptors counted for each thread', 'src/worker-host/machine.ts', 'SPARE_DESCRIPTORS'],
  ["what `durability: 'batched'` may lose", 'src/session/commit-queue.ts', 'BATCH_WINDOW_MS'],
  ['a lease on a session', 'src/session/sqlite-leases.ts', 'LEASE_MS'],
  ['between renewals of a lease', 'src/session/sqlite-leases.ts', 'RENEW_MS'],
  ['wait for a file that another process has locked', 'src/session/sqlite-file.ts', 'BUSY_MS'],
  ['nesting of an event', 'src/session/session.ts', 'MAX_EVENT_DEPTH'],
  ['one line of an import', 'src/session/import-lines.ts', 'MAX_LINE'],
  ['the state of a projection in a checkpoint', 'src/session/projections/fold.ts', 'MAX_ROW_BYTES'],
  ["a projection's key", 'src/session/projections/unit.ts', 'MAX_KEY'],
  [
    'children that a listing goes through at once',
    'src/subagents/listing-call.ts',
    'LISTED_AT_ONCE',
  ],
  ['one line on a control socket, or on stdio', 'src/serve/served-connection.ts', 'MAX_LINE_BYTES'],
  ['requests of one connection under way', 'src/serve/rpc-peer.ts', 'MAX_UNDER_WAY'],
  ['the body of a request over HTTP', 'src/serve/http-routes.ts', 'MAX_BODY_BYTES'],
  ['readers of events of one HTTP server', 'src/serve/http-streams.ts', 'MAX_STREAMS'],
  [
    'the time in which the processes of a store answer `connectControl`',
    'src/serve/connect-control.ts',
    'ANSWER_MS',
  ],
  ['the id of a session that `session/prompt` makes', 'src/serve/telling.ts', 'NEW_ID_CHARS'],
  ['followings and watches of one connection', 'src/serve/operations.ts', 'MAX_OPEN'],
  ['events of one `session/read`', 'src/serve/operations.ts', 'MAX_PAGE'],
  ['events of one `session/read`', 'src/serve/operations.ts', 'DEFAULT_PAGE'],
  ['events that a reader of a tree is behind', 'src/serve/tree-watch.ts', 'MAX_WAITING'],
];
const { maxRetries, initialDelayMs, maxDelayMs } = DEFAULT_RETRY_POLICY;
const VALUES: readonly (readonly [row: string, value: number])[] = [
  ['retries of a failed request', maxRetries],
  ['retries of a failed request', initialDelayMs],
  ['retries of a failed request', maxDelayMs],
  ['frames on the way, in each direction', DEFAULT_WINDOW.frames],
  ['bytes on the way, in each direction', DEFAULT_WINDOW.bytes],
];
/** What is no number in the code. */
const ELSEWHERE = ["a tool's name"];
const { execArgv: _, ...DEFAULTS } = resolveLimits();
const TIMES = [
  'turnMs',
  'runMs',
  'cpuMs',
  'toolMs',
  'unresponsiveMs',
  'stopGraceMs',
  'interruptGraceMs',
  'startMs',
] as const;

const has = (row: string, value: number): void => {
  const numbers = (rows.get(row) ?? '').match(/\d+(?: \d{3})*/g) ?? [];
  expect(numbers).toContain(shown(value));
};

describe('the page of limits', () => {
  it.each(Object.entries(DEFAULTS))('has the default of %s', (name, value) => {
    const given = value === undefined ? 'none' : shown(Number(value));
    expect(rows.get(`\`${name}\``)).toMatch(new RegExp(`^${given} \\| `));
  });

  it.each(CONSTANTS)('has the number of %s, of %s', (row, path, name) => {
    has(row, constant(path, name));
  });

  it.each(VALUES)('has the number of %s: %i', has);

  it('has no row of which nobody says what it is in the code', () => {
    const known = [
      ...Object.keys(DEFAULTS).map((name) => `\`${name}\``),
      ...CONSTANTS.map(([row]) => row),
      ...VALUES.map(([row]) => row),
      ...ELSEWHERE,
    ];
    expect([...rows.keys()].filter((row) => !known.includes(row))).toEqual([]);
  });

  it('has the range of memory and of times', () => {
    expect(() => resolveLimits({ memoryMb: 31 })).toThrow('32 to 4096');
    expect(rows.get('`memoryMb`')).toContain('32 to 4 096 MiB');
    const most = constant('src/base/limit-values.ts', 'MAX_DURATION_MS');
    for (const name of TIMES) {
      expect(resolveLimits({ [name]: most })[name]).toBe(most);
      expect(() => resolveLimits({ [name]: most + 1 })).toThrow(name);
      has(`\`${name}\``, most);
    }
  });

  it('names codes that there are', () => {
    const codes = [...page.matchAll(/`([A-Z][A-Z_]{3,})`/g)].map(([, code = '']) => code);
    const known = readPage('docs/errors.md');
    expect(codes.filter((code) => !known.includes(`\`${code}\``))).toEqual([]);
    expect(codes.length).toBeGreaterThan(20);
  });
});
