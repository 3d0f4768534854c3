/**
 * The structured result of one child: a tool of that child alone takes the value, and the log
 * decides whether it counts. Everything here is on main; the child's thread only names the tool.
 */
import type { CallId } from '../../protocol/ids.ts';
import { deepFreeze, losslessCopy } from '../../protocol/json.ts';
import type { Json } from '../../protocol/json.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import type { ToolDefinition } from '../../protocol/tool.ts';
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

/** A value that was handed in, and the call whose result in the log decides about it. */
interface Stage {
  readonly value: Json;
  readonly callId: CallId;
  readonly session: Agent['session'];
  /** Length of the log when the body ran: an earlier result of the same id is another call's. */
  readonly since: number;
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
 * Two phases: the body only stages the value, and it counts when the result of that very call
 * stands in the log as a success. A call that is blocked after its body has run leaves nothing.
 */
export function installStructuredOutput(
  child: ChildScope,
  schema: ObjectJsonSchema,
): StructuredCapture {
  let stage: Stage | undefined;
  let captured: { readonly value: Json } | undefined;
  const settle = (): void => {
    const succeeded = stage && resultOf(stage);
    if (stage === undefined || succeeded === undefined) return;
    if (succeeded) captured = { value: stage.value };
    stage = undefined;
  };

  const tool: ToolDefinition<Agent> = {
    name: STRUCTURED_OUTPUT_TOOL,
    description: 'Hand in your final result. The arguments are the result.',
    parameters: schema,
    execute(args, context) {
      const { session } = context.agent;
      stage = {
        value: deepFreeze(losslessCopy(args)),
        callId: context.callId,
        session,
        since: session.seq,
      };
      context.concludeTurn();
      return { recorded: true };
    },
  };
  child.onDispose(child.tools.register(tool));
  child.onDispose(
    child.tools.guard(() => {
      settle();
      // Nothing can be staged here: no call overlaps the tool's own, and its result is logged
      // before the next one starts.
      if (captured === undefined) return undefined;
      return 'The result was already handed in; no tool may be called after it.';
    }),
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
      settle();
      return captured;
    },
  };
}

/** Whether the staged call succeeded; `undefined` while the log does not say. */
function resultOf({ session, callId, since }: Stage): boolean | undefined {
  for (const event of session.events.slice(since)) {
    if (event.type !== 'tool/result' || event.data.message.source.callId !== callId) continue;
    return event.data.message.content.every(
      (block) => block.type !== 'tool-result' || block.isError !== true,
    );
  }
  return undefined;
}
