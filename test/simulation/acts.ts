/** What the user of a harness does, drawn from what can be done now. */
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { Dice } from '../interleavings/plan.ts';
import type { Ground } from './ground.ts';
import type { Oracle } from './oracle.ts';
import type { Action } from './scheduler.ts';

/** A child that goes on, and who started it. */
export interface Child {
  readonly id: SessionId;
  readonly parent: SessionId;
}

export interface ActState {
  /** Over all lives. */
  readonly children: Child[];
  /** Asked and not answered, in this life. */
  readonly pending: Set<string>;
  asked: number;
}

/** What may come of an act, beside success. */
const REFUSALS: readonly string[] = [
  'DRAINING',
  'ACTIVATION_CLOSING',
  'UNAUTHORIZED',
  'PARENT_UNAVAILABLE',
  'CAPACITY',
  'DEPTH_EXCEEDED',
];
/** As well, once something has gone wrong by itself. */
const BY_FAULTS: readonly string[] = ['NOT_RESUMABLE', 'ACTIVATION_TEARDOWN_FAILED'];
/** And these, if it was something that shows as this. */
const OF_CAUSES = /^(WORKER_|STORE_|PROTOCOL_VIOLATION$)/;
const given = { source: { kind: 'user' } } as const;

export class Acts {
  readonly #dice: Dice;
  readonly #oracle: Oracle;
  readonly state: ActState;
  /** Something has gone wrong by itself. */
  hasFaults = false;

  constructor(dice: Dice, oracle: Oracle, state: ActState) {
    this.#dice = dice;
    this.#oracle = oracle;
    this.state = state;
  }

  draw(ground: Ground): Action {
    const dice = this.#dice;
    const { agents } = ground.harness;
    const live = agents.list();
    const some = live.length === 0 ? undefined : dice.pick(live);
    const child = this.state.children.length === 0 ? undefined : dice.pick(this.state.children);
    const run = ground.runs.size === 0 ? undefined : dice.pick([...ground.runs]);
    const roll = dice.int(30);
    if (some !== undefined && roll < 6) return this.#startOneShot(ground, some);
    if (some !== undefined && roll < 11) return this.#startContinuable(ground, some);
    if (child !== undefined && roll < 15) return this.#followup(ground, child);
    if (child !== undefined && roll < 17) return this.#interrupt(ground, child);
    if (roll < 20) return this.#tell(ground, ground.root.agent);
    if (some !== undefined && roll < 21) return this.#cancel(some);
    if (child !== undefined && roll < 22) return this.#report(ground, child);
    if (child !== undefined && roll < 23) return this.#drainChild(ground, child);
    if (some !== undefined && roll < 24) return this.#drainBelow(ground, some);
    if (ground.controllers.size > 0 && roll < 26) return this.#abort(ground);
    if (run !== undefined && roll < 28) return this.disposal(ground, run);
    if (roll < 29) return this.#list(ground);
    return this.#tell(ground, ground.root.agent);
  }

