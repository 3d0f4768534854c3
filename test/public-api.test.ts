/** What users can reach, spelled out: a change here is a change for them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseFile, root } from './support/imports.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const manifest = JSON.parse(read('package.json')) as Record<string, unknown>;

const words = (text: string): readonly string[] => text.trim().split(/\s+/).sort();

/** Entries by their source: what exists at run time, and the types beside it. */
const entries: readonly {
  readonly name: string;
  readonly source: string;
  readonly values: readonly string[];
  readonly types: readonly string[];
}[] = [
  {
    name: '.',
    source: 'src/index.ts',
    values: words(`
      ArgumentError CallId HarnessError JsonSchemaError LimitError MemoryStore MessageId
      NO_START_CAPABILITIES ProjectionError ProtocolError RunId Scope SessionId StoreError SubagentDepthError SubagentError
      ToolFilterError WorkerError boundDiagnostic createHarness createUserMessage defineTool
      checkStore connectControl finalOutput fork localControl observeRuntime openControlSocket openSqliteStore openaiCompatible serveHttp serveStdio settleRun spawn subagentTool textOf
      controlTools installSubagentTools jobTools reportSetup`),
    types: words(`
      ConnectOptions ControlClient ControlSocket HttpOptions HttpServer StdioOptions StdioServer NotificationMap NotificationName OperationFailure OperationMap OperationName
      OperationParams OperationResult RowDiagnostic RowFailure RowListing RowStatus RuntimeEvent
      SessionRow SessionStatus SessionSummary TreeUpdate WaitingOn
      AiSdkModel AiSdkProvider LifecycleEvents ProviderEvents SessionOutline SqliteStoreOptions SubagentRunEndInfo SubagentRunInfo SubagentStopReasonMap
      Agent AgentEvents AgentFailure AgentHandle AgentHookChains AgentHooks AgentLimits AgentMeta
      AgentOptions AgentStatus Agents AssistantMessage CancelCause Checkpoint ChildScope ContentBlock
      ContinuableCreateRequest ContinuableCreateSpec ContinuableStart ContinuableStartSpec
      CreateAgentOptions CreateHostOptions DamagedSession Durability ErrorCode ExportedSessions Failure FollowOptions Following Harness HarnessEvents ImportOptions ReadProjections RemoveOptions StoreFinding
      Bound RestartIntensity Activity AgentHealth Health LoopHealth MemoryHealth StuckThread ThreadsHealth ThreadEvents ThreadWarning
      HarnessHooks HarnessLimits HarnessOptions Hook HookOptions HostHandle HostTool InboxView
      Json JsonObject ListenOptions Logger Message MessageSource ModelAdapter ModelModule
      ModelPart ModelRequest ModelRoutes ModelSource ObjectJsonSchema OnMessage
      OpenAiCompatibleOptions Ownership PackedSession ProjectionChange ProjectionSnapshot ProjectionUnit PromptContext PromptRegistry PromptScope PromptSection
      PromptVariable ProviderFactory ProviderServices ReportDelivery ReportOptions RequestConfig
      ResolvedSubagentStartRequest ResumeAgentOptions RetryPolicy RunOutcome RuntimeContext Session SessionEvent SessionEventMap
      SessionEventOf SessionEventType SessionHeader SessionObservations SessionPersistence
      SessionProjections Sessions SetupContribution StoreAppend StoredSession SubagentCapabilities SubagentDescriptor
      SubagentDescendantListEntry SubagentErrorCode SubagentEvents SubagentFollowupOptions SubagentIdentity SubagentInterruptAuthority SubagentListEntry SubagentProvider SubagentResult SubagentRun
      SubagentRuntime SubagentStartRequest SubagentStopReason SubagentTiming SubagentToolConfig ToolAgent
      ControlServices Delegation JobOutputOptions JobStart JobStatus JobView Jobs SubagentToolServices SubagentToolsOptions
      ToolContext ToolDefinition ToolFilter ToolGuard ToolHooks ToolModule ToolOutput
      ToolRegistry ToolRestriction ToolResultMessage ToolResultView ToolScope ToolSpec
      TurnEndReason Usage UserMessage`),
  },
  {
    name: './testing',
    source: 'src/testing.ts',
    values: words('gate scriptedModel watchInvariants'),
    types: words(`
      Gate InvariantWatch LifecycleViolation Script ScriptedAnswer ScriptedCall ScriptedFunction
      ScriptedModel ScriptedStep ScriptedText ScriptedToolCall`),
  },
  {
    name: './worker',
    source: 'workers/index.ts',
    values: words('defineModel defineTool'),
    types: words(`
      ContentBlock Failure FinishReason Json JsonObject Message ModelAdapter ModelPart
      ModelRequest RetryPolicy ToolAgent ToolContext ToolDefinition ToolOutput ToolSpec Usage
      UserMessage`),
  },
  {
    name: './protocol',
    source: 'protocol/index.ts',
    values: words(`
      CallId MessageId RunId SessionId StreamId`),
    types: words(`
      AssistantMessage CancelCause ContentBlock CoordinatorMessageSource ErrorCode ErrorRecord
      Failure FinishReason HostServices InboxTarget Json JobSettledMessageSource JsonObject Message MessageSource
      ModelAdapter ModelPart ModelRequest ObjectJsonSchema Outcome ReasoningBlock RequestHeader
      RetryPolicy SessionEvent SessionEventMap SessionEventOf SessionEventType SessionHeader
      SubagentDescriptor SubagentReportMessageSource SubagentSettledMessageSource TextBlock ToMain
      ToMainMap ToWorker ToWorkerMap ToolAgent ToolCallBlock ToolContext ToolDefinition ToolModule
      ToolResultBlock ToolResultMessage ToolSpec TurnEndReason Usage UserMessage WorkerEvent
      WorkerEventMap WorkerInit`),
  },
];

