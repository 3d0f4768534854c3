import { describe, expect, it, vi } from 'vitest';
import type { SessionId } from '../../protocol/ids.ts';
import { gate } from '../../src/base/gate.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import type { StoredSession } from '../../src/session/store.ts';
import { rejection, text } from '../subagents/stubs.ts';
import { SilentStore } from '../support/silent-store.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { watchUnhandled } from '../support/unhandled.ts';
import { settled, until } from '../support/until.ts';
import { afterMicrotasks, callsEndless, endless, has } from '../worker-host/agent-words.ts';
import { continuing, holding, ID, specOf, taskOf, told, USER } from './continuing.ts';

const signal = (): AbortSignal => new AbortController().signal;
const unhandled = watchUnhandled();
const INVALID = { code: 'INVALID_ARGUMENT' };

/** A store whose reading of one session is held. */
class HeldReading extends MemoryStore {
  readonly held = gate();
  isHeld = false;
  override async inspect(id: SessionId, abort?: AbortSignal): Promise<StoredSession> {
    if (this.isHeld) await this.held.wait();
    return super.inspect(id, abort);
  }
}

it('lets a follow-up give up while another is being routed to its child', async () => {
  const store = new HeldReading();
  await using t = await continuing({ store });
  const { childId } = await t.start();
  await t.gone(childId);
  store.isHeld = true;
  const first = t.tell(childId, 'One.');
  await store.held.arrived();
  const controller = new AbortController();
  const second = rejection(t.tell(childId, 'Two.', { signal: controller.signal }));
  controller.abort('enough');
  expect(await second).toBe('enough');
  store.held.open();
  await first;
  await t.gone(childId);
});

