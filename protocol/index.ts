/** Types that cross the wall, for embedders and authors of providers, models and tools. */
export { CallId, MessageId, RunId, SessionId, StreamId } from './ids.ts';
export type { Json, JsonObject } from './json.ts';
export type {
  AssistantMessage,
  ContentBlock,
  CoordinatorMessageSource,
  Message,
  MessageSource,
  ReasoningBlock,
  JobSettledMessageSource,
  SubagentReportMessageSource,
  SubagentSettledMessageSource,
  TextBlock,
  ToolCallBlock,
  ToolResultBlock,
  ToolResultMessage,
  Usage,
  UserMessage,
} from './content.ts';
export type { ErrorRecord, Outcome } from './error-record.ts';
export type { ErrorCode } from './errors.ts';
export type {
  Failure,
  FinishReason,
  ModelAdapter,
  ModelPart,
  ModelRequest,
  RetryPolicy,
} from './model.ts';
export type {
  CancelCause,
  InboxTarget,
  ObjectJsonSchema,
  RequestHeader,
  SessionEvent,
  SessionEventMap,
  SessionEventOf,
  SessionEventType,
  SessionHeader,
  SubagentDescriptor,
  TurnEndReason,
} from './session-events.ts';
export type { HostServices } from './host-services.ts';
export type { ToMain, ToMainMap, WorkerEvent, WorkerEventMap } from './to-main.ts';
export type { ToWorker, ToWorkerMap } from './to-worker.ts';
export type { ToolAgent, ToolContext, ToolDefinition, ToolModule, ToolSpec } from './tool.ts';
export type { WorkerInit } from './worker-init.ts';
