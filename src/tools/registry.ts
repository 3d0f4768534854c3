/**
 * Which tools there are: those of the harness, and for each agent its own on top. What an agent
 * may use is decided here, at the moment of asking, and nowhere else: a filtered tool is absent
 * from what a model is shown and unknown when it is called.
 */
import { toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError, ToolFilterError } from '../../protocol/errors.ts';
import type { CallId } from '../../protocol/ids.ts';
import type { ToolCallRequest } from '../../protocol/host-services.ts';
import type { Json } from '../../protocol/json.ts';
import type { ToolContext, ToolModule, ToolSpec } from '../../protocol/tool.ts';
import { assertOptions } from '../base/assert-options.ts';
import { owned } from '../base/scope.ts';
import type { Ownership } from '../base/scope.ts';
import { RESERVED_NAMES, admitHostTool, admitModule, admitModuleTool } from './definition.ts';
import type { FoundTool, HostTool } from './definition.ts';
import type { ToolResult } from './results.ts';

export type { FoundTool, HostTool } from './definition.ts';

/** Names of inherited tools an agent may use, or may not. Several filters intersect. */
export interface ToolFilter {
  /** Absent: all. Empty: none. */
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
}

/**
 * Contract: returns why a call is refused, in words for the model, or `undefined`. It can only
 * deny; one that throws denies too.
 */
export type ToolGuard = (call: {
  readonly name: string;
  readonly callId: CallId;
  readonly args: unknown;
}) => string | undefined;

/** A call that has ended, as whoever watches an agent's tools is told of it. */
export interface EndedCall {
  readonly request: ToolCallRequest;
  /** The raw text when that was no JSON. */
  readonly args: Json;
  /** What its body was given; absent when none ran on main. */
  readonly context?: ToolContext<unknown>;
  /** As it stands in the log. Absent: the call was dropped, and will never have one. */
  readonly result?: ToolResult;
}

/** In `toolOrder`: all tools that are not named, by name. */
const REST = '*';

/** The tools of one harness. */
export class ToolRegistry {
  readonly #tools = new Map<string, FoundTool & { kind: 'host' }>();
  readonly #modules = new Set<ToolModule>();
  readonly #order: readonly string[];
  #version = 0;