it('reaches users by these doors and no others', () => {
  const built = (folder: string, file: string): object => ({
    types: `./dist/${folder}/${file}.d.ts`,
    default: `./dist/${folder}/${file}.js`,
  });
  expect(manifest['exports']).toEqual({
    '.': built('src', 'index'),
    './worker': built('workers', 'index'),
    // A file to name in `workers.entry`, not to import.
    './agent-worker': {
      types: './dist/agent-worker.d.cts',
      default: './dist/agent-worker.cjs',
    },
    './protocol': built('protocol', 'index'),
    './testing': built('src', 'testing'),
    './package.json': './package.json',
  });
  expect(manifest['bin']).toEqual({ subagents: './dist/src/cli/main.js' });
  expect(manifest['type']).toBe('module');
  expect(manifest['engines']).toEqual({ node: '>=20.19' });
});

it('ships what was built and how to use it, and neither tests nor benches', () => {
  expect(manifest['files']).toEqual([
    'dist',
    'docs',
    '!dist/**/*.tsbuildinfo',
    '!dist/test',
    '!dist/bench',
    '!dist/src/examples',
  ]);
});

describe.each(entries)('the entry $name', ({ source, values, types }) => {
  it('has these values', async () => {
    const entry = (await import(join(root, source))) as object;
    expect(Object.keys(entry).sort()).toEqual(values);
  });

  it('has these types', () => {
    const { exports } = parseFile(source, read(source));
    expect(exports.filter((name) => !values.includes(name)).sort()).toEqual(types);
  });
});

it('is set up with two commands, which are scripts of the package', () => {
  const commands = read('README.md').match(/^npm install .*?(?= *#|$)/gm) ?? [];
  expect(commands.map((command) => command.trim())).toEqual([
    'npm install && npm run demo',
    'npm install && npm test',
  ]);
  expect(manifest['scripts']).toMatchObject({
    demo: expect.any(String) as string,
    test: expect.any(String) as string,
    check: expect.any(String) as string,
    bench: expect.any(String) as string,
  });
});
