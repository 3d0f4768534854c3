import type { ToolCallRequest } from '../../protocol/host-services.ts';
import type { Json, JsonObject } from '../../protocol/json.ts';
import { isPromiseLetGo } from '../base/deferred.ts';
import type { ParsedArguments } from './arguments.ts';
import type { FoundTool, ToolScope } from './registry.ts';
import * as results from './results.ts';
import type { ToolResult } from './results.ts';

/** What a call would come to if it started now. */
export type Plan =
  | { readonly kind: 'refuse'; readonly result: ToolResult }
  | {
      readonly kind: 'run';
      readonly found: FoundTool;
      readonly args: JsonObject;
      readonly exclusive: boolean;
    };

/** Names listed for a model that called a tool which does not exist. */
const SHOWN_NAMES = 50;

/** Decide about one call, without guards: those are asked when it does start. */
export function planCall(
  scope: ToolScope,
  call: {
    readonly request: ToolCallRequest;
    readonly signal: AbortSignal;
    readonly parsed: ParsedArguments;
  },
): Plan {
  const { request, signal, parsed } = call;
  const { name } = request;
  const refuse = (result: ToolResult): Plan => ({ kind: 'refuse', result });
  if (signal.aborted) return refuse(results.abortedBeforeDispatch(name));
  const found = scope.find(name);
  if (found === undefined) return refuse(unknownTool(scope, name));
  const problems = parsed.problem === undefined ? problemsOf(found, parsed.args) : [parsed.problem];
  if (problems.length > 0) return refuse(results.invalidArguments(name, problems));
  const args = parsed.args as JsonObject;
  return { kind: 'run', found, args, exclusive: !mayOverlap(found, args, request) };
}

/** The plan once hooks were asked: what they let pass is this very tool, and it may be gone. */
export function planAfterHooks(scope: ToolScope, plan: Plan & { kind: 'run' }): Plan {
  const { name } = plan.found.spec;
  const found = scope.find(name);
  if (found === plan.found) return plan;
  return {
    kind: 'refuse',
    result:
      found === undefined
        ? unknownTool(scope, name)
        : results.refusal(
            'UNKNOWN_TOOL',
            `The tool \`${name}\` was replaced while its call was checked. Call it again.`,
          ),
  };
}

function unknownTool(scope: ToolScope, name: string): ToolResult {
  const names = scope.view().map((tool) => tool.name);
  const shown = names.slice(0, SHOWN_NAMES).join(', ');
  const more = names.length > SHOWN_NAMES ? ', …' : '';
  const known = names.length === 0 ? 'There are no tools.' : `The tools are: ${shown}${more}.`;
  return results.refusal('UNKNOWN_TOOL', `There is no tool named \`${name}\`. ${known}`);
}

function problemsOf(found: FoundTool, args: Json): readonly string[] {
  try {
    return found.checkArguments(args);
  } catch {
    // The stack of a schema that refers to itself, with arguments too deep for it.
    return ['they are nested too deeply'];
  }
}

function mayOverlap(found: FoundTool, args: JsonObject, request: ToolCallRequest): boolean {
  if (found.kind === 'module') return request.concurrencySafe === true;
  try {
    const answer: unknown = found.tool.isConcurrencySafe?.(args);
    return !isPromiseLetGo(answer) && answer === true;
  } catch {
    // A classifier that cannot tell: the call runs alone.
    return false;
  }
}