describe('when its parent ends meanwhile', () => {
  it('a start is refused for its parent, and not for the id', async () => {
    const store = new SilentStore();
    const clock = new ManualClock();
    await using t = await continuing({
      ...endless,
      store,
      clock,
      script: (request) => (taskOf(request) === 'Busy.' ? callsEndless : 'Done.'),
    });
    const { childId } = await t.start({ request: { prompt: 'Busy.' } });
    const parent = t.agents.get(childId)!;
    await until(() => has(parent.session, 'tool/call'));
    const silent = store.silence('readFrom');
    const first = t.start({ childId: ID });
    await silent.arrived();
    const second = rejection(t.start({ childId: ID, request: { parent } }));
    await settled();
    // Its tool does not stop: it is being released until that is given up.
    const drained = t.subagents.drainContinuableChildren(t.root, [childId]);
    silent.open();
    await first;
    expect(await second).toMatchObject({ code: 'ACTIVATION_CLOSING' });
    await clock.advance(10_000);
    await drained;
    await t.gone(ID);
  });

  it('a start of an id that is taken does not wait to hear by whom', async () => {
    const store = new SilentStore();
    await using t = await continuing({ store });
    const { childId } = await t.start();
    await t.gone(childId);
    let silent: ReturnType<typeof store.silence> | undefined;
    const readFrom = store.readFrom.bind(store);
    vi.spyOn(store, 'readFrom').mockImplementationOnce((...asked) => {
      const answer = readFrom(...asked);
      silent = store.silence('readFrom');
      return answer;
    });
    const refused = rejection(t.start({ childId }));
    await until(() => silent !== undefined);
    await silent!.arrived();
    const drained = t.subagents.drainContinuableDescendants([t.root]);
    expect(await refused).toMatchObject({ code: 'DRAINING' });
    await drained;
    silent!.open();
  });

  it('a start is not told of when who is above its parent came back meanwhile and drains', async () => {
    const store = new SilentStore();
    await using t = await continuing({ store });
    const above = await t.agents.create();
    const { childId } = await t.start({ request: { parent: above.agent } });
    await t.gone(childId);
    await above.dispose();
    // Opened by itself: nobody is above it, until that is live again.
    const parent = (await t.agents.resume(childId)).agent;
    const silent = store.silence('readFrom');
    const first = rejection(t.start({ childId: ID, request: { parent } }));
    await silent.arrived();
    const again = await t.agents.resume(above.agent.id);
    await t.subagents.drainContinuableDescendants([again.agent]);
    silent.open();
    expect(await first).toMatchObject({ code: 'DRAINING' });
    expect(t.edges).toEqual(['start', 'end completed']);
    expect(t.agents.get(ID)).toBeUndefined();
  });

  it('a start that is nearly there is not told of any more', async () => {
    const clock = new ManualClock();
    await using t = await continuing({ ...endless, clock, script: [callsEndless] });
    const { childId } = await t.start();
    const parent = t.agents.get(childId)!;
    await until(() => has(parent.session, 'tool/call'));
    let drained: Promise<void> | undefined;
    t.harness.on('agent/created', () => {
      drained = t.subagents.drainContinuableChildren(t.root, [childId]);
    });
    expect(await rejection(t.start({ request: { parent } }))).toMatchObject({
      code: 'ACTIVATION_CLOSING',
    });
    expect(t.edges).toEqual(['start']);
    await clock.advance(10_000);
    await drained;
  });

  // It is read to see whose it is, and again by whoever resumes it.
  it.each([1, 2])(
    'a follow-up brings nobody back, however shortly after read %i of it',
    async (read) => {
      for (let count = 0; count < 24; count++) {
        const store = new MemoryStore();
        await using t = await continuing({ store });
        const { childId } = await t.start();
        await t.gone(childId);
        const seen: string[] = [];
        const inspect = store.inspect.bind(store);
        let reads = 0;
        vi.spyOn(store, 'inspect').mockImplementation((...asked) => {
          const stored = inspect(...asked);
          const end = (): void => {
            seen.push('drained');
            void t.subagents.drainContinuableDescendants([t.root]);
          };
          // The read after the drain is refused, which is for whoever asked.
          if (++reads === read) stored.then(() => afterMicrotasks(count, end)).catch(() => {});
          return stored;
        });
        t.harness.on('agent/created', () => seen.push('created'));
        expect(await rejection(t.tell(childId, 'More.'))).toMatchObject({ code: 'DRAINING' });
        expect(seen.slice(seen.indexOf('drained'))).toEqual(['drained']);
        await settled();
        expect(unhandled).toEqual([]);
      }
    },
  );

  it('a follow-up asks the store for nothing any more', async () => {
    const store = new SilentStore();
    await using t = await continuing({ store });
    const { childId } = await t.start();
    await t.gone(childId);
    const inspect = vi.spyOn(store, 'inspect');
    const silent = store.silence('inspect');
    const told = [rejection(t.tell(childId, 'One.')), rejection(t.tell(childId, 'Two.'))];
    await silent.arrived();
    await t.rootHandle.dispose();
    for (const one of told) expect(await one).toMatchObject({ code: 'DRAINING' });
    silent.open();
    await settled();
    expect(inspect).toHaveBeenCalledTimes(1);
    expect(t.agents.list()).toEqual([]);
  });
});

describe('a child that somebody else has resumed', () => {
  it('can be told more once it was let go of, and a stranger learns nothing of it', async () => {
    await using t = await continuing();
    const { childId } = await t.start();
    await t.gone(childId);
    const plain = await t.agents.resume(childId);
    const refused = (await rejection(t.tell(childId, 'More.'))) as Error;
    expect(refused).toMatchObject({ code: 'NOT_RESUMABLE' });
    expect(refused.message).not.toContain('Do not try');
    const stranger = await t.agents.create();
    expect(await rejection(t.tell(childId, 'Mine.', { parent: stranger.agent }))).toMatchObject({
      code: 'UNAUTHORIZED',
    });
    await plain.dispose();
    await t.tell(childId, 'More.');
    await t.gone(childId);
  });
});