  disposal(ground: Ground, run: Ground['runs'] extends Set<infer R> ? R : never): Action {
    return this.#act(`dispose ${run.id}`, async () => {
      const agent = run.localAgent;
      await run.dispose();
      ground.runs.delete(run);
      if (agent !== undefined) this.#oracle.isOver(agent, `the disposal of ${run.id}`);
    });
  }

  #startOneShot(ground: Ground, parent: Agent): Action {
    const dice = this.#dice;
    const provider = dice.pick(['spawn', 'spawn', 'fork']);
    const controller = new AbortController();
    return this.#act(`${provider} below ${parent.id}`, async () => {
      ground.controllers.add(controller);
      try {
        const run = await ground.harness.subagents.start(provider, {
          parent,
          prompt: 'Work.',
          signal: controller.signal,
        });
        ground.runs.add(run);
        // Told before its end is, whose listeners come later.
        this.#pend(`the result of ${run.id}`, async () => {
          this.#oracle.resulted(run, await run.result);
          if (dice.chance(0.5)) this.disposal(ground, run).run();
        });
      } finally {
        ground.controllers.delete(controller);
      }
    });
  }

  #startContinuable(ground: Ground, parent: Agent): Action {
    const childId = `child-${this.state.asked++}`;
    const provider = this.#dice.pick(['spawn', 'spawn', 'fork']);
    const controller = new AbortController();
    const { starts } = this.#oracle;
    return this.#act(`start ${childId} (${provider}) below ${parent.id}`, async () => {
      ground.controllers.add(controller);
      starts.set(childId, 'asked');
      try {
        const { messageId } = await ground.harness.subagents.startContinuable({
          provider,
          label: 'worker',
          childId,
          signal: controller.signal,
          request: { parent, prompt: 'Work.' },
        });
        starts.set(childId, 'accepted');
        this.#accept(messageId, childId as SessionId);
        this.state.children.push({ id: childId as SessionId, parent: parent.id });
      } catch (error) {
        starts.set(childId, 'refused');
        throw error;
      } finally {
        ground.controllers.delete(controller);
      }
    });
  }

  #followup(ground: Ground, { id, parent }: Child): Action {
    const controller = new AbortController();
    return this.#act(`tell ${id}`, async () => {
      const { agents, subagents } = ground.harness;
      const owner = agents.get(parent);
      if (owner === undefined) return;
      ground.controllers.add(controller);
      try {
        const { signal } = controller;
        const { messageId } = await subagents.followup(owner, id, 'More.', { ...given, signal });
        this.#accept(messageId, id);
      } finally {
        ground.controllers.delete(controller);
      }
    });
  }

  #interrupt(ground: Ground, { id, parent }: Child): Action {
    return this.#act(`interrupt ${id}`, async () => {
      ground.harness.subagents.interrupt(id, { kind: 'user', parentSessionId: parent });
    });
  }

  #tell(ground: Ground, agent: Agent): Action {
    const how = this.#dice.pick(['followup', 'followup', 'steer', 'inject'] as const);
    return this.#act(`${how} ${agent.id}`, async () => {
      const message = createUserMessage('Go on.');
      agent[how](message);
      await ground.harness.sessions.flush(agent.session);
      if (!this.#oracle.withdrawn.has(message.id)) this.#accept(message.id as MessageId, agent.id);
    });
  }

  #cancel(agent: Agent): Action {
    const keepInbox = this.#dice.chance(0.6);
    return this.#act(`cancel ${agent.id}${keepInbox ? '' : ' and its inbox'}`, async () => {
      if (!keepInbox) this.#oracle.discarded.add(agent.id);
      agent.cancel({ kind: 'user' }, { keepInbox });
    });
  }

  #report(ground: Ground, { id, parent }: Child): Action {
    const delivery = this.#dice.pick(['quiet', 'wakeup', 'next-step'] as const);
    return this.#act(`report of ${id} (${delivery})`, async () => {
      const { agents, subagents } = ground.harness;
      const agent = agents.get(id);
      if (agent === undefined) return;
      const { messageId } = await subagents.reportFrom(agent, 'So far.', { delivery });
      this.#accept(messageId, parent);
    });
  }

  #drainChild(ground: Ground, { id, parent }: Child): Action {
    return this.#act(`drain ${id}`, async () => {
      const { agents, subagents } = ground.harness;
      const owner = agents.get(parent);
      const agent = agents.get(id);
      if (owner === undefined) return;
      this.#oracle.discarded.add(id);
      await subagents.drainContinuableChildren(owner, [id]);
      if (agent !== undefined) this.#oracle.isOver(agent, `its drain`);
    });
  }

  #drainBelow(ground: Ground, agent: Agent): Action {
    return this.#act(`drain below ${agent.id}`, async () => {
      const { agents, subagents } = ground.harness;
      const below = agents
        .list()
        .filter(({ session }) => session.header.parentSession === agent.id);
      const goOn = below.filter(({ id }) => this.state.children.some((child) => child.id === id));
      for (const { id } of below) this.#oracle.discarded.add(id);
      await subagents.drainContinuableDescendants([agent]);
      for (const one of goOn) this.#oracle.isOver(one, `the drain below ${agent.id}`);
    });
  }

  #abort(ground: Ground): Action {
    const controller = this.#dice.pick([...ground.controllers]);
    return this.#act('abort a call', async () => {
      controller.abort(new Aborted());
    });
  }

  #list(ground: Ground): Action {
    return this.#act('list', async () => {
      const { subagents, agents } = ground.harness;
      const rows = await subagents.listDescendants(ground.root.agent.id);
      for (const row of rows) {
        if (
          'id' in row &&
          agents.get(row.id as SessionId) === undefined &&
          row.kind === undefined
        ) {
          this.#oracle.say('a row says nothing');
        }
      }
    });
  }

  #accept(id: MessageId, session: SessionId): void {
    if (this.#oracle.accepted.has(id)) this.#oracle.say(`the id ${id} was returned twice`);
    this.#oracle.accepted.set(id, { session });
  }

  #act(name: string, run: () => Promise<void>): Action {
    return { kind: 'act', name: `ACT ${name}`, run: () => this.#pend(name, run) };
  }

  #pend(name: string, run: () => Promise<void>): void {
    const { pending } = this.state;
    const key = `${name} #${this.state.asked++}`;
    pending.add(key);
    const over = (): void => void pending.delete(key);
    run().then(over, (error: { code?: string }) => {
      over();
      const { code = '' } = error;
      if (error instanceof Aborted || REFUSALS.includes(code)) return;
      if (this.hasFaults && BY_FAULTS.includes(code)) return;
      if (OF_CAUSES.test(code) && this.#oracle.causes.mayBe(code)) return;
      this.#oracle.say(`${name} failed: ${String(error)}`);
    });
  }
}

class Aborted extends Error {}
