import { threadQueue } from '../harness.ts';
import type { Board } from './board.ts';

/** What is now, and what was counted since somebody first asked this harness from outside. */
export function metricsOf({ harness, counts }: Board): Readonly<Record<string, number>> {
  const agents = harness.agents.list();
  const running = agents.filter(({ status }) => status === 'running').length;
  const { threads } = harness.health();
  return {
    agents: agents.length,
    agents_running: running,
    agents_queued: threadQueue(harness).size,
    sessions_live: harness.sessions.list().length,
    turns_total: counts.turns,
    turns_not_completed_total: counts.failedTurns,
    tool_calls_total: counts.toolCalls,
    delegations_total: counts.delegations,
    input_tokens_total: counts.inputTokens,
    output_tokens_total: counts.outputTokens,
    threads: threads.live,
    threads_stuck: threads.stuck,
    threads_most: threads.most,
    resident_bytes: process.memoryUsage.rss(),
    uptime_seconds: Math.round(process.uptime()),
  };
}
