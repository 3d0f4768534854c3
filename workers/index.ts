/** For authors of tools and models that are given as modules. */
import type { ModelAdapter } from '../protocol/model.ts';

export { defineTool } from '../protocol/tool.ts';
export type {
  ToolAgent,
  ToolContext,
  ToolDefinition,
  ToolOutput,
  ToolSpec,
} from '../protocol/tool.ts';
export type { ContentBlock, Message, Usage, UserMessage } from '../protocol/content.ts';
export type { Json, JsonObject } from '../protocol/json.ts';
export type {
  Failure,
  FinishReason,
  ModelAdapter,
  ModelPart,
  ModelRequest,
  RetryPolicy,
} from '../protocol/model.ts';

/** Identity, for inference: `defineModel({ … })` is the object it was given. */
export function defineModel<M extends ModelAdapter>(model: M): M {
  return model;
}
