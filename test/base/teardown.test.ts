import { describe, expect, it } from 'vitest';
import { StoreError, SubagentError } from '../../protocol/errors.ts';
import { assertTornDown } from '../../src/base/teardown.ts';
import { Scope } from '../../src/base/scope.ts';
import { testHarness } from '../support/harness.ts';

const thrownBy = (run: () => void): unknown => {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
};

describe('a teardown', () => {
  it('says nothing when nothing failed', () => {
    expect(thrownBy(() => assertTornDown('The store', []))).toBeUndefined();
  });

  it('passes on a single failure that has a code', () => {
    const full = new StoreError('STORE_FULL', 'No space.');
    expect(thrownBy(() => assertTornDown('The store', [full]))).toBe(full);
  });

  it('gives a code to a single failure without one, and keeps it as the cause', () => {
    const error = thrownBy(() => assertTornDown('The store', ['boom']));
    expect(error).toBeInstanceOf(SubagentError);
    expect(error).toMatchObject({
      code: 'ACTIVATION_TEARDOWN_FAILED',
      message: 'The store did not end cleanly: boom',
      cause: 'boom',
    });
  });

  it('tells of several failures as one, with all of them as its cause', () => {
    const failures = [new StoreError('STORE_IO', 'Locked.'), new Error('boom')];
    const error = thrownBy(() => assertTornDown('The agent "a"', failures)) as SubagentError;
    expect(error.code).toBe('ACTIVATION_TEARDOWN_FAILED');
    expect(error.message).toBe('The agent "a" did not end cleanly: Locked.; boom');
    expect((error.cause as AggregateError).errors).toEqual(failures);
  });
});

describe('a scope', () => {
  it('runs every disposer and tells of the failed ones as one error with a code', async () => {
    const ran: string[] = [];
    const scope = new Scope();
    for (const name of ['a', 'b', 'c']) {
      scope.add(() => {
        ran.push(name);
        if (name !== 'b') throw new Error(name);
      });
    }
    const error = (await scope.dispose().catch((thrown: unknown) => thrown)) as SubagentError;
    expect(ran).toEqual(['c', 'b', 'a']);
    expect(error).toMatchObject({ name: 'SubagentError', code: 'ACTIVATION_TEARDOWN_FAILED' });
    expect((error.cause as AggregateError).errors).toHaveLength(2);
  });
});

describe('an agent whose parts cannot be let go', () => {
  const boom = (what: string) => (): never => {
    throw new Error(what);
  };

  it('rejects its disposal with a class and a code, its children included', async () => {
    await using rt = await testHarness();
    const { agents } = rt.harness;
    const parent = await agents.create({ setup: (scope) => scope.onDispose(boom('parent')) });
    const { agent: owner } = parent;
    await agents.create({ owner, setup: (scope) => scope.onDispose(boom('child')) });

    const error = (await parent.dispose().catch((thrown: unknown) => thrown)) as SubagentError;
    expect(error).toMatchObject({ name: 'SubagentError', code: 'ACTIVATION_TEARDOWN_FAILED' });
    expect(error.message).toMatch(/child.*parent/);
    const { errors } = error.cause as AggregateError;
    expect(errors.map((each: SubagentError) => (each.cause as Error).message)).toEqual([
      'child',
      'parent',
    ]);
    expect(agents.list()).toEqual([rt.root]);
  });

  it('rejects the disposal of its harness the same way, after all was let go', async () => {
    const rt = await testHarness();
    const { agents } = rt.harness;
    await agents.create({ setup: (scope) => scope.onDispose(boom('one')) });
    await agents.create({ setup: (scope) => scope.onDispose(boom('two')) });
    await expect(rt.harness.dispose()).rejects.toMatchObject({
      name: 'SubagentError',
      code: 'ACTIVATION_TEARDOWN_FAILED',
      cause: { errors: [{ cause: { message: 'one' } }, { cause: { message: 'two' } }] },
    });
    expect(agents.list()).toEqual([]);
  });
});
