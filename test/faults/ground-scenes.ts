/** How a fault is played: who is told what, when it is let loose, and who is told of its end. */
import { createUserMessage } from '../../src/index.ts';
import type { Agent, AgentHandle, SubagentRun } from '../../src/index.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { noticesOf, ofResult, rejection, toolResultsOf, turnEndsOf } from './ground-log.ts';
import type { TimedTold } from './ground-log.ts';
import { textOfBlocks, WELL } from './ground-stage.ts';
import type { Stage } from './ground-stage.ts';
import { kindOf } from './kinds.ts';
import { limitsOf, SLACK } from './limits.ts';
import { placeOf } from './moments.ts';
import type { Cell } from './moments.ts';
import { prompt } from './orders.ts';
import type { Order } from './orders.ts';

/** Longer than anything may take: what is not there by then never comes. */
const NEVER_MS = 20_000 * SLACK;

export interface Scene {
  /** The agent at fault, if it ever was one. */
  readonly id: SessionId | undefined;
  readonly told: readonly TimedTold[];
  readonly parents: readonly string[];
  /** What it says when it is told something harmless. */
  afterwards(): Promise<string>;
  /** What was held for it. */
  close(): Promise<void>;
}

const blocks = (text: string) => [{ type: 'text', text } as const];
export const agentOptions = (provider: string) => ({ provider, model: 'test' });

/** What the agent at fault is told. */
function orderOf({ kind, moment }: Cell): Order {
  const place = placeOf(moment);
  if (place === 'load' || place === 'factory') return {};
  const when =
    place === 'timer' ? 'go' : moment === 'cancel' || moment === 'dispose' ? 'abort' : 'now';
  return { fault: { kind, when } };
}

export class Scenes {
  readonly #stage: Stage;
  readonly #cell: Cell;
  /** Agents in the order in which they were made. */
  readonly #made: Agent[] = [];
  readonly #off: (() => void)[] = [];
  readonly #controller = new AbortController();

  constructor(stage: Stage, cell: Cell) {
    this.#stage = stage;
    this.#cell = cell;
    this.#off.push(stage.harness.on('agent/created', ({ agent }) => void this.#made.push(agent)));
  }

