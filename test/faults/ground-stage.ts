/** What a ground has: a harness on a file, a host, models and tools that order faults, and cells. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createHarness, subagentTool } from '../../src/index.ts';
import type { ContentBlock } from '../../protocol/content.ts';
import type { Agent, Harness, Message, ModelRequest } from '../../src/index.ts';
import { scriptedModel } from '../../src/testing.ts';
import type { ScriptedAnswer } from '../../src/testing.ts';
import { CELL_COUNT, CELLS } from './inside.ts';
import type { Cell, Mode, Moment } from './moments.ts';
import { placeOf } from './moments.ts';
import { PARTIAL } from './orders.ts';
import type { Order } from './orders.ts';
import { kindOf } from './kinds.ts';
import { LIMITS, limitsOf } from './limits.ts';

const here = (name: string): URL => new URL(`./${name}`, import.meta.url);
const POLL_MS = 4;
const HELD_MS = 100;
const DYING_MS = 20;
/** What an agent is told that has to answer, and what it answers. */
export const WELL = 'well';

/** Asked for again after each answer, without end. */
const ENDLESS: ReadonlySet<string> = new Set(['steps-without-end', 'output-without-end']);

/** Calls what its order says and repeats what that answers; repeats anything else. */
function obedient({ messages }: ModelRequest): ScriptedAnswer {
  const told = messages.findLast(({ source }) => source.kind !== 'plugin');
  const text = textOf(told);
  if (told?.source.kind === 'tool') {
    const first = textOf(messages.findLast(({ source }) => source.kind === 'user'));
    const { fault } = first.startsWith('{') ? (JSON.parse(first) as Order) : {};
    if (fault === undefined || !ENDLESS.has(fault.kind)) return text;
    return { text: PARTIAL, toolCalls: [{ name: 'fault', arguments: fault }] };
  }
  if (told?.source.kind !== 'user' || !text.startsWith('{')) return text === '' ? 'heard' : text;
  const { call, fault } = JSON.parse(text) as Order;
  if (call !== undefined) return { toolCalls: [{ name: call.tool, arguments: call.args }] };
  if (fault === undefined) return text;
  return { text: PARTIAL, toolCalls: [{ name: 'fault', arguments: fault }] };
}

export const textOf = (message: Message | undefined): string =>
  textOfBlocks(message?.content ?? []);

export function textOfBlocks(blocks: readonly ContentBlock[]): string {
  const all = blocks.flatMap((block) => (block.type === 'tool-result' ? block.content : [block]));
  return all.map((block) => (block.type === 'text' ? block.text : '')).join('');
}

export class Stage {
  readonly harness: Harness;
  readonly host: Agent;
  readonly path: string;
  readonly folder: string;
  readonly #cells: Int32Array;
  readonly #registered = new Set<string>();

  private constructor(
    harness: Harness,
    host: Agent,
    place: { readonly path: string; readonly folder: string },
    cells: Int32Array,
  ) {
    this.harness = harness;
    this.host = host;
    this.path = place.path;
    this.folder = place.folder;
    this.#cells = cells;
  }

  static async open(folder: string, name: string): Promise<Stage> {
    const cells = new Int32Array(new SharedArrayBuffer(4 * CELL_COUNT));
    const options = { shared: cells.buffer, folder };
    const path = join(folder, `${name}.db`);
    const harness = await createHarness({
      store: path,
      workers: { warm: 0 },
      limits: LIMITS.harness,
      models: {
        obedient: scriptedModel(obedient),
        inside: { module: here('thread-model.js'), options },
      },
      defaultModel: { provider: 'obedient', model: 'test' },
      tools: [{ module: here('thread-tools.js'), options }],
    });
    const { agent: host } = await harness.agents.createHost({
      sessionId: 'host',
      onMessage: () => {},
    });
    const stage = new Stage(harness, host, { path, folder }, cells);
    harness.tools.register(
      subagentTool(harness.subagents, { provider: 'spawn', toolName: 'pass' }),
    );
    const goesOn = {
      provider: 'spawn',
      toolName: 'pass_on',
      backgroundMode: 'continuable',
    } as const;
    harness.tools.register(subagentTool(harness.subagents, goesOn));
    return stage;
  }