describe('what is asked wrongly', () => {
  it('drains nothing', async () => {
    await using t = await continuing();
    const { subagents, root, rootHandle } = t;
    for (const given of ['ab', undefined, null, 3, {}] as never[]) {
      expect(await rejection(subagents.drainContinuableChildren(root, given))).toMatchObject(
        INVALID,
      );
      expect(await rejection(subagents.drainContinuableDescendants(given))).toMatchObject(INVALID);
    }
    const handles = [rootHandle] as never;
    const refused = (await rejection(subagents.drainContinuableDescendants(handles))) as Error;
    expect(refused).toMatchObject(INVALID);
    expect(refused.message).toContain('handle.agent');
    const odd = { id: Symbol('odd') } as never;
    expect(await rejection(subagents.drainContinuableChildren(odd, []))).toMatchObject({
      code: 'UNAUTHORIZED',
    });
  });

  it('is no follow-up in the words of the runtime, and is read once', async () => {
    await using t = await continuing();
    const { childId } = await t.start();
    for (const kind of ['subagent-settled', 'subagent-report']) {
      const source = { kind, form: 'notice', summary: '', senderSessionId: childId, turn: 1 };
      expect(await rejection(t.tell(childId, 'x', { source: source as never }))).toMatchObject(
        INVALID,
      );
    }
    let looks = 0;
    const options = {
      source: USER,
      get signal() {
        return looks++ === 0 ? signal() : ({ aborted: true } as never);
      },
    };
    await t.subagents.followup(t.root, childId, 'More.', options);
    expect(looks).toBe(1);
    await t.gone(childId);
  });

  it('interrupts nobody, and says so of what is no id', async () => {
    await using t = await continuing();
    const { subagents, root } = t;
    const user = { kind: 'user', parentSessionId: root.id } as const;
    for (const id of ['', undefined, null, 7, {}] as never[]) {
      expect(() => subagents.interrupt(id, user)).toThrow(expect.objectContaining(INVALID));
    }
    // An id that nobody has is nothing to stop; so is that of a root, whoever says it is its parent.
    subagents.interrupt('nobody' as never, user);
    subagents.interrupt(root.id, user);
    expect(() => subagents.interrupt(root.id, { kind: 'ancestor', agent: root })).toThrow(
      expect.objectContaining({ code: 'UNAUTHORIZED' }),
    );
  });

  it('is not told anything where a drain is under way, nor when it is over', async () => {
    const hold = gate();
    await using t = await continuing({ script: holding({ 'Work.': hold }) });
    const { childId } = await t.start();
    await hold.arrived();
    const drained = t.subagents.drainContinuableDescendants([t.root]);
    const refused = expect.objectContaining({
      code: 'DRAINING',
      message: expect.stringContaining('is being ended, or was ended for good') as string,
    }) as unknown;
    expect(await rejection(t.tell(childId, 'More.'))).toEqual(refused);
    hold.open();
    await drained;
    expect(await rejection(t.tell(childId, 'More.'))).toEqual(refused);
    expect(await rejection(t.start())).toEqual(refused);
  });

  it('is a task as a text as well, and no other kind of thing', async () => {
    await using t = await continuing();
    const { childId } = await t.start({ request: { prompt: 'Say it.' } });
    const child = t.agents.get(childId)!;
    await t.gone(childId);
    expect(told(child)).toEqual(['Say it.']);
    for (const prompt of [7, {}, ' ', []] as never[]) {
      expect(await rejection(t.start({ request: { prompt } }))).toMatchObject(INVALID);
    }
  });

  it('is no label and no id that nobody could read', async () => {
    await using t = await continuing();
    for (const given of [
      { label: ' ' },
      { label: 'x'.repeat(257) },
      { childId: 'x'.repeat(257) },
    ]) {
      expect(await rejection(t.subagents.startContinuable(specOf(t.root, given)))).toMatchObject(
        INVALID,
      );
    }
    expect(t.agents.list()).toEqual([t.root]);
  });
});

it('settles as failed though it is interrupted right after its turn has failed', async () => {
  const hold = gate();
  await using t = await continuing({
    script: (request) =>
      taskOf(request) === 'Fail.' ? { hold, throws: new Error('The model broke.') } : 'Done.',
  });
  const { childId } = await t.start({ request: { prompt: [text('Fail.')] } });
  const child = t.agents.get(childId)!;
  await hold.arrived();
  await t.tell(childId, 'Second.');
  const interrupted = gate();
  t.harness.on('agent/error', ({ agent, turn }) => {
    if (agent !== child || turn === undefined) return;
    // The turn has ended, and the loop has not asked for the next one.
    queueMicrotask(() => {
      t.subagents.interrupt(childId, { kind: 'user', parentSessionId: t.root.id });
      interrupted.open();
    });
  });
  hold.open();
  await interrupted.wait();
  await t.gone(childId);
  expect(t.edges).toEqual(['start', 'end error']);
});
