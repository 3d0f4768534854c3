/** The public API. */
export { createHarness } from './harness.ts';
export type { Harness, HarnessEvents, ListenOptions } from './harness.ts';
export type { HarnessOptions } from './harness-options.ts';
export type {
  Activity,
  AgentHealth,
  Health,
  LoopHealth,
  MemoryHealth,
  ThreadsHealth,
} from './worker-host/health.ts';
export type { StuckThread, ThreadEvents, ThreadWarning } from './worker-host/supervision.ts';
export type { Bound } from './base/limit-values.ts';
export type { HarnessLimits, RestartIntensity } from './worker-host/limits.ts';

export { observeRuntime } from './serve/runtime-events.ts';
export type { RuntimeEvent } from './serve/runtime-events.ts';
export type { RowFailure, RowStatus, SessionStatus, WaitingOn } from './serve/session-status.ts';
export type { ControlClient, TreeUpdate } from './serve/control-client.ts';
export { connectControl, localControl } from './serve/connect-control.ts';
export type { ConnectOptions } from './serve/connect-control.ts';
export { serveHttp } from './serve/http.ts';
export type { HttpOptions, HttpServer } from './serve/http.ts';
export { serveStdio } from './serve/stdio.ts';
export type { StdioOptions, StdioServer } from './serve/stdio.ts';
export { openControlSocket } from './serve/control-socket.ts';
export type { ControlSocket } from './serve/control-socket.ts';
export type {
  NotificationMap,
  NotificationName,
  OperationFailure,
  OperationMap,
  OperationName,
  OperationParams,
  OperationResult,
  RowDiagnostic,
  RowListing,
  SessionRow,
} from './serve/operation-map.ts';

export { createUserMessage } from './agent/agent.ts';
export type {
  Agent,
  AgentEvents,
  AgentFailure,
  AgentHandle,
  AgentOptions,
  AgentStatus,
  InboxView,
} from './agent/agent.ts';
export type { AgentLimits } from './agent/agent-host.ts';
export type { Agents } from './agent/agents.ts';
export type {
  AgentMeta,
  ChildScope,
  CreateAgentOptions,
  CreateHostOptions,
  ResumeAgentOptions,
} from './agent/create-options.ts';
export type { HostHandle, OnMessage } from './agent/host-agent.ts';
export type { AgentHookChains, AgentHooks, HarnessHooks, RequestConfig } from './agent/hooks.ts';
export type { Hook, HookOptions } from './base/hooks.ts';
export { Scope } from './base/scope.ts';
export type { Ownership } from './base/scope.ts';
export type { Logger } from './base/logger.ts';

export { openaiCompatible } from './models/openai-compatible.ts';
export type { OpenAiCompatibleOptions } from './models/openai-compatible.ts';
export type { ModelModule, ModelRoutes, ModelSource } from './models/routes.ts';

export type { AiSdkModel, AiSdkProvider } from '../protocol/ai-sdk.ts';

export { defineTool } from '../protocol/tool.ts';
export type {
  ToolAgent,
  ToolContext,
  ToolDefinition,
  ToolModule,
  ToolOutput,
  ToolSpec,
} from '../protocol/tool.ts';
export type { ToolHooks, ToolResultView } from './tools/hooks.ts';
export type { HostTool, ToolFilter, ToolGuard, ToolRegistry, ToolScope } from './tools/registry.ts';
export type {
  PromptContext,
  PromptRegistry,
  PromptScope,
  PromptSection,
  PromptVariable,
  RuntimeContext,
} from './prompt/prompt.ts';

