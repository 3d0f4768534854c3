import { textOf } from '../../protocol/content.ts';
import type { ContentBlock, MessageSource, UserMessage } from '../../protocol/content.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import { createUserMessage } from '../agent/agent.ts';
import type { Agent, AgentOptions } from '../agent/agent.ts';
import type { ChildScope } from '../agent/create-options.ts';
import { readOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import { delegationContext } from '../prompt/delegation.ts';
import { personaSection } from '../prompt/persona.ts';
import type { ToolRestriction } from './provider.ts';

/** What a child's header says of where it comes from. */
export function childMeta(
  parent: Agent,
  depth: number,
): Pick<SessionHeader, 'cwd' | 'parentSession' | 'origin' | 'delegationDepth'> {
  const { cwd, id } = parent.session.header;
  return {
    ...(cwd === undefined ? {} : { cwd }),
    parentSession: id,
    origin: 'subagent',
    delegationDepth: depth,
  };
}

/** What a child may be asked with; how deep it is, nobody chooses. */
const OVERRIDES = {
  provider: 'text',
  model: 'text',
  maxTokens: 'any',
} as const satisfies Record<keyof Omit<AgentOptions, 'subagentDepth'>, OptionKind>;

/** The parent's route, then what was asked for, then the depth; what nobody gave stays absent. */
export function childOptions(
  parent: Agent,
  overrides: AgentOptions | undefined,
  depth: number,
): AgentOptions {
  const { provider, model, maxTokens } = parent.options;
  const merged: Record<string, unknown> = { provider, model, maxTokens };
  const asked = readOptions('agentOptions', overrides ?? {}, OVERRIDES);
  for (const [key, value] of Object.entries(asked)) {
    if (value !== undefined) merged[key] = value;
  }
  const given = Object.entries(merged).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(given), subagentDepth: depth };
}

/**
 * What a child is to be told.
 * @throws {ArgumentError} for content that is no list of blocks, or that no model could read
 */
export function readableMessage(
  content: readonly ContentBlock[] | string,
  source: MessageSource = { kind: 'user' },
): UserMessage {
  const message = createUserMessage(content, source);
  if (textOf(message.content).trim() !== '') return message;
  throw new ArgumentError('Cannot tell a child this: it has no text that a model could read.');
}

/**
 * Tell a child under construction that it works for another agent; then give it its persona and
 * its tool filter. The first is runtime context: a system prompt is what the deployment wrote.
 */
export function composeChild(
  child: Pick<ChildScope, 'prompt' | 'tools'>,
  request: { readonly persona?: string; readonly toolFilter?: ToolRestriction },
): void {
  const { persona, toolFilter } = request;
  child.prompt.context(delegationContext);
  // An empty persona is one: it hides the deployment's.
  if (persona !== undefined) child.prompt.section(personaSection(persona));
  if (toolFilter !== undefined) child.tools.restrict(toolFilter);
}
