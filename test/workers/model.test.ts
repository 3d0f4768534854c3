import { describe, expect, it } from 'vitest';
import type { Message } from '../../protocol/content.ts';
import type { ModelCallReply } from '../../protocol/host-services.ts';
import { MessageId, StreamId } from '../../protocol/ids.ts';
import type { ModelAdapter, ModelPart, ModelRequest, RetryPolicy } from '../../protocol/model.ts';
import { gate } from '../../src/base/gate.ts';
import { claims, close, enter, fakeAgent } from '../support/fake-main.ts';
import type { FakeAgent, MainScript } from '../support/fake-main.ts';
import { begins, says } from '../support/parts.ts';

const message = (id: string): Message => ({
  id: MessageId(id),
  role: 'user',
  content: [{ type: 'text', text: id }],
  source: { kind: 'user' },
});
const here = (
  knownMessages: number,
  ids: readonly string[],
  more: Partial<ModelRequest> = {},
): ModelCallReply => ({
  route: 'here',
  stream: StreamId('here-1'),
  knownMessages,
  request: { provider: 'inThread', model: 'tiny', messages: ids.map(message), ...more },
});

function withModule(
  model: ModelAdapter,
  script: MainScript,
  more: Parameters<typeof fakeAgent>[0] = {},
): FakeAgent {
  return fakeAgent({
    ...more,
    modules: { 'file:///model.js': model },
    init: { modelModule: { url: 'file:///model.js' }, ...more.init },
    script: { claim: claims(enter(1), close(1)), openModel: () => here(0, ['m1']), ...script },
  });
}
function adapter(play: (request: ModelRequest) => readonly ModelPart[]): ModelAdapter {
  return {
    async *stream(request) {
      yield* play(request);
    },
  };
}

