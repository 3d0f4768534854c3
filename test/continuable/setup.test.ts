import { describe, expect, it } from 'vitest';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { ChildScope } from '../../src/agent/create-options.ts';
import { Scope } from '../../src/base/scope.ts';
import { gate } from '../../src/base/gate.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { Setups } from '../../src/subagents/setup.ts';
import type { SetupContribution } from '../../src/subagents/setup.ts';
import { rejection, stubAgent } from '../subagents/stubs.ts';
import { spawning } from '../subagents/spawning.ts';
import { afterMicrotasks } from '../worker-host/agent-words.ts';
import { continuing } from './continuing.ts';

/** A child that is only a place to add to, and its end. */
function stubChild(id = 'child') {
  const scope = new Scope();
  const agent = stubAgent(id);
  const child = {
    agent,
    header: agent.session.header as SessionHeader,
    onDispose: (undo) => void scope.add(undo),
  } as ChildScope;
  return { child, close: () => scope.dispose() };
}

function recording() {
  const log: string[] = [];
  const part =
    (name: string, failure?: Error): SetupContribution =>
    ({ agent }) => {
      log.push(`+${name} ${agent.id}`);
      return () => {
        log.push(`-${name} ${agent.id}`);
        if (failure !== undefined) throw failure;
      };
    };
  return { log, part };
}

const thrown = (run: () => void): unknown => {
  try {
    run();
    return undefined;
  } catch (error) {
    return error;
  }
};

