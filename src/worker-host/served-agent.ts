import type { UserMessage } from '../../protocol/content.ts';
import type { ToolSpec } from '../../protocol/tool.ts';
import type { Agent, AgentOptions } from '../agent/agent.ts';
import type { AgentHookChains } from '../agent/hooks.ts';
import type { ModelRoute } from '../models/routes.ts';
import type { AssembledPrompt } from '../prompt/prompt.ts';
import type { Session } from '../session/session.ts';
import type { Conversation } from './conversation.ts';
import type { OpenTurn } from './open-turn.ts';
import type { TurnMeter } from './turn-meter.ts';

/** What the services need of their agent; all of it decided on main. */
export interface ServedAgent {
  readonly id: string;
  /** As hooks see it. */
  readonly agent: Agent;
  readonly session: Session;
  readonly options: AgentOptions;
  readonly route: ModelRoute | undefined;
  readonly hooks: AgentHookChains;
  readonly conversation: Conversation;
  /** What its open turn has used. */
  readonly meter: TurnMeter;
  /** Resolves when every message accepted so far is committed or withdrawn. */
  accepted(): Promise<void>;
  /**
   * Decide, in this tick, whether a turn opens; if not, the agent is idle from this line on, or
   * what may open one is not committed yet, and its commit wakes the thread again.
   */
  takeTurn(): { turn: OpenTurn; messages: readonly UserMessage[] } | undefined;
  /** What joins the open turn at its next step. */
  takeStep(turn: OpenTurn): readonly UserMessage[];
  /** Hooks are asked about its turn, until the returned function is called. */
  asking(): () => void;
  /** Prompt and tools for the next step. */
  compose(turn: OpenTurn): Promise<{ prompt: AssembledPrompt; tools: readonly ToolSpec[] }>;
}
