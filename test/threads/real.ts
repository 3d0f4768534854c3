/** Harnesses of the built package, with real threads, and a model that plays what it is told. */
import { execFile } from 'node:child_process';
import type { ExecFileException } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { createHarness } from '../../dist/src/index.js';
import type {
  Agent,
  Harness,
  HarnessOptions,
  Message,
  ModelRequest,
  SessionEvent,
  SubagentResult,
  SubagentRun,
  SubagentStartRequest,
} from '../../dist/src/index.js';
import { isRuntimeContext } from '../support/told.ts';
import { until } from '../support/until.ts';
import { scriptedModel } from '../../dist/src/testing.js';
import type { Gate, ScriptedAnswer } from '../../dist/src/testing.js';

export const fixture = (name: string): URL => new URL(`./fixtures/${name}`, import.meta.url);

/** What a prompt may be besides text: JSON that says which tool to call, and with what. */
export interface Task {
  readonly tool: string;
  readonly args?: object;
}
export const task = (tool: string, args: object = {}): string => JSON.stringify({ tool, args });

const lastTold = (messages: readonly Message[]): Message | undefined =>
  messages.findLast((message) => !isRuntimeContext(message));

/** All text of the newest message: a tool's result, or what the user said. */
export function lastText({ messages }: ModelRequest): string {
  const blocks = lastTold(messages)?.content ?? [];
  const texts = blocks.flatMap((block) => (block.type === 'tool-result' ? block.content : [block]));
  return texts.map((block) => (block.type === 'text' ? block.text : '')).join('');
}

/**
 * Calls the tool that the prompt asks for and then repeats what the tool answered; any other
 * prompt is repeated as it is. With `hold`, what follows a tool's answer is held there.
 */
export function obedientModel({ hold }: { readonly hold?: Gate } = {}) {
  return scriptedModel((request): ScriptedAnswer => {
    const text = lastText(request);
    const isResult = lastTold(request.messages)?.source.kind === 'tool';
    if (isResult) return { text, ...(hold === undefined ? {} : { hold }) };
    if (!text.startsWith('{')) return text;
    const { tool, args = {} } = JSON.parse(text) as Task;
    return { toolCalls: [{ name: tool, arguments: args }] };
  });
}

export interface RealHarness extends AsyncDisposable {
  readonly harness: Harness;
  /** An agent without a loop: it owns the children. */
  readonly host: Agent;
  start(prompt: string, more?: Partial<SubagentStartRequest>): Promise<SubagentRun>;
  /** Start a child, wait for its result and let go of it. */
  delegate(prompt: string, more?: Partial<SubagentStartRequest>): Promise<SubagentResult>;
}

export async function realHarness(options: HarnessOptions = {}): Promise<RealHarness> {
  const harness = await createHarness({
    models: { obedient: obedientModel(), ...options.models },
    defaultModel: { provider: 'obedient', model: 'test' },
    workers: { warm: 0 },
    tools: [{ module: fixture('tools.mjs') }],
    ...options,
  });
  const { agent: host } = await harness.agents.createHost();
  const start: RealHarness['start'] = (prompt, more = {}) =>
    harness.subagents.start('spawn', {
      parent: host,
      prompt: [{ type: 'text', text: prompt }],
      signal: new AbortController().signal,
      agentOptions: { provider: 'obedient', model: 'test' },
      ...more,
    });
  return {
    harness,
    host,
    start,
    async delegate(prompt, more) {
      const run = await start(prompt, more);
      try {
        return await run.result;
      } finally {
        await run.dispose();
      }
    },
    [Symbol.asyncDispose]: () => harness.dispose(),
  };
}

/** A harness with exactly these options, and a root on its default model. */
export async function realRoot(
  options: HarnessOptions,
): Promise<{ readonly harness: Harness; readonly root: Agent } & AsyncDisposable> {
  const harness = await createHarness(options);
  const { agent: root } = await harness.agents.create();
  return { harness, root, [Symbol.asyncDispose]: () => harness.dispose() };
}

export const textOfResult = ({ output }: SubagentResult): string =>
  output.map((block) => (block.type === 'text' ? block.text : '')).join('');

/** A number that this thread and those it makes can see. */
export interface Fact {
  readonly shared: SharedArrayBuffer;
  readonly value: number;
  /** Resolves when it is at least this. */
  reaches(value: number): Promise<void>;
}

export function fact(): Fact {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  return {
    shared: cell.buffer as SharedArrayBuffer,
    get value() {
      return Atomics.load(cell, 0);
    },
    reaches: (value) => until(() => Atomics.load(cell, 0) >= value),
  };
}

/** Resolves with the first event of this type from now on. */
export function nextEvent(
  harness: Harness,
  agent: Agent,
  type: SessionEvent['type'],
): Promise<SessionEvent> {
  return new Promise((resolve) => {
    const off = harness.on(
      'session/event',
      ({ event }) => {
        if (event.type !== type) return;
        off();
        resolve(event);
      },
      { agent },
    );
  });
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Run one of the fixtures as a program. It is killed when it does not end by itself. */
export function runProgram(
  name: string,
  {
    args = [],
    flags = [],
    env = {},
    timeoutMs = 30_000,
  }: {
    readonly args?: string[];
    readonly flags?: string[];
    readonly env?: Readonly<Record<string, string>>;
    readonly timeoutMs?: number;
  } = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [...flags, fileURLToPath(fixture(name)), ...args],
      { timeout: timeoutMs, killSignal: 'SIGKILL', env: { ...process.env, ...env } },
      (error: ExecFileException | null, stdout, stderr) =>
        resolve({
          code: error === null ? 0 : typeof error.code === 'number' ? error.code : null,
          signal: error?.signal ?? null,
          stdout,
          stderr,
        }),
    );
  });
}
