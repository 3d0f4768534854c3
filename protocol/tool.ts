import type { ContentBlock, UserMessage } from './content.ts';
import type { CallId, SessionId } from './ids.ts';
import type { Json, JsonObject } from './json.ts';

/** What a model sees of a tool. */
export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  /** JSON Schema (2020-12) with an object at its root. */
  readonly parameters: JsonObject;
}

/** The agent as a tool in a module sees it. A function on main gets the `Agent` itself. */
export interface ToolAgent {
  readonly id: SessionId;
  readonly cwd: string | undefined;
  readonly depth: number;
}

/** What a tool body is given besides its arguments. */
export interface ToolContext<A = ToolAgent> {
  readonly agent: A;
  readonly callId: CallId;
  /** Aborted when the caller's turn is cancelled or the tool's own time is up. */
  readonly signal: AbortSignal;
  /** Show the model this message after the step's results. */
  deferContext(message: UserMessage): void;
  /** If this call succeeds, the turn ends after this step. */
  concludeTurn(): void;
}

/** How what a tool returns is checked, and what a model reads of it. */
export interface ToolOutput<V = Json> {
  /** JSON Schema the returned value must satisfy. */
  readonly schema: JsonObject;
  /** What the model reads. */
  render(args: JsonObject, value: V): readonly ContentBlock[];
}

/**
 * One tool. Contract of `execute`: it returns JSON or throws; what it throws becomes an error
 * result the model can read. It honours `signal`; after an abort its value is not used.
 */
export interface ToolDefinition<A = ToolAgent> extends ToolSpec {
  /** The work. Arguments are validated against `parameters` by then. */
  execute(args: JsonObject, context: ToolContext<A>): Promise<Json | void> | Json | void;
  /** Absent: a string is shown as it is, any other value as JSON. */
  readonly output?: ToolOutput;
  /** Milliseconds. Absent: no limit of its own. */
  readonly timeoutMs?: number;
  /** True when calls may overlap others of the same step. Absent or throwing: they may not. */
  isConcurrencySafe?(args: JsonObject): boolean;
}

/** A tool given as a module: loaded inside the agent's thread, never on main. */
export interface ToolModule {
  readonly module: URL;
  /** Passed to the module's default export when that is a function; structured-cloneable. */
  readonly options?: unknown;
  /**
   * The module's state must survive while its agent is idle: its thread is not taken for another
   * agent when threads are scarce, so a start that only it could make room for is refused. The
   * state ends with the agent, and with a thread that dies.
   */
  readonly keepsState?: boolean;
}

/** What the model reads of a tool that returned nothing and has no `output`. */
export const NO_OUTPUT = '(no output)';

/** Identity, for inference: `defineTool({ … })` is the object it was given. */
export function defineTool<A = ToolAgent>(tool: ToolDefinition<A>): ToolDefinition<A> {
  return tool;
}