describe('the contributions to a child', () => {
  it('are installed in the order of their registration, and undone the other way round', async () => {
    const setups = new Setups();
    const { log, part } = recording();
    setups.register(part('a'));
    setups.register(part('b'));
    const { child, close } = stubChild();
    setups.install(child).commit();
    expect(log).toEqual(['+a child', '+b child']);
    await close();
    expect(log.slice(2)).toEqual(['-b child', '-a child']);
  });

  it('are undone when a later one throws, whose error is told', () => {
    const setups = new Setups();
    const { log, part } = recording();
    const failure = new Error('No.');
    setups.register(part('a', new Error('Cannot be undone.')));
    setups.register(part('b'));
    setups.register(() => {
      throw failure;
    });
    setups.register(part('d'));
    expect(thrown(() => setups.install(stubChild().child))).toBe(failure);
    expect(log).toEqual(['+a child', '+b child', '-b child', '-a child']);
  });

  it('are refused at publication when one was removed before', () => {
    const setups = new Setups();
    const { log, part } = recording();
    const remove = setups.register(part('a'));
    const { child } = stubChild();
    const installed = setups.install(child);
    remove();
    expect(log).toEqual(['+a child', '-a child']);
    expect(thrown(() => installed.commit())).toMatchObject({ code: 'ACTIVATION_SETUP_REVOKED' });
  });

  it('are refused when one removes itself, and what that one did is undone once', () => {
    const setups = new Setups();
    const { log, part } = recording();
    setups.register(part('a'));
    const remove = setups.register((child) => {
      remove();
      return part('self')(child);
    });
    setups.register(part('c'));
    expect(thrown(() => setups.install(stubChild().child))).toMatchObject({
      code: 'ACTIVATION_SETUP_REVOKED',
    });
    expect(log).toEqual(['+a child', '+self child', '-self child', '-a child']);
  });

  it('are refused when one removes a later one, or an earlier one', () => {
    for (const target of [0, 2]) {
      const setups = new Setups();
      const { log, part } = recording();
      const removers: (() => void)[] = [];
      removers[0] = setups.register(part('a'));
      removers[1] = setups.register((child) => {
        removers[target]!();
        return part('b')(child);
      });
      removers[2] = setups.register(part('c'));
      const attempt = (): void => setups.install(stubChild().child).commit();
      expect(thrown(attempt)).toMatchObject({ code: 'ACTIVATION_SETUP_REVOKED' });
      const [added, undone] = ['+', '-'].map((sign) => log.filter((one) => one.startsWith(sign)));
      // What a refused commit leaves, the end of the child undoes.
      expect(new Set(undone!.map((one) => one.slice(1)))).toEqual(
        new Set(target === 2 ? added!.map((one) => one.slice(1)) : ['a child']),
      );
    }
  });

  it('are all undone at a removal, whatever one of them throws', () => {
    const setups = new Setups();
    const log: string[] = [];
    const failure = new Error('Stuck.');
    const remove = setups.register(({ agent }) => () => {
      log.push(agent.id);
      if (agent.id === 'two') throw failure;
    });
    for (const id of ['one', 'two', 'three']) setups.install(stubChild(id).child).commit();
    const error = thrown(remove);
    expect(error).toMatchObject({
      name: 'SubagentError',
      code: 'ACTIVATION_SETUP_RELEASE_FAILED',
      message: expect.stringMatching(/^1 of 3/) as string,
      cause: failure,
    });
    expect(log).toEqual(['one', 'two', 'three']);
    remove();
    expect(log).toHaveLength(3);
  });

  it('are undone once, whichever side comes first', async () => {
    const setups = new Setups();
    const { log, part } = recording();
    const removeA = setups.register(part('a'));
    const removeB = setups.register(part('b'));
    const { child, close } = stubChild();
    setups.install(child).commit();
    removeA();
    await close();
    removeB();
    expect(log.filter((one) => one.startsWith('-'))).toEqual(['-a child', '-b child']);
  });

  it('are undone in the one child that ends, and stay in another', async () => {
    const setups = new Setups();
    const { log, part } = recording();
    setups.register(part('a'));
    const [one, two] = [stubChild('one'), stubChild('two')];
    for (const { child } of [one, two]) setups.install(child).commit();
    await one.close();
    expect(log).toEqual(['+a one', '+a two', '-a one']);
  });

  it('are all undone at the end of a child, and what one throws is told', async () => {
    const setups = new Setups();
    const { log, part } = recording();
    setups.register(part('a'));
    setups.register(part('b', new Error('Stuck.')));
    const { child, close } = stubChild();
    setups.install(child).commit();
    expect(await rejection(close())).toMatchObject({ code: 'ACTIVATION_SETUP_RELEASE_FAILED' });
    expect(log.slice(2)).toEqual(['-b child', '-a child']);
  });

  it('have to be functions that return one at once', async () => {
    const setups = new Setups();
    expect(thrown(() => setups.register('x' as never))).toMatchObject({ code: 'INVALID_ARGUMENT' });
    // A promise that fails later is nobody's: it ends no process.
    setups.register((() => Promise.reject(new Error('later'))) as never);
    expect(thrown(() => setups.install(stubChild().child))).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    await new Promise((resolve) => setImmediate(resolve));
  });

  it('may go on with their undoing by themselves', async () => {
    const setups = new Setups();
    const remove = setups.register(() => () => Promise.reject(new Error('later')));
    setups.install(stubChild().child).commit();
    expect(thrown(remove)).toBeUndefined();
    await new Promise((resolve) => setImmediate(resolve));
  });
});

