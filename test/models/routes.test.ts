import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { DEFAULT_RETRY_POLICY } from '../../protocol/retry-policy.ts';
import { ModelRoutes } from '../../src/models/routes.ts';
import { scriptedModel } from '../../src/models/scripted.ts';

const module = new URL('./my-model.js', import.meta.url);
const sdkModel = (specificationVersion: string) =>
  ({ specificationVersion, provider: 'p', modelId: 'm', doStream: async () => ({}) }) as never;

describe('ModelRoutes', () => {
  it('runs objects on main and modules in the thread', () => {
    const adapter = scriptedModel([]);
    const routes = new ModelRoutes({ script: adapter, inThread: { module, options: { a: 1 } } });
    expect(routes.names()).toEqual(['script', 'inThread']);
    expect(routes.resolve('script')).toEqual({
      kind: 'host',
      provider: 'script',
      adapter,
      retryPolicy: DEFAULT_RETRY_POLICY,
    });
    expect(routes.resolve('inThread')).toEqual({
      kind: 'module',
      provider: 'inThread',
      module: { url: module.href, options: { a: 1 } },
      retryPolicy: DEFAULT_RETRY_POLICY,
    });
    expect(routes.resolve('constructor')).toBeUndefined();
  });

  it('takes AI SDK models of three versions, and providers that name them', () => {
    const routes = new ModelRoutes({
      two: sdkModel('v2'),
      three: sdkModel('v3'),
      four: sdkModel('v4'),
      provider: { languageModel: () => sdkModel('v3') },
    });
    expect(routes.names().map((name) => routes.resolve(name)?.kind)).toEqual(
      Array.from({ length: 4 }, () => 'host'),
    );
  });

  it("keeps an adapter's own retry policy", () => {
    const retryPolicy = { ...DEFAULT_RETRY_POLICY, maxRetries: 0 };
    const routes = new ModelRoutes({ script: scriptedModel([], { retryPolicy }) });
    expect(routes.resolve('script')?.retryPolicy).toEqual(retryPolicy);
    expect(Object.isFrozen(retryPolicy)).toBe(false);
  });

  it('copies the options of a module', () => {
    const options = { list: [1] };
    const routes = new ModelRoutes({ m: { module, options } });
    options.list.push(2);
    expect(routes.resolve('m')).toMatchObject({ module: { options: { list: [1] } } });
  });

  it('withdraws only what was registered, however often', () => {
    const routes = new ModelRoutes();
    const withdraw = routes.register('a', scriptedModel([]));
    expect(() => routes.register('a', scriptedModel([]))).toThrow('registered already');
    withdraw();
    routes.register('a', { module });
    withdraw();
    expect(routes.resolve('a')?.kind).toBe('module');
  });

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'it is undefined'],
    ['a name', 'gpt-5', 'a name is no model'],
    ['an empty object', {}, 'an object with neither `stream` nor `doStream`'],
    ['a function', () => {}, 'a function with neither `stream` nor `doStream`'],
    ['an old AI SDK model', sdkModel('v1'), 'v2, v3 and v4 are supported, not v1'],
    ['a path', { module: './my-model.js' }, 'must be a file: URL object'],
    ['a web address', { module: new URL('https://h/m.js') }, 'must be a file: URL object'],
    ['a module of null', { module: null }, 'must be a file: URL object'],
    ['options that are no data', { module, options: { run: () => {} } }, 'must be data'],
    ['a broken policy', { stream: () => {}, retryPolicy: { maxRetries: -1 } }, 'retry policy'],
  ])('refuses %s and says what to give', (_name, source, message) => {
    const make = () => new ModelRoutes({ mine: source as never });
    expect(make).toThrow(ArgumentError);
    expect(make).toThrow(message);
    expect(make).toThrow('"mine"');
  });

  it.each(['', 'x'.repeat(257)])('refuses an unusable name', (name) => {
    expect(() => new ModelRoutes({ [name]: scriptedModel([]) })).toThrow(ArgumentError);
  });
});
