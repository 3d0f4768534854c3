import type { CallId, MessageId, SessionId } from './ids.ts';
import type { Json } from './json.ts';

/** What a model reads and writes. Open for new kinds: readers skip what they do not know. */
export type ContentBlock = TextBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock;

/** Text. */
export interface TextBlock {
  readonly type: 'text';
  readonly text: string;
}
/** What a model thought aloud. */
export interface ReasoningBlock {
  readonly type: 'reasoning';
  readonly text: string;
}
/** `arguments` is the model's raw text: it may be empty, and it may be no JSON at all. */
export interface ToolCallBlock {
  readonly type: 'tool-call';
  readonly id: CallId;
  readonly name: string;
  readonly arguments: string;
}
/** What a call came to, as the model reads it. */
export interface ToolResultBlock {
  readonly type: 'tool-result';
  readonly toolCallId: CallId;
  readonly content: readonly ContentBlock[];
  readonly isError?: boolean;
}

/** Who produced a message. Attribution only: no source grants anything. */
export type MessageSource =
  | { readonly kind: 'user' }
  | {
      readonly kind: 'plugin';
      readonly plugin: string;
      readonly form?: string;
      /** Of a `snapshot`: what it tells, part by part. */
      readonly sections?: readonly { readonly name: string; readonly text: string }[];
    }
  | {
      readonly kind: 'model';
      readonly provider: string;
      readonly model: string;
      /** Opaque to us; given back only to the provider that made it. */
      readonly replayState?: Json;
    }
  | { readonly kind: 'tool'; readonly callId: CallId }
  | CoordinatorMessageSource
  | SubagentReportMessageSource
  | SubagentSettledMessageSource
  | JobSettledMessageSource;

/** A follow-up that one agent's tool call sent to one of its children. */
export interface CoordinatorMessageSource {
  readonly kind: 'coordinator';
  readonly form: 'relay';
  readonly senderSessionId: SessionId;
}
/** Content that a continuable child chose to send to its parent. */
export interface SubagentReportMessageSource {
  readonly kind: 'subagent-report';
  readonly form: 'relay';
  readonly senderSessionId: SessionId;
}
/** The runtime's own account of a child that settled. */
export interface SubagentSettledMessageSource {
  readonly kind: 'subagent-settled';
  readonly form: 'notice';
  /** What happened, for people: at most 120 UTF-16 units, without the child's id. */
  readonly summary: string;
  readonly senderSessionId: SessionId;
  /** The child's last turn: tells the ends of one child apart. */
  readonly turn: number;
  /** Of this residency, as `subagent/end` tells it. Absent in logs of before it was written. */
  readonly stopReason?: string;
  /** How many messages waited for the child by then. Absent in logs of before it was written. */
  readonly waiting?: number;
}
/** The runtime's own account of a job that ended. */
export interface JobSettledMessageSource {
  readonly kind: 'job-settled';
  readonly form: 'notice';
  /** What happened, for people: at most 120 UTF-16 units, without the job's id. */
  readonly summary: string;
  readonly jobId: string;
}

/** What the runtime says by itself: nobody chose to send it. */
export const isNotice = ({ kind }: MessageSource): boolean =>
  kind === 'subagent-settled' || kind === 'job-settled';

interface MessageOf<Role extends string> {
  readonly id: MessageId;
  readonly role: Role;
  readonly content: readonly ContentBlock[];
  readonly source: MessageSource;
}
/**
 * A message for an agent: `{ id, role: 'user', content, source }`. `createUserMessage` makes one.
 */
export type UserMessage = MessageOf<'user'>;
/** What a model said: `{ id, role: 'assistant', content, source }`. */
export type AssistantMessage = MessageOf<'assistant'>;
/** Holds exactly one `tool-result` block, whose `toolCallId` is the source's `callId`. */
export type ToolResultMessage = MessageOf<'user'> & {
  readonly source: { readonly kind: 'tool'; readonly callId: CallId };
};
/** One message of a history. Its `role` says whose. */
export type Message = UserMessage | AssistantMessage;

/** Token counts of one request. The counts are disjoint. */
export interface Usage {
  /** Input tokens that no cache served. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
  readonly reasoningTokens?: number;
}

/** The concatenated text blocks of some content; other kinds are left out. */
export function textOf(content: readonly ContentBlock[]): string {
  return content.map((block) => (block.type === 'text' ? block.text : '')).join('');
}