export { NO_START_CAPABILITIES } from './subagents/provider.ts';
export { boundDiagnostic } from './subagents/diagnostic.ts';
export { settleRun } from './subagents/settle-run.ts';
export type { RunOutcome } from './subagents/settle-run.ts';
export { finalOutput } from './session/output.ts';
export { fork } from './providers/worker-fork.ts';
export { spawn } from './providers/worker-spawn.ts';
export type { ContinuableStart, ContinuableStartSpec } from './subagents/continuable.ts';
export type { SubagentFollowupOptions } from './subagents/followup.ts';
export type { SubagentInterruptAuthority } from './subagents/interrupt.ts';
export type { SubagentDescendantListEntry, SubagentListEntry } from './subagents/listing.ts';
export type { ReportDelivery, ReportOptions } from './subagents/report.ts';
export type { SetupContribution } from './subagents/setup.ts';
export type { ProviderFactory, ProviderServices } from './subagents/provider-services.ts';
export type {
  ContinuableCreateRequest,
  ContinuableCreateSpec,
  ResolvedSubagentStartRequest,
  SubagentCapabilities,
  SubagentProvider,
  SubagentResult,
  SubagentRun,
  SubagentStartRequest,
  SubagentStopReason,
  SubagentStopReasonMap,
  ToolRestriction,
} from './subagents/provider.ts';
export type {
  LifecycleEvents,
  SubagentRunEndInfo,
  SubagentRunInfo,
} from './subagents/lifecycle.ts';
export type { ProviderEvents } from './subagents/registry.ts';
export type { SubagentEvents, SubagentRuntime } from './subagents/runtime.ts';
export type { SubagentIdentity } from './subagents/identity-projection.ts';
export type { SessionSummary } from './subagents/summary-projection.ts';
export type { SubagentTiming } from './subagents/timing-projection.ts';
export type { SubagentToolConfig } from './subagent-tools/config.ts';
export { controlTools } from './subagent-tools/control.ts';
export type { ControlServices } from './subagent-tools/control.ts';
export { installSubagentTools } from './subagent-tools/install.ts';
export type { SubagentToolServices, SubagentToolsOptions } from './subagent-tools/install.ts';
export { jobTools } from './subagent-tools/jobs.ts';
export { reportSetup } from './subagent-tools/report.ts';
export { subagentTool } from './subagent-tools/subagent.ts';
export type { Delegation } from './subagent-tools/subagent.ts';
export type { JobOutputOptions, Jobs, JobStart, JobStatus, JobView } from './jobs/jobs.ts';

export type { ProjectionSnapshot, ProjectionUnit } from './session/projections/projection.ts';
export type {
  ProjectionChange,
  ReadProjections,
  SessionProjections,
} from './session/projections/registry.ts';
export type { Session } from './session/session.ts';
export type { Durability } from './session/commit-queue.ts';
export type { SessionObservations, Sessions } from './session/sessions.ts';
export type {
  Checkpoint,
  DamagedSession,
  PackedSession,
  SessionOutline,
  SessionPersistence,
  StoreAppend,
  StoredSession,
} from './session/store.ts';
export { checkStore } from './session/doctor.ts';
export type { ExportedSessions } from './session/export-lines.ts';
export type { Following, FollowOptions } from './session/follow.ts';
export type { ImportOptions } from './session/import-lines.ts';
export type { StoreFinding } from './session/log-exam.ts';
export { MemoryStore } from './session/memory-store.ts';
export type { RemoveOptions } from './session/removal.ts';
export { openSqliteStore } from './session/sqlite-store.ts';
export type { SqliteStoreOptions } from './session/sqlite-store.ts';

export {
  ArgumentError,
  HarnessError,
  JsonSchemaError,
  LimitError,
  ProjectionError,
  ProtocolError,
  StoreError,
  SubagentDepthError,
  SubagentError,
  ToolFilterError,
  WorkerError,
} from '../protocol/errors.ts';
export type { ErrorCode, SubagentErrorCode } from '../protocol/errors.ts';
export { CallId, MessageId, RunId, SessionId } from '../protocol/ids.ts';
export type { Json, JsonObject } from '../protocol/json.ts';
export { textOf } from '../protocol/content.ts';
export type {
  AssistantMessage,
  ContentBlock,
  Message,
  MessageSource,
  ToolResultMessage,
  Usage,
  UserMessage,
} from '../protocol/content.ts';
export type {
  Failure,
  ModelAdapter,
  ModelPart,
  ModelRequest,
  RetryPolicy,
} from '../protocol/model.ts';
export type {
  CancelCause,
  ObjectJsonSchema,
  SessionEvent,
  SessionEventMap,
  SessionEventOf,
  SessionEventType,
  SessionHeader,
  SubagentDescriptor,
  TurnEndReason,
} from '../protocol/session-events.ts';