  cell(name: keyof typeof CELLS): number {
    return Atomics.load(this.#cells, CELLS[name]);
  }

  set(name: keyof typeof CELLS, value: number): void {
    Atomics.store(this.#cells, CELLS[name], value);
  }

  /** Main does nothing until a fault has happened, and its thread may be gone. */
  holdMain(): void {
    Atomics.wait(this.#cells, CELLS.injected, 0, HELD_MS);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, DYING_MS);
  }

  reset(): void {
    this.#cells.fill(0);
    rmSync(this.#armed, { force: true });
  }

  /** Have the modules at fault from now on. */
  arm(): void {
    writeFileSync(this.#armed, '');
  }

  get #armed(): string {
    return join(this.folder, 'armed');
  }

  /** How often a body was begun. */
  get injected(): number {
    return this.cell('injected') + this.#loaded.length;
  }

  /** When the first was, by `clock`. */
  get injectedAt(): number | undefined {
    const at = this.cell('at');
    return at === 0 ? this.#loaded[0] : at;
  }

  get #loaded(): readonly number[] {
    try {
      return readFileSync(this.#armed, 'utf8').trim().split('\n').filter(Boolean).map(Number);
    } catch {
      // It is not armed, or a fault has taken every descriptor.
      return [];
    }
  }

  /** The model provider of the agent that is at fault. */
  providerOf({ kind, moment }: Pick<Cell, 'kind' | 'moment'>): string {
    const place = placeOf(moment);
    if (place === 'model') return 'inside';
    if (place !== 'load' && place !== 'factory') return 'obedient';
    const name = `${place} ${kind}`;
    if (!this.#registered.has(name)) {
      this.#registered.add(name);
      const module = here('thread-load.js');
      for (const [key, value] of Object.entries({ kind, place, armed: this.#armed })) {
        module.searchParams.set(key, value);
      }
      const options = { shared: this.#cells.buffer, folder: this.folder };
      this.harness.models.register(name, { module, options });
    }
    return name;
  }

  /** The tool that delegates to the agent at fault. */
  delegating(cell: {
    readonly kind: string;
    readonly moment: Moment;
    readonly mode: Mode;
  }): string {
    const provider = this.providerOf(cell);
    const limits = limitsOf(kindOf(cell.kind), placeOf(cell.moment));
    const toolName =
      `to_${cell.mode === 'one-shot' ? 'one' : 'more'}_${Object.entries(limits).flat().join('_')}_${provider}`.replaceAll(
        /[^a-z0-9_]/g,
        '_',
      );
    if (!this.#registered.has(toolName)) {
      this.#registered.add(toolName);
      const tool = subagentTool(this.harness.subagents, {
        provider: 'spawn',
        toolName,
        backgroundMode: cell.mode,
        enableRunInBackground: cell.mode === 'continuable',
        agentOptions: { provider, model: 'test' },
        limits,
      });
      this.harness.tools.register(tool);
    }
    return toolName;
  }

  /** What a child of the host says that nothing is wrong with. */
  async healthy(): Promise<string> {
    const { signal } = new AbortController();
    const request = { parent: this.host, prompt: WELL, signal };
    try {
      const run = await this.harness.subagents.start('spawn', request);
      const { output, diagnostic } = await run.result;
      await run.dispose();
      return diagnostic ?? textOfBlocks(output);
    } catch (error) {
      return String(error);
    }
  }

  /** Resolves true when it is so, false when it is not after the time. */
  async until(isSo: () => boolean, ms: number): Promise<boolean> {
    const end = performance.now() + ms;
    while (!isSo()) {
      if (performance.now() > end) return false;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    return true;
  }
}
