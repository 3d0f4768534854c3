import { describe, expect, it } from 'vitest';
import { Hooks } from '../../src/base/hooks.ts';
import { Scope } from '../../src/base/scope.ts';

interface Shapes {
  ask: { readonly context: { readonly agent: unknown }; readonly decision: string };
  other: { readonly context: { readonly agent: unknown }; readonly decision: void };
}
const agent = { name: 'A' };
const chains = (): Hooks<Shapes> => new Hooks<Shapes>(['ask', 'other']);
const ask = (hooks: Hooks<Shapes>, of: unknown = agent): Promise<string> =>
  hooks.run('ask', { agent: of }, () => 'last');

describe('hooks', () => {
  it('wrap one another in the order they came, a prepended one outermost', async () => {
    const hooks = chains();
    hooks.on('ask', async (_, next) => `a(${await next()})`);
    hooks.on('ask', async (_, next) => `b(${await next()})`);
    hooks.on('ask', async (_, next) => `c(${await next()})`, { prepend: true });
    expect(await ask(hooks)).toBe('c(a(b(last)))');
  });

  it('decide alone when they do not ask on', async () => {
    const hooks = chains();
    hooks.on('ask', () => 'mine');
    hooks.on('ask', () => expect.unreachable());
    expect(await ask(hooks)).toBe('mine');
  });

  it('leave the decision to the rest when they return nothing', async () => {
    const hooks = chains();
    let asked = 0;
    hooks.on('ask', () => void asked++);
    hooks.on('ask', async (_, next) => void (await next()));
    expect([await ask(hooks), asked]).toEqual(['last', 1]);
  });

  it('ask the rest of the chain once, however often they want to know', async () => {
    const hooks = chains();
    let lasts = 0;
    hooks.on('ask', async (_, next) => `${await next()}${await next()}`);
    expect(await hooks.run('ask', { agent }, () => String(++lasts))).toBe('11');
  });

  it('fail what they were asked about when they throw', async () => {
    const hooks = chains();
    hooks.on('ask', () => {
      throw new Error('no');
    });
    await expect(ask(hooks)).rejects.toThrow('no');
  });

  it('are asked about their own agent only, and about no agent that has ended', async () => {
    const hooks = chains();
    hooks.on('ask', () => 'mine', { agent });
    expect([await ask(hooks), await ask(hooks, {})]).toEqual(['mine', 'last']);
    expect([hooks.has('ask', agent), hooks.has('ask', {}), hooks.has('other', agent)]).toEqual([
      true,
      false,
      false,
    ]);
    hooks.forget(agent);
    expect([await ask(hooks), hooks.has('ask', agent)]).toEqual(['last', false]);
  });

  it('are fixed when the chain is begun', async () => {
    const hooks = chains();
    hooks.on('ask', (_, next) => {
      off();
      hooks.on('ask', () => 'late');
      return next();
    });
    const off = hooks.on('ask', () => 'second');
    expect(await ask(hooks)).toBe('second');
    expect(await ask(hooks)).toBe('late');
  });

  it('end with their disposer or their scope, whichever comes first', async () => {
    const hooks = chains();
    const scope = new Scope();
    const off = hooks.on('ask', () => 'a', { scope });
    hooks.on('ask', () => 'b', { scope });
    off();
    off();
    expect(await ask(hooks)).toBe('b');
    await scope.dispose();
    expect(await ask(hooks)).toBe('last');
    expect(() => hooks.on('ask', () => 'c', { scope })).toThrow('disposed');
    expect(await ask(hooks)).toBe('last');
  });

  it('leave nothing unhandled when they ask on and do not wait', async () => {
    const hooks = chains();
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    try {
      hooks.on('ask', (_, next) => {
        void next();
        return 'mine';
      });
      hooks.on('ask', () => Promise.reject(new Error('nobody waits for it')));
      expect(await ask(hooks)).toBe('mine');
      // Told when the queue of microtasks is empty.
      await new Promise((resolve) => setImmediate(resolve));
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', note);
    }
  });

  it('are refused when there is no such hook, or no function', () => {
    const hooks = chains();
    expect(() => hooks.on('asked' as 'ask', () => 'x')).toThrow('there are: ask, other');
    expect(() => hooks.on('ask', 'x' as never)).toThrow('is a function');
  });
});