describe('a model that main holds', () => {
  it('gives back the credit of parts after they are consumed, also of late ones', async () => {
    const { main, stop } = fakeAgent({
      script: { claim: claims(enter(1), close(1)), openModel: () => says('done') },
    });
    main.wake();
    await main.untilSeen('turn/end');
    main.sendParts('stream-1', { type: 'text-delta', index: 0, text: 'late' });
    main.sendParts('stream-9', { type: 'text-delta', index: 0, text: 'unknown' });
    await main.until(() => main.partsInFlight === 0);
    await stop();
    expect(main.eventsOf('assistant/message')[0]?.parts).toBe(4);
  });

  it('loses no part that came in the same breath as the answer that names its stream', async () => {
    const t = fakeAgent({ mode: 'manual', script: { claim: claims(enter(1), close(1)) } });
    const run = async (): Promise<void> => {
      for (let turn = 0; turn < 12; turn++) {
        t.ports.flush();
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await run();
    t.main.wake();
    await run();
    await t.stop();
    expect(t.main.eventsOf('assistant/message')[0]).toMatchObject({
      parts: 2,
      message: { content: [{ type: 'text', text: 'done' }] },
    });
  });
});

describe('a model given as a module', () => {
  it('runs here and tells every part it gives', async () => {
    const t = withModule(
      adapter(() => says('a', 'b')),
      {},
    );
    t.main.wake();
    await t.main.untilSeen('turn/end');
    await t.stop();
    expect(t.main.trail.slice(2, 10)).toEqual([
      'openModel',
      ...Array.from({ length: 5 }, () => 'assistant/chunk'),
      'assistant/message',
      'step/end',
    ]);
    expect(t.main.eventsOf('assistant/chunk').map(({ chunk }) => chunk)).toEqual(says('a', 'b'));
    expect(t.main.eventsOf('assistant/message')[0]).toMatchObject({
      stream: 'here-1',
      parts: 5,
      message: { source: { provider: 'inThread', model: 'tiny' } },
    });
  });

  it('is shown its whole history, of which main sends only what is new', async () => {
    const seen: string[][] = [];
    const replies = [here(0, ['m1', 'm2']), here(2, ['m3']), here(1, ['n2'])];
    const t = withModule(
      adapter(({ messages }) => {
        seen.push(messages.map(({ id }) => id));
        return says('ok');
      }),
      {
        claim: claims(enter(1, 1), enter(1, 2), enter(1, 3), close(1)),
        openModel: () => replies.shift()!,
      },
    );
    t.main.wake();
    await t.main.untilSeen('turn/end');
    await t.stop();
    expect(seen).toEqual([
      ['m1', 'm2'],
      ['m1', 'm2', 'm3'],
      ['m1', 'n2'],
    ]);
  });

  it('fails as data when it throws', async () => {
    const t = withModule(
      adapter(() => {
        throw new Error('weights missing');
      }),
      {},
    );
    t.main.wake();
    await t.main.untilSeen('turn/end');
    await t.stop();
    expect(t.main.eventsOf('turn/end')[0]?.reason).toMatchObject({
      kind: 'error',
      error: { message: 'weights missing' },
    });
  });

  const policy = {
    maxRetries: 1,
    retryableCodes: ['BUSY'],
    initialDelayMs: 7,
    maxDelayMs: 7,
    jitterRatio: 0,
  };

  it('tells main of its own retry policy before it runs, and of nothing else in it', async () => {
    const retryPolicy = { ...policy, more: 1 };
    const t = withModule({ ...adapter(() => says()), retryPolicy }, {});
    await t.main.untilSeen('ready');
    await t.stop();
    expect(t.main.frames[0]).toEqual({ type: 'ready', tools: [], retryPolicy: policy });
  });

  it('tells of none when it has none', async () => {
    const t = withModule(
      adapter(() => says()),
      {},
    );
    await t.main.untilSeen('ready');
    await t.stop();
    expect(t.main.frames[0]).toEqual({ type: 'ready', tools: [] });
  });

  it.each([
    ['a negative number of retries', { maxRetries: -1 }],
    ['half a retry', { maxRetries: 0.5 }],
    ['codes that are no list', { retryableCodes: 'BUSY' }],
    ['a code that is no text', { retryableCodes: [429] }],
    ['no delay', { initialDelayMs: undefined }],
    ['an endless delay', { maxDelayMs: Infinity }],
    ['more jitter than delay', { jitterRatio: 1.5 }],
    ['nothing', null],
  ])('cannot be used with a retry policy of %s', async (_, wrong) => {
    const retryPolicy = (wrong === null ? null : { ...policy, ...wrong }) as RetryPolicy;
    const t = withModule({ ...adapter(() => says()), retryPolicy }, {});
    await t.main.untilSeen('fault');
    await t.agent.done;
    expect(t.main.frames.at(-1)).toMatchObject({
      error: { code: 'WORKER_START_FAILED', message: expect.stringContaining('"retryPolicy"') },
    });
  });

  it('is stopped at once by an interrupt, even while it hangs, and its prefix is kept', async () => {
    const hangs = gate();
    const t = withModule(
      {
        async *stream(_, { signal }) {
          yield* begins('Half');
          hangs.open();
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        },
      },
      {},
    );
    t.main.wake();
    await hangs.wait();
    t.flag.raise(1, 'user');
    t.main.send({ type: 'interrupt', turn: 1 });
    await t.main.untilSeen('turn/end');
    await t.stop();
    expect(t.main.eventsOf('assistant/message')[0]).toMatchObject({
      interrupted: true,
      message: { content: [{ type: 'text', text: 'Half' }] },
    });
  });

  it('is not asked for more while main gives no credit', async () => {
    let given = 0;
    const t = withModule(
      {
        async *stream() {
          yield* begins('');
          for (; given < 1_000; given++) {
            yield { type: 'text-delta', index: 0, text: 'x' };
            await new Promise((resolve) => setImmediate(resolve));
          }
        },
      },
      {},
      { init: { window: { frames: 4, bytes: 1_000_000 } } },
    );
    t.main.acknowledges = false;
    t.main.wake();
    await t.main.until(() => t.main.frames.filter(({ type }) => type === 'events').length === 4);
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(given).toBeLessThan(10);
    t.flag.raise(1, 'user');
    t.main.send({ type: 'interrupt', turn: 1 });
    t.main.acknowledges = true;
    t.main.acknowledge();
    await t.main.untilSeen('turn/end');
    await t.stop();
  });

  it('that is missing here is a failed request', async () => {
    const t = fakeAgent({
      script: { claim: claims(enter(1)), openModel: () => here(0, ['m1']) },
    });
    t.main.wake();
    await t.main.untilSeen('turn/end');
    await t.stop();
    expect(t.main.eventsOf('turn/end')[0]?.reason).toMatchObject({ error: { code: 'NO_ADAPTER' } });
  });
});
