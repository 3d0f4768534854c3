/**
 * The structured result of one child: a tool of that child alone takes the value, and what
 * becomes of its call decides whether it counts. Everything here is on main; the child's thread only names the tool.
 */
import { deepFreeze, losslessCopy } from '../../protocol/json.ts';
import type { Json } from '../../protocol/json.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import type { ToolContext, ToolDefinition } from '../../protocol/tool.ts';
import type { Agent } from '../agent/agent.ts';
import type { ChildScope } from '../agent/create-options.ts';

const STRUCTURED_OUTPUT_TOOL = 'structured_output';

/** Behind the deployment's sections. */
const INSTRUCTION_ORDER = 190;
const INSTRUCTION = [
  `When your work is done, hand in the result by calling the tool \`${STRUCTURED_OUTPUT_TOOL}\``,
  'with arguments that match its schema. Only that call counts as your answer: text outside of it',
  'is not read. The first call that succeeds ends your work, so make it the last thing you do.',
].join(' ');

/** A value that was handed in, and the one execution whose result decides about it. */
interface Stage {
  readonly value: Json;
  readonly context: ToolContext<Agent>;
}

/** What one child has handed in. */
export interface StructuredCapture {
  /** The value whose call has succeeded, for good. */
  readonly captured: { readonly value: Json } | undefined;
}

/**
 * Give a child under construction the capture tool, its instruction and the guard that ends all
 * tool use after the capture.
 *
 * Two phases: the body only stages the value, and it counts when the result of that very
 * execution stands in the log as a success. The context that the body was given names the
 * execution; ids of calls are the model's and may come again. A call that is blocked after its
 * body has run, or dropped with its thread, leaves nothing.
 */
export function installStructuredOutput(
  child: Pick<ChildScope, 'prompt' | 'tools' | 'onDispose'>,
  schema: ObjectJsonSchema,
): StructuredCapture {
  let stage: Stage | undefined;
  let captured: { readonly value: Json } | undefined;

  const tool: ToolDefinition<Agent> = {
    name: STRUCTURED_OUTPUT_TOOL,
    description: 'Hand in your final result. The arguments are the result.',
    parameters: schema,
    execute(args, context) {
      // Valid by the walk that enforces the subset, and free of -0 and NaN: what is staged is
      // what the model wrote. Defaults of the schema are annotations.
      stage = { value: deepFreeze(losslessCopy(args)), context };
      context.concludeTurn();
      return { recorded: true };
    },
  };
  child.onDispose(child.tools.register(tool));
  child.onDispose(
    child.tools.watch(({ context, result }) => {
      if (stage === undefined || context !== stage.context) return;
      if (result?.isError === false) captured = { value: stage.value };
      stage = undefined;
    }),
  );
  child.onDispose(
    child.tools.guard(() =>
      // While the stage is undecided as well: that call may yet be the last one.
      captured === undefined && stage === undefined
        ? undefined
        : 'The result was already handed in; no tool may be called after it.',
    ),
  );
  child.onDispose(
    child.prompt.section({
      name: `tool:${STRUCTURED_OUTPUT_TOOL}`,
      order: INSTRUCTION_ORDER,
      text: INSTRUCTION,
    }),
  );
  return {
    get captured() {
      return captured;
    },
  };
}