describe('a contribution to continuable children', () => {
  const adding =
    (name: string, log: string[] = []): SetupContribution =>
    (child) => {
      log.push(`+${child.header.id}`);
      child.prompt.section({ name, text: `This is ${name}.`, order: 500 } as never);
      return () => void log.push(`-${child.header.id}`);
    };

  it('is part of a fresh child and of a resumed one, and of no one-shot child', async () => {
    await using t = await continuing();
    const log: string[] = [];
    t.subagents.registerContinuableSetup(adding('part', log));
    const { childId } = await t.start();
    expect(log).toEqual([`+${childId}`]);
    await t.gone(childId);
    expect(log).toEqual([`+${childId}`, `-${childId}`]);
    await t.tell(childId, 'More.');
    await t.gone(childId);
    expect(log).toHaveLength(4);
    const requests = t.model.requests.filter(({ system }) => system?.includes('This is part.'));
    expect(requests).toHaveLength(2);
    await using one = await spawning({ script: ['Done.'] });
    one.harness.subagents.registerContinuableSetup(adding('part', log));
    await one.run();
    expect(log).toHaveLength(4);
  });

  it('is not yet part of a child that is resident, and leaves one at once', async () => {
    const hold = gate();
    await using t = await continuing({ script: () => ({ hold, text: 'Done.' }) });
    const log: string[] = [];
    const remove = t.subagents.registerContinuableSetup(adding('part', log));
    const { childId } = await t.start();
    remove();
    expect(log).toEqual([`+${childId}`, `-${childId}`]);
    t.subagents.registerContinuableSetup(adding('part', log));
    hold.open();
    await t.gone(childId);
    expect(log).toHaveLength(2);
    await t.tell(childId, 'More.');
    expect(log).toHaveLength(3);
    await t.gone(childId);
  });

  it('ends with the scope it is registered in', async () => {
    await using t = await continuing();
    const log: string[] = [];
    const scope = new Scope();
    t.subagents.registerContinuableSetup(adding('part', log), { scope });
    await scope.dispose();
    await t.gone((await t.start()).childId);
    expect(log).toEqual([]);
  });

  it('that throws fails the start with its own error', async () => {
    await using t = await continuing();
    const failure = new Error('No.');
    t.subagents.registerContinuableSetup(() => {
      throw failure;
    });
    expect(await rejection(t.start())).toBe(failure);
    expect(t.agents.list()).toEqual([t.root]);
    expect(t.edges).toEqual([]);
  });

  it('that fails a resume makes the child not resumable, with its error as the cause', async () => {
    await using t = await continuing();
    const { childId } = await t.start();
    await t.gone(childId);
    const failure = new Error('No.');
    t.subagents.registerContinuableSetup(() => {
      throw failure;
    });
    expect(await rejection(t.tell(childId, 'More.'))).toMatchObject({
      code: 'NOT_RESUMABLE',
      cause: failure,
    });
  });

  it('that is removed while the thread starts fails the start; the thread is gone', async () => {
    const hold = gate();
    await using t = await continuing({
      models: { module: { module: new URL('file:///held.mjs') } },
      threads: {
        import: async () => (await hold.wait(), { default: scriptedModel(['Done.']) }),
      },
    });
    const created: string[] = [];
    t.harness.on('session/created', ({ session }) => created.push(session.id));
    t.harness.on('agent/created', ({ agent }) => created.push(agent.id));
    const log: string[] = [];
    const remove = t.subagents.registerContinuableSetup(adding('part', log));
    const starting = rejection(t.start({ request: { agentOptions: { provider: 'module' } } }));
    await hold.arrived();
    let isGone = false;
    void t.threads.all.at(-1)!.ended.then(() => (isGone = true));
    remove();
    hold.open();
    expect(await starting).toMatchObject({ code: 'ACTIVATION_SETUP_REVOKED' });
    expect(isGone).toBe(true);
    expect(log.map((one) => one[0])).toEqual(['+', '-']);
    expect(created).toEqual([]);
    expect(await t.rows()).toEqual([]);
  });

  it.each([0, 1, 2, 3, 5])(
    'that is removed %s microtasks after its installation fails the start',
    async (count) => {
      await using t = await continuing();
      const created: string[] = [];
      t.harness.on('session/created', ({ session }) => created.push(session.id));
      const log: string[] = [];
      const remove = t.subagents.registerContinuableSetup((child) => {
        const undo = adding('part', log)(child);
        afterMicrotasks(count, remove);
        return undo;
      });
      expect(await rejection(t.start())).toMatchObject({ code: 'ACTIVATION_SETUP_REVOKED' });
      expect(created).toEqual([]);
      expect(await t.rows()).toEqual([]);
      expect(log.map((one) => one[0])).toEqual(['+', '-']);
    },
  );

  it('that cannot be undone fails the release, which is told as an error', async () => {
    await using t = await continuing();
    t.subagents.registerContinuableSetup(() => () => {
      throw new Error('Stuck.');
    });
    const { childId } = await t.start();
    await t.gone(childId);
    expect(t.edges).toEqual(['start', 'end error']);
    expect(t.agents.list()).toEqual([t.root]);
  });
});
