/** Plain strings at run time; the brand only keeps one kind from being passed for another. */
type Brand<Name extends string> = string & { readonly __brand: Name };

/** Names a session and, at the same time, the agent whose conversation it is. */
export type SessionId = Brand<'SessionId'>;
/** Names one message. Minted by whoever creates the message. */
export type MessageId = Brand<'MessageId'>;
/** Names one tool call within a session; chosen by the model. */
export type CallId = Brand<'CallId'>;
/** Names one published delegation, for pairing `subagent/start` with `subagent/end`. */
export type RunId = Brand<'RunId'>;
/** Names one model stream of one agent. */
export type StreamId = Brand<'StreamId'>;

/** A text as an id, as it is: nothing is checked. */
export const SessionId = (value: string): SessionId => value as SessionId;
/** A text as an id, as it is: nothing is checked. */
export const MessageId = (value: string): MessageId => value as MessageId;
/** A text as an id, as it is: nothing is checked. */
export const CallId = (value: string): CallId => value as CallId;
/** A text as an id, as it is: nothing is checked. */
export const RunId = (value: string): RunId => value as RunId;
/** A text as an id, as it is: nothing is checked. */
export const StreamId = (value: string): StreamId => value as StreamId;