  /**
   * @param o.toolOrder names in the order models see them; `*` stands for all others
   * @throws {ArgumentError} when it is no list of names, or has one twice
   * @internal
   */
  constructor(o: { readonly toolOrder?: readonly string[] | undefined } = {}) {
    this.#order = namesOf(o.toolOrder ?? [], 'The tool order is a list of names.');
    if (new Set(this.#order).size !== this.#order.length) {
      throw new ArgumentError('The tool order names a tool twice.');
    }
  }

  /**
   * Returns the idempotent disposer. A module's tools are known once a thread has loaded it.
   * @throws {ArgumentError} when the name is taken, or it is no tool.
   */
  register(tool: HostTool | ToolModule, owner: Ownership = {}): () => void {
    if (typeof tool === 'object' && tool !== null && 'module' in tool) {
      const module = admitModule(tool);
      return owned(owner, () => {
        this.#modules.add(module);
        return () => void this.#modules.delete(module);
      });
    }
    const found = admitHostTool(tool);
    return owned(owner, () => {
      const withdraw = add(this.#tools, found);
      this.#version++;
      return () => {
        if (withdraw()) this.#version++;
      };
    });
  }

  /** @internal */
  modules(): readonly ToolModule[] {
    return [...this.#modules];
  }

  /**
   * The tools of one agent: these, and its own. What is kept from the agent above is kept from it.
   * @internal
   */
  scope(above?: ToolScope): ToolScope {
    const inherited = {
      tools: this.#tools,
      version: () => this.#version,
      compare: (left: string, right: string) => this.#compare(left, right),
    };
    return new ToolScope(inherited, above);
  }

  /** By the configured order, then by code unit. */
  #compare(left: string, right: string): number {
    const rank = (name: string): number => {
      const index = this.#order.indexOf(name);
      if (index !== -1) return index;
      const rest = this.#order.indexOf(REST);
      return rest === -1 ? this.#order.length : rest;
    };
    return rank(left) - rank(right) || (left < right ? -1 : left > right ? 1 : 0);
  }
}

interface Inherited {
  readonly tools: ReadonlyMap<string, FoundTool>;
  version(): number;
  compare(left: string, right: string): number;
}

/** The tools of one agent. */
export class ToolScope {
  readonly #inherited: Inherited;
  readonly #above: ToolScope | undefined;
  readonly #own = new Map<string, FoundTool>();
  readonly #filters = new Set<ToolFilter>();
  /** How often the filters changed. */
  #filterings = 0;
  readonly #guards = new Set<ToolGuard>();
  readonly #watchers = new Set<(ended: EndedCall) => void>();
  #modules: ReadonlyMap<string, FoundTool> = new Map();
  #view: { readonly specs: readonly ToolSpec[]; readonly version: number } | undefined;

  /**
   * Made by `ToolRegistry.scope()`.
   * @internal
   */
  constructor(inherited: Inherited, above: ToolScope | undefined) {
    this.#inherited = inherited;
    this.#above = above;
  }

  /**
   * A tool of this agent alone. No filter hides it, and it hides an inherited one of its name.
   * @throws {ArgumentError} when the agent has its own tool of that name, or it is no tool.
   */
  register(tool: HostTool): () => void {
    const withdraw = add(this.#own, admitHostTool(tool));
    this.#view = undefined;
    return () => {
      if (withdraw()) this.#view = undefined;
    };
  }

  /**
   * Keep only some of the inherited tools, now and later, for this agent and all below it. Names are checked by `assertFilters`,
   * once all that is inherited is known.
   * @throws {ToolFilterError} `EMPTY_FILTER`; `UNKNOWN_TOOL_NAME` for a name that is reserved.
   * @throws {ArgumentError} when a list is not one of strings, or there is something else.
   */
  restrict(filter: ToolFilter): () => void {
    assertOptions('a tool filter', filter, { allow: 'any', deny: 'any' });
    const { allow, deny } = filter;
    if (allow === undefined && deny === undefined) {
      const message = 'A tool filter must allow or deny something; an empty one says nothing.';
      throw new ToolFilterError('EMPTY_FILTER', message);
    }
    const copy: ToolFilter = {
      ...(allow === undefined ? {} : { allow: namesOf(allow) }),
      ...(deny === undefined ? {} : { deny: namesOf(deny) }),
    };
    const reserved = [...(copy.allow ?? []), ...(copy.deny ?? [])].find((name) =>
      RESERVED_NAMES.has(name),
    );
    if (reserved !== undefined) {
      const message = `A tool filter names \`${reserved}\`, which is reserved: it is no tool of ours.`;
      throw new ToolFilterError('UNKNOWN_TOOL_NAME', message);
    }
    this.#filters.add(copy);
    this.#filterings++;
    return () => {
      if (this.#filters.delete(copy)) this.#filterings++;
    };
  }

  /** Ask before every call; see `ToolGuard`. */
  guard(deny: ToolGuard): () => void {
    const entry: ToolGuard = (call) => deny(call);
    this.#guards.add(entry);
    return () => void this.#guards.delete(entry);
  }

  /**
   * Why a call is refused by a guard: the first one's words.
   * @internal
   */
  denial(call: Parameters<ToolGuard>[0]): string | undefined {
    for (const guard of this.#guards) {
      try {
        const reason = guard(call);
        if (reason !== undefined) return reason;
      } catch (error) {
        return toErrorRecord(error).message;
      }
    }
    return undefined;
  }

  /**
   * Be told of every call of this agent when it has ended, whichever thread it came from. What a
   * watcher throws is logged and stops nobody.
   * @internal
   */
  watch(watcher: (ended: EndedCall) => void): () => void {
    const entry = (ended: EndedCall): void => watcher(ended);
    this.#watchers.add(entry);
    return () => void this.#watchers.delete(entry);
  }

  /**
   * Those that watch right now.
   * @internal
   */
  watchers(): readonly ((ended: EndedCall) => void)[] {
    return [...this.#watchers];
  }

  /**
   * What the agent's thread has loaded from modules; inherited, so filters apply. Replaces what
   * an earlier thread had.
   * @throws {ArgumentError} when a name is taken by another module or by a function of the harness.
   * @internal
   */
  addModuleTools(specs: readonly ToolSpec[]): void {
    const tools = new Map<string, FoundTool>();
    for (const spec of specs) {
      const tool = admitModuleTool(spec);
      if (this.#inherited.tools.has(tool.spec.name)) {
        throw new ArgumentError(`There is a tool named \`${tool.spec.name}\` outside of modules.`);
      }
      add(tools, tool);
    }
    this.#modules = tools;
    this.#view = undefined;
  }

  /**
   * Check the filters against all that is inherited, filtered or not.
   * @throws {ToolFilterError} `UNKNOWN_TOOL_NAME`, naming what there is.
   * @internal
   */
  assertFilters(): void {
    const known = new Set([...this.#inherited.tools.keys(), ...this.#modules.keys()]);
    for (const { allow, deny } of this.#filters) {
      const unknown = [...(allow ?? []), ...(deny ?? [])].filter((name) => !known.has(name));
      if (unknown.length === 0) continue;
      throw new ToolFilterError(
        'UNKNOWN_TOOL_NAME',
        `A tool filter names ${list(unknown)}, which is not inherited. Inherited are: ` +
          `${list([...known].sort()) || 'none'}.`,
      );
    }
  }

  /**
   * What a model is shown, in canonical order. The same array until something changes.
   * @internal
   */
  view(): readonly ToolSpec[] {
    // Both only grow: as long as their sum is the same, so are they.
    const version = this.#inherited.version() + this.#filteringsUpwards;
    if (this.#view?.version !== version) {
      const names = new Set([
        ...this.#inherited.tools.keys(),
        ...this.#modules.keys(),
        ...this.#own.keys(),
      ]);
      const specs = [...names]
        .sort((left, right) => this.#inherited.compare(left, right))
        .flatMap((name) => this.find(name)?.spec ?? []);
      this.#view = { specs: Object.freeze(specs), version };
    }
    return this.#view.specs;
  }

  /**
   * The tool this agent would use by that name. A filtered one is not there.
   * @internal
   */
  find(name: string): FoundTool | undefined {
    const own = this.#own.get(name);
    if (own !== undefined) return own;
    if (!this.#lets(name)) return undefined;
    return this.#inherited.tools.get(name) ?? this.#modules.get(name);
  }

  /** No filter hides it, neither of this agent nor of one above: what may be used only shrinks. */
  #lets(name: string): boolean {
    for (const { allow, deny } of this.#filters) {
      if (allow?.includes(name) === false || deny?.includes(name) === true) return false;
    }
    return this.#above === undefined || this.#above.#lets(name);
  }

  get #filteringsUpwards(): number {
    const above = this.#above;
    return this.#filterings + (above === undefined ? 0 : above.#filteringsUpwards);
  }
}

/** Returns the function that takes the tool out again, and tells whether it was there. */
function add<T extends FoundTool>(layer: Map<string, T>, tool: T): () => boolean {
  const { name } = tool.spec;
  if (layer.has(name)) throw new ArgumentError(`There is already a tool named \`${name}\`.`);
  layer.set(name, tool);
  return () => layer.get(name) === tool && layer.delete(name);
}

function namesOf(
  names: unknown,
  problem = 'A tool filter takes lists of names.',
): readonly string[] {
  if (!Array.isArray(names)) throw new ArgumentError(problem);
  const copy: unknown[] = [...(names as unknown[])];
  if (copy.some((name) => typeof name !== 'string')) throw new ArgumentError(problem);
  return copy as string[];
}

function list(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}
