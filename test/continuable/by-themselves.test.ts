/**
 * The residencies of a registry that ends nobody with anybody: what whole harnesses cannot show,
 * as there an agent never leaves before all below it has.
 */
import { describe, expect, it } from 'vitest';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Activations } from '../../src/subagents/activations.ts';
import { Admission } from '../../src/subagents/admission.ts';
import { startContinuable } from '../../src/subagents/continuable.ts';
import type { ContinuableContext } from '../../src/subagents/continuable.ts';
import { drainDescendants } from '../../src/subagents/drain.ts';
import { followup } from '../../src/subagents/followup.ts';
import { Places } from '../../src/subagents/places.ts';
import { SubagentLifecycle } from '../../src/subagents/lifecycle.ts';
import { ProviderRegistry } from '../../src/subagents/registry.ts';
import { Setups } from '../../src/subagents/setup.ts';
import { rejection } from '../subagents/stubs.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { until } from '../support/until.ts';
import { noSignal } from './children.ts';
import { USER, preparing, specOf, taskOf } from './continuing.ts';

class BrokenLifecycle extends SubagentLifecycle {
  readonly failure = new Error('The edge cannot be told.');

  override start(): never {
    throw this.failure;
  }
}

interface Apart extends AsyncDisposable {
  readonly rt: TestHarness;
  readonly context: ContinuableContext;
  /** Each "Hold." is held here. */
  readonly held: ReturnType<typeof gate>;
  start(parent: Agent, words?: string): Promise<Agent>;
  /** An agent below another that does not end with it. */
  make(parent?: Agent): ReturnType<TestHarness['harness']['agents']['create']>;
}

async function apart(lifecycle = new SubagentLifecycle(silentLogger)): Promise<Apart> {
  const held = gate();
  const rt = await testHarness({
    script: (request) => (taskOf(request) === 'Hold.' ? { hold: held, text: 'A' } : 'Done.'),
  });
  const { agents, sessions } = rt.harness;
  const admission = new Admission(agents);
  const services = { agents, sessions, admission, lifecycle, logger: silentLogger };
  const providers = new ProviderRegistry(silentLogger);
  providers.register(preparing(async () => ({})));
  const context: ContinuableContext = {
    activations: new Activations(services),
    providers,
    setups: new Setups(),
    maxDepth: undefined,
    places: new Places({ agents, maxLive: undefined, maxTotal: undefined }),
  };
  return {
    rt,
    context,
    held,
    async start(parent, words = 'Hold.') {
      const prompt = [{ type: 'text' as const, text: words }];
      const spec = specOf(parent, { provider: 'preparing', request: { prompt } });
      const { childId } = await startContinuable(context, spec);
      return agents.get(childId)!;
    },
    make: (parent) =>
      agents.create(parent === undefined ? {} : { meta: { parentSession: parent.id } }),
    async [Symbol.asyncDispose]() {
      held.open();
      await until(() => context.activations.list().length === 0);
      await rt[Symbol.asyncDispose]();
    },
  };
}

describe('a drain of residencies', () => {
  it('finds what was above them when they began, also when what is between has left', async () => {
    await using t = await apart();
    const between = await t.make(t.rt.root);
    const child = await t.start(between.agent);
    await t.held.arrived();
    await between.dispose();
    await drainDescendants(t.context.activations, [t.rt.root], 'discard');
    expect(t.rt.harness.agents.get(child.id)).toBeUndefined();
  });

  it('is over for its members when its root has left the registry', async () => {
    await using t = await apart();
    const root = await t.make();
    const between = await t.make(root.agent);
    await t.start(between.agent);
    await t.held.arrived();
    await drainDescendants(t.context.activations, [root.agent], 'discard');
    expect(await rejection(t.start(between.agent))).toMatchObject({ code: 'DRAINING' });
    await root.dispose();
    await t.start(between.agent, 'Work.');
  });
});

describe('a residency', () => {
  it('is owned by its parent for as long as that has no news of its end', async () => {
    await using t = await apart();
    const { activations } = t.context;
    const parent = await t.start(t.rt.root);
    await t.held.arrived();
    const owned: boolean[] = [];
    t.rt.harness.on('agent/inbox/inserted', ({ agent }) => {
      if (agent === parent) owned.push(activations.of(parent)!.owned.has(child));
    });
    const child = activations.of(await t.start(parent, 'Work.'))!;
    await until(() => owned.length === 1);
    await until(() => activations.of(parent)?.owned.size === 0);
    expect(owned).toEqual([true]);
  });

  it('whose start cannot be told is undone, and nothing of it is left', async () => {
    const lifecycle = new BrokenLifecycle(silentLogger);
    await using t = await apart(lifecycle);
    const { agents, sessionPersistence } = t.rt.harness;
    let ends = 0;
    lifecycle.on('subagent/end', () => void ends++);
    expect(await rejection(t.start(t.rt.root))).toBe(lifecycle.failure);
    expect(ends).toBe(0);
    expect(agents.list()).toEqual([t.rt.root]);
    await drainDescendants(t.context.activations, [t.rt.root], 'discard');
    expect(await sessionPersistence.list()).toEqual([]);
    expect(t.rt.root.inbox.hasPending).toBe(false);
  });

  it('is not judged between its publication and what it is to be told', async () => {
    const lifecycle = new SubagentLifecycle(silentLogger);
    await using t = await apart(lifecycle);
    const { agents } = t.rt.harness;
    const child = await t.start(t.rt.root, 'Work.');
    await until(() => t.context.activations.list().length === 0);
    const states: unknown[] = [];
    // It becomes idle with nothing to do: a reason to judge it, and to find it settled.
    lifecycle.on('subagent/start', ({ id }) => {
      const activation = t.context.activations.get(id)!;
      states.push(activation.state);
      t.context.activations.review(activation);
    });
    const options = { source: USER, signal: noSignal() };
    await followup(t.context, t.rt.root, child.id, 'More.', options);
    const again = agents.get(child.id)!;
    await until(() => t.context.activations.list().length === 0);
    expect(states).toEqual(['settled']);
    expect(again.session.lastTurn).toBe(2);
  });
});
