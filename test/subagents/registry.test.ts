import { describe, expect, it } from 'vitest';
import { ArgumentError, HarnessError, SubagentError } from '../../protocol/errors.ts';
import { Scope } from '../../src/base/scope.ts';
import type { SubagentProvider } from '../../src/subagents/provider.ts';
import { ProviderRegistry } from '../../src/subagents/registry.ts';
import { completed, recordingLogger, stubProvider, stubRun, testRuntime } from './stubs.ts';

const newRegistry = () => {
  const logger = recordingLogger();
  return { logger, registry: new ProviderRegistry(logger) };
};

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

describe('ProviderRegistry', () => {
  it('resolves a provider from its registration to its disposal, and tells of both', async () => {
    const { subagents, request } = testRuntime();
    const told: unknown[] = [];
    subagents.on('subagent/provider-added', (provider) => told.push(['added', provider]));
    subagents.on('subagent/provider-removed', (name) => told.push(['removed', name]));
    const { run, settle } = stubRun();
    const { provider } = stubProvider({ start: async () => run });

    const dispose = subagents.registerProvider(provider);
    expect(subagents.list()).toEqual(['stub']);
    expect(subagents.getProvider('stub')).toBe(provider);
    expect(await subagents.start('stub', request())).toBe(run);
    settle(completed());
    dispose();
    dispose();

    expect(subagents.getProvider('stub')).toBeUndefined();
    expect(subagents.list()).toEqual([]);
    expect(told).toEqual([
      ['added', provider],
      ['removed', 'stub'],
    ]);
  });

  it('lists names in the order of their registration', () => {
    const { registry } = newRegistry();
    registry.register(stubProvider({ name: 'b' }).provider);
    const dispose = registry.register(stubProvider({ name: 'a' }).provider);
    registry.register(stubProvider({ name: 'c' }).provider);
    dispose();
    registry.register(stubProvider({ name: 'a' }).provider);
    expect(registry.names()).toEqual(['b', 'c', 'a']);
  });

  it('undoes a registration whose listener throws, and says nothing of a removal', () => {
    const { registry } = newRegistry();
    const removed: string[] = [];
    registry.observers.on('subagent/provider-added', () => {
      throw new Error('not this one');
    });
    registry.observers.on('subagent/provider-removed', (name) => removed.push(name));
    expect(() => registry.register(stubProvider({}).provider)).toThrow('not this one');
    expect(registry.get('stub')).toBeUndefined();
    expect(removed).toEqual([]);
  });

  it('keeps the first provider when a second one wants its name', () => {
    const { registry } = newRegistry();
    const first = stubProvider({}).provider;
    registry.register(first);
    expect(() => registry.register(stubProvider({}).provider)).toThrow(
      expect.objectContaining({ name: 'SubagentError', code: 'DUPLICATE_PROVIDER' }),
    );
    expect(registry.get('stub')).toBe(first);
  });

  it('does not remove a later provider of the same name through an old disposer', () => {
    const { registry } = newRegistry();
    const dispose = registry.register(stubProvider({}).provider);
    dispose();
    const second = stubProvider({}).provider;
    registry.register(second);
    dispose();
    expect(registry.get('stub')).toBe(second);
  });

  it('tells every listener of a removal, whatever the others throw', async () => {
    const { registry, logger } = newRegistry();
    const unprintable = Object.create(null) as object;
    const told: string[] = [];
    registry.observers.on('subagent/provider-removed', () => {
      throw new Error('at once');
    });
    registry.observers.on('subagent/provider-removed', () => Promise.reject(new Error('later')));
    registry.observers.on('subagent/provider-removed', () => {
      throw unprintable;
    });
    registry.observers.on('subagent/provider-removed', (name) => told.push(name));
    registry.register(stubProvider({}).provider)();
    await Promise.resolve();
    expect(told).toEqual(['stub']);
    expect(logger.warnings.map(({ error }) => error?.message).sort()).toEqual([
      '[unprintable object]',
      'at once',
      'later',
    ]);
  });

  it.each<[string, () => unknown]>([
    ['an object without a text', () => Object.create(null)],
    ['a symbol', () => Symbol('odd')],
    [
      'an object whose text throws',
      () => ({
        toString() {
          throw new Error('no text');
        },
      }),
    ],
    ['a proxy that was revoked', revoked],
    [
      'an error whose message throws',
      () =>
        Object.defineProperty(new Error('hidden'), 'message', {
          get() {
            throw new Error('no message');
          },
        }),
    ],
  ])('survives a listener that throws %s', async (_, thrown) => {
    const { registry, logger } = newRegistry();
    registry.observers.on('subagent/provider-removed', () => {
      throw thrown();
    });
    registry.observers.on('subagent/provider-removed', async () => {
      throw thrown();
    });
    registry.register(stubProvider({}).provider)();
    await new Promise((resolve) => setImmediate(resolve));
    expect(logger.warnings).toHaveLength(2);
    for (const { error } of logger.warnings) expect(typeof error!.message).toBe('string');
  });

  it('loses a provider with the scope that its registration was added to', async () => {
    const { registry } = newRegistry();
    const scope = new Scope();
    scope.add(registry.register(stubProvider({}).provider));
    await scope.dispose();
    expect(registry.names()).toEqual([]);
  });

  it.each([
    ['nothing', undefined],
    ['an empty name', { ...stubProvider({}).provider, name: '' }],
    ['no start', { ...stubProvider({}).provider, start: undefined }],
    ['no capabilities', { ...stubProvider({}).provider, capabilities: undefined }],
    ['a missing flag', { ...stubProvider({}).provider, capabilities: { persona: true } }],
    ['a preparation that is no method', { ...stubProvider({}).provider, prepareContinuable: {} }],
    ['no word on context', { ...stubProvider({}).provider, inheritsParentContext: undefined }],
  ])('refuses a provider with %s', (_, provider) => {
    const { registry } = newRegistry();
    expect(() => registry.register(provider as unknown as SubagentProvider)).toThrow(ArgumentError);
    expect(registry.names()).toEqual([]);
  });

  it('throws errors that carry their class and their code', () => {
    const error = new SubagentError('NO_PROVIDER', 'none');
    expect(error).toBeInstanceOf(HarnessError);
    expect(error.name).toBe('SubagentError');
    expect(error.code).toBe('NO_PROVIDER');
  });
});
