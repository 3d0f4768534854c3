/**
 * The tools with which an agent deals with subagents that go on. They add no routing and no
 * authority: each calls the service as the calling agent, and nothing in their arguments says who
 * that is.
 */
import type { ContentBlock } from '../../protocol/content.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ToolDefinition } from '../../protocol/tool.ts';
import type { Agent } from '../agent/agent.ts';
import type { Agents } from '../agent/agents.ts';
import type { SubagentDescendantListEntry, SubagentListEntry } from '../subagents/listing.ts';
import type { SubagentRuntime } from '../subagents/runtime.ts';
import { INTERRUPT_ADVICE, SEND_ADVICE, withAdvice } from './failures.ts';

/** What of a harness the control tools need; a harness is one. */
export interface ControlServices {
  readonly subagents: Pick<
    SubagentRuntime,
    'followup' | 'interrupt' | 'listChildren' | 'listDescendants'
  >;
  /** The live agents. */
  readonly agents: Pick<Agents, 'get'>;
}

/** `send_message`, `interrupt_agent` and `list_agents`. */
export const controlTools = (services: ControlServices): readonly ToolDefinition<Agent>[] => [
  sendMessage(services),
  interruptAgent(services),
  listAgents(services),
];

const sendMessage = ({ subagents }: ControlServices): ToolDefinition<Agent> => ({
  name: 'send_message',
  description:
    'Send a message to a subagent that you started: more work, an answer, a correction. It reads ' +
    'it in a turn of its own after what it does now, in the order sent, and remembers its ' +
    'conversation; one that has finished is brought back for it. Returns when the message is ' +
    'queued, not when it is answered: you get a message when the subagent has finished again. If ' +
    'this fails, the message was not delivered.',
  parameters: {
    type: 'object',
    properties: {
      subagent_id: {
        type: 'string',
        description: 'Its id, from the call that started it, a notice or `list_agents`.',
      },
      message: { type: 'string', description: 'What to tell it.' },
    },
    required: ['subagent_id', 'message'],
    additionalProperties: false,
  },
  output: {
    schema: {
      type: 'object',
      properties: { messageId: { type: 'string' } },
      required: ['messageId'],
    },
    render: ({ subagent_id: id }) =>
      said(
        `Message queued for subagent ${String(id)} as its next turn. You will get a message when ` +
          'it has finished.',
      ),
  },
  isConcurrencySafe: () => false,
  async execute(args, { agent, signal }) {
    const caller = callerOf(agent);
    const { subagent_id: id, message } = args as { subagent_id: string; message: string };
    const source = { kind: 'coordinator', form: 'relay', senderSessionId: caller.id } as const;
    try {
      const { messageId } = await subagents.followup(caller, SessionId(id), message, {
        source,
        signal,
      });
      return { messageId };
    } catch (error) {
      throw withAdvice(error, 'The message was not delivered.', SEND_ADVICE);
    }
  },
});

const interruptAgent = ({ subagents }: ControlServices): ToolDefinition<Agent> => ({
  name: 'interrupt_agent',
  description:
    'Stop what an agent below you is doing now: a subagent of yours, or one further down. Returns ' +
    'at once; the agent stops as soon as it can. It is not ended: what is queued for it, its own ' +
    'subagents and its conversation stay, and its parent can send it a message later. Nothing ' +
    'happens to an agent that is doing nothing.',
  parameters: {
    type: 'object',
    properties: {
      agent_id: { type: 'string', description: 'Its id, from `list_agents` for example.' },
    },
    required: ['agent_id'],
    additionalProperties: false,
  },
  output: {
    schema: {
      type: 'object',
      properties: { accepted: { const: true } },
      required: ['accepted'],
    },
    render: ({ agent_id: id }) =>
      said(`Agent ${String(id)} was told to stop, if it is doing anything.`),
  },
  isConcurrencySafe: () => true,
  execute(args, { agent }) {
    const caller = callerOf(agent);
    const { agent_id: id } = args as { agent_id: string };
    try {
      subagents.interrupt(SessionId(id), { kind: 'ancestor', agent: caller });
    } catch (error) {
      throw withAdvice(error, 'Nobody was interrupted.', INTERRUPT_ADVICE);
    }
    return { accepted: true };
  },
});

const listAgents = ({ subagents, agents }: ControlServices): ToolDefinition<Agent> => ({
  name: 'list_agents',
  description:
    'List the subagents that go on: yours, or with scope "descendants" all below you. You are told ' +
    'by a message when a subagent finishes, so do not call this to wait for one; call it when you ' +
    'have lost an id, or to see whom you can still write to. Status: `running` works now; `idle` ' +
    'is between two turns, and may wait for agents of its own; `ready` has finished and can be ' +
    'brought back at any time, so it is not gone. You can `send_message` only to agents at depth ' +
    '1, those you started; deeper ones can only be stopped, with `interrupt_agent`.',
  parameters: {
    type: 'object',
    properties: {
      scope: {
        enum: ['children', 'descendants'],
        description: 'Default: children, the subagents you started yourself.',
      },
    },
    additionalProperties: false,
  },
  output: {
    schema: {
      type: 'object',
      properties: { agents: { type: 'array' } },
      required: ['agents'],
    },
    render: (_args, value) =>
      said((value as unknown as { agents: readonly Row[] }).agents.map(lineOf).join('\n') || NONE),
  },
  isConcurrencySafe: () => true,
  async execute(args, { agent, signal }) {
    const caller = callerOf(agent);
    const { scope = 'children' } = args as { scope?: 'children' | 'descendants' };
    try {
      const entries =
        scope === 'descendants'
          ? await subagents.listDescendants(caller.id, signal)
          : await subagents.listChildren(caller.id, signal);
      const rows = entries.flatMap((entry) => rowOf(entry, agents) ?? []);
      return { agents: rows } as unknown as JsonObject;
    } catch (error) {
      throw withAdvice(error, 'The agents could not be listed.', {});
    }
  },
});

/** One line of the list. */
interface Row {
  readonly id: string;
  /** Of a session that does not tell who it is: why. */
  readonly diagnostic?: string;
  readonly status?: 'running' | 'idle' | 'ready';
  readonly label?: string;
  readonly parentId?: string;
  readonly depth?: number;
}

const NONE = '(no subagents)';

/** Those that are gone with their one answer are left out; what is below them is not. */
function rowOf(
  entry: SubagentListEntry | SubagentDescendantListEntry,
  agents: ControlServices['agents'],
): Row | undefined {
  const { id } = entry;
  const place = 'depth' in entry ? { parentId: entry.parentId, depth: entry.depth } : {};
  if (entry.kind === 'diagnostic') return { id, diagnostic: entry.reason, ...place };
  if (entry.mode === 'one-shot') return undefined;
  const live = agents.get(id);
  const status = live === undefined ? 'ready' : live.status === 'running' ? 'running' : 'idle';
  return { id, status, label: entry.label, ...place };
}

function lineOf({ id, diagnostic, status, label = '', parentId, depth }: Row): string {
  const place = depth === undefined ? '' : ` parent=${parentId} depth=${depth}`;
  if (diagnostic !== undefined) return `${id} [diagnostic: ${diagnostic}]${place}`;
  // One line each: a label is whatever a model wrote.
  return `${id} [${status}]${place} — ${label.trim().replace(/\s+/gu, ' ')}`;
}

function callerOf(agent: Agent | undefined): Agent {
  if (agent !== undefined) return agent;
  throw new ArgumentError('Only an agent can call this.');
}

const said = (text: string): readonly ContentBlock[] => [{ type: 'text', text }];