  async play(): Promise<Scene> {
    const { depth, moment, mode } = this.#cell;
    if (moment !== 'resume') this.#stage.arm();
    try {
      if (depth === 0) return await this.#root();
      if (depth > 1) return await (mode === 'one-shot' ? this.#deepRun() : this.#deepChild());
      return await (mode === 'one-shot' ? this.#run() : this.#child());
    } finally {
      for (const off of this.#off) off();
    }
  }

  #scene(scene: Partial<Scene> & Pick<Scene, 'told'>): Scene {
    return {
      id: undefined,
      parents: [],
      afterwards: () => this.#stage.healthy(),
      close: async () => {},
      ...scene,
    };
  }

  /** Tell it to stop when it waits to be, in the way its kind of agent is told. */
  async #stopWhenReady(stop: () => void): Promise<void> {
    const { moment } = this.#cell;
    if (moment !== 'cancel' && moment !== 'dispose') return;
    await this.#stage.until(() => this.#stage.cell('ready') > 0, NEVER_MS);
    if (moment === 'cancel') stop();
    else void this.#stage.harness.dispose();
  }

  async #root(): Promise<Scene> {
    const { harness } = this.#stage;
    const { moment } = this.#cell;
    let handle: AgentHandle;
    try {
      handle = await harness.agents.create({
        agentOptions: agentOptions(this.#stage.providerOf(this.#cell)),
        limits: limitsOf(kindOf(this.#cell.kind), placeOf(this.#cell.moment)),
      });
    } catch (error) {
      return this.#scene({ told: [rejection(error)] });
    }
    const { agent } = handle;
    const { session } = agent;
    const errors: TimedTold[] = [];
    this.#off.push(
      harness.on(
        'agent/error',
        ({ error: { code, message } }) => {
          const told = { codes: [code], text: `${code}: ${message}`, at: Date.now() };
          errors.push({ by: 'event', stopReason: 'error', ...told });
        },
        { agent },
      ),
    );
    const ask = async (): Promise<string> => {
      agent.followup(createUserMessage(WELL));
      const isIdle = (): boolean => agent.status === 'idle';
      if (!(await this.#stage.until(isIdle, NEVER_MS))) return 'it never answers';
      return lastSaid(agent);
    };
    const afterwards = async (): Promise<string> => {
      const said = await ask();
      // What comes after the end of a turn may come with the next one.
      return said !== WELL && kindOf(this.#cell.kind).mayFinish === true ? ask() : said;
    };
    const close = (): Promise<void> => handle.dispose();
    if (moment === 'notice') await this.#bearChild(agent, (text) => this.#tellRoot(agent, text));
    const from = session.seq;
    agent.followup(createUserMessage(prompt(orderOf(this.#cell))));
    await this.#stopWhenReady(() => agent.cancel({ kind: 'user' }));
    await this.#stage.until(() => agent.status === 'idle', NEVER_MS);
    const turns = turnEndsOf(session.events, from);
    if (placeOf(moment) !== 'timer') {
      return this.#scene({ id: agent.id, told: turns, afterwards, close });
    }
    await this.#stage.until(() => this.#stage.cell('ready') > 0, NEVER_MS);
    if (moment === 'notice') await this.#noticeAndFault(agent);
    else this.#stage.set('go', 1);
    await this.#stage.until(() => this.#stage.injected > 0, NEVER_MS);
    const told = await this.#afterTimer(agent, errors, from);
    return this.#scene({ id: agent.id, told, afterwards, close });
  }

  async #tellRoot(agent: Agent, text: string): Promise<void> {
    agent.followup(createUserMessage(text));
    await this.#stage.until(() => agent.status === 'idle', NEVER_MS);
  }

  /** Who is idle, or about to be told something, fails by an event, by a turn, or not at all. */
  async #afterTimer(agent: Agent, errors: TimedTold[], from: number): Promise<TimedTold[]> {
    // An end that nothing asks for may take its time; what comes next has to be answered.
    const failed = (): TimedTold[] => [
      ...errors,
      ...turnEndsOf(agent.session.events, from).filter(({ stopReason }) => stopReason === 'error'),
    ];
    await this.#stage.until(() => failed().length > 0, IDLE_END_MS);
    if (failed().length === 0) {
      agent.followup(createUserMessage('Are you there?'));
      await this.#stage.until(() => agent.status === 'idle', NEVER_MS);
      if (agent.status !== 'idle') return [];
    }
    // A turn that failed is told as an event, too: it is one word.
    const [first] = failed();
    return [first ?? turnEndsOf(agent.session.events, from).at(-1)].filter(
      (one) => one !== undefined,
    );
  }

  /** A child of its own, which waits to be let go. */
  async #bearChild(agent: Agent, tell: (text: string) => Promise<void>): Promise<void> {
    const waits = prompt({ call: { tool: 'wait', args: {} } });
    await tell(
      prompt({ call: { tool: 'pass_on', args: { description: 'waits', prompt: waits } } }),
    );
    await this.#stage.until(() => this.#stage.cell('waiting') > 0, NEVER_MS);
    void agent;
  }

  /** Let the child end; its parent is at fault in the tick in which the notice is accepted. */
  async #noticeAndFault(agent: Agent): Promise<void> {
    const off = this.#stage.harness.on(
      'agent/inbox/inserted',
      ({ message }) => {
        if (message.source.kind === 'subagent-settled') this.#stage.set('go', 1);
      },
      { agent },
    );
    this.#off.push(off);
    this.#stage.set('waitersGo', 1);
    await this.#stage.until(() => this.#stage.cell('go') > 0, NEVER_MS);
  }

  async #run(): Promise<Scene> {
    const { harness, host } = this.#stage;
    let run: SubagentRun;
    try {
      run = await harness.subagents.start('spawn', {
        parent: host,
        prompt: blocks(prompt(orderOf(this.#cell))),
        signal: this.#controller.signal,
        agentOptions: agentOptions(this.#stage.providerOf(this.#cell)),
        limits: limitsOf(kindOf(this.#cell.kind), placeOf(this.#cell.moment)),
      });
    } catch (error) {
      return this.#scene({ told: [rejection(error)] });
    }
    const told: TimedTold[] = [];
    void run.result.then(
      (result) => told.push(ofResult(result)),
      (error: unknown) => told.push(rejection(error)),
    );
    await this.#stopWhenReady(() => this.#controller.abort());
    await this.#stage.until(() => told.length > 0, NEVER_MS);
    return this.#scene({ id: run.id as SessionId, told, close: () => run.dispose() });
  }

  async #child(): Promise<Scene> {
    const { harness, host } = this.#stage;
    const { moment } = this.#cell;
    const { signal } = this.#controller;
    let id: SessionId;
    try {
      const first = moment === 'notice' ? this.#firstOfParent() : prompt(orderOf(this.#cell));
      ({ childId: id } = await harness.subagents.startContinuable({
        provider: 'spawn',
        label: 'at fault',
        signal,
        request: {
          parent: host,
          prompt: blocks(first),
          agentOptions: agentOptions(this.#stage.providerOf(this.#cell)),
          limits: limitsOf(kindOf(this.#cell.kind), placeOf(this.#cell.moment)),
        },
      }));
    } catch (error) {
      return this.#scene({ told: [rejection(error)] });
    }
    const notices = (): TimedTold[] => noticesOf(host.session.events, id);
    const tell = async (text: string): Promise<TimedTold[]> => {
      const before = notices().length;
      try {
        await harness.subagents.followup(host, id, blocks(text), {
          source: { kind: 'user' },
          signal,
        });
      } catch (error) {
        return [rejection(error)];
      }
      await this.#stage.until(() => notices().length > before, NEVER_MS);
      return notices().slice(before);
    };
    const afterwards = async (): Promise<string> => {
      this.#stage.reset();
      const [word] = await tell(WELL);
      await this.#stage.until(() => harness.agents.get(id) === undefined, NEVER_MS);
      if (word === undefined) return 'it never answers';
      return word.stopReason === 'completed' && word.text.endsWith(WELL)
        ? WELL
        : `${word.stopReason}: ${word.text}`;
    };
    if (moment === 'resume') {
      await this.#stage.until(() => notices().length > 0, NEVER_MS);
      this.#stage.arm();
      return this.#scene({ id, told: await tell('again'), afterwards });
    }
    if (moment === 'notice') {
      await this.#stage.until(() => this.#stage.cell('waiting') > 0, NEVER_MS);
      const agent = harness.agents.get(id);
      if (agent !== undefined) {
        await harness.subagents.followup(host, id, blocks(prompt(orderOf(this.#cell))), {
          source: { kind: 'user' },
          signal,
        });
        await this.#stage.until(() => this.#stage.cell('ready') > 0, NEVER_MS);
        await this.#stage.until(() => agent.status === 'idle', NEVER_MS);
        await this.#noticeAndFault(agent);
      }
    }
    await this.#stopWhenReady(() =>
      harness.subagents.interrupt(id, { kind: 'user', parentSessionId: host.id }),
    );
    if (moment === 'dispose') {
      await harness.dispose().catch(() => {});
      const agent = this.#made.find((made) => made.id === id);
      return this.#scene({ id, told: turnEndsOf(agent?.session.events ?? []) });
    }
    await this.#stage.until(() => notices().length > 0, NEVER_MS);
    return this.#scene({ id, told: notices(), afterwards });
  }

  #firstOfParent(): string {
    const waits = prompt({ call: { tool: 'wait', args: {} } });
    return prompt({ call: { tool: 'pass_on', args: { description: 'waits', prompt: waits } } });
  }

  /** The order of the agent at the top of a chain, whose last one is at fault. */
  #chain(between: string): string {
    const { depth } = this.#cell;
    let text = prompt(orderOf(this.#cell));
    for (let level = depth - 1; level > 0; level--) {
      const tool = level === depth - 1 ? this.#stage.delegating(this.#cell) : between;
      text = prompt({ call: { tool, args: { description: 'some work', prompt: text } } });
    }
    return text;
  }

  async #deepRun(): Promise<Scene> {
    const { harness, host } = this.#stage;
    const run = await harness.subagents.start('spawn', {
      parent: host,
      prompt: blocks(this.#chain('pass')),
      signal: this.#controller.signal,
    });
    const told: TimedTold[] = [];
    void run.result.then((result) => told.push(ofResult(result)));
    await this.#stage.until(() => told.length > 0, NEVER_MS);
    const { depth } = this.#cell;
    const parent = this.#made[depth - 2];
    const leaf = this.#made[depth - 1];
    const tool = this.#stage.delegating(this.#cell);
    return this.#scene({
      id: leaf?.id,
      told: toolResultsOf(parent?.session.events ?? [], tool, leaf !== undefined),
      parents: told.map(({ stopReason }) => stopReason),
      close: () => run.dispose(),
    });
  }

  async #deepChild(): Promise<Scene> {
    const { harness, host } = this.#stage;
    const { depth } = this.#cell;
    const { childId } = await harness.subagents.startContinuable({
      provider: 'spawn',
      label: 'at the top',
      signal: this.#controller.signal,
      request: { parent: host, prompt: blocks(this.#chain('pass_on')) },
    });
    const settled = (): TimedTold[] => noticesOf(host.session.events, childId);
    await this.#stage.until(() => settled().length > 0, NEVER_MS);
    const parent = this.#made[depth - 2];
    const leaf = this.#made[depth - 1];
    const events = parent?.session.events ?? [];
    const tool = this.#stage.delegating(this.#cell);
    const told =
      leaf === undefined ? toolResultsOf(events, tool, false) : noticesOf(events, leaf.id);
    return this.#scene({
      id: leaf?.id,
      told,
      parents: settled().map(({ stopReason }) => stopReason),
    });
  }
}

/** For the end of an idle thread that dies of its fault. */
const IDLE_END_MS = 1_500;

function lastSaid(agent: Agent): string {
  const message = agent.session.events.findLast((event) => event.type === 'assistant/message');
  if (message?.type !== 'assistant/message') return 'nothing';
  return textOfBlocks(message.data.message.content);
}
