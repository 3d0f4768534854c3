import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { owned, Scope } from '../../src/base/scope.ts';
import { gate } from '../support/gate.ts';

const gone = expect.objectContaining({ code: 'INVALID_ARGUMENT' });

describe('a scope', () => {
  it('undoes what it holds last-in first-out, one after another', async () => {
    const scope = new Scope();
    const ran: string[] = [];
    const held = gate();
    scope.add(() => void ran.push('first'));
    const reached = gate();
    scope.add(async () => {
      ran.push('second');
      reached.open();
      await held.wait();
      ran.push('second is done');
    });
    scope.add(() => void ran.push('third'));
    const disposal = scope.dispose();
    await reached.wait();
    expect(ran).toEqual(['third', 'second']);
    held.open();
    await disposal;
    expect(ran).toEqual(['third', 'second', 'second is done', 'first']);
  });

  it('is disposed once, and all who dispose it wait for that', async () => {
    const scope = new Scope();
    let ran = 0;
    scope.add(() => void ran++);
    const disposal = scope.dispose();
    expect(scope.dispose()).toBe(disposal);
    await scope[Symbol.asyncDispose]();
    expect(ran).toBe(1);
  });

  it('undoes nothing twice, however it is told to', async () => {
    const scope = new Scope();
    let ran = 0;
    const undo = scope.add(() => void ran++);
    await undo();
    await undo();
    await scope.dispose();
    await undo();
    expect(ran).toBe(1);
  });

  it('runs a function once for each time it was added', async () => {
    const scope = new Scope();
    let ran = 0;
    const disposer = (): void => void ran++;
    const undo = scope.add(disposer);
    scope.add(disposer);
    await undo();
    expect(ran).toBe(1);
    await scope.dispose();
    expect(ran).toBe(2);
  });

  it('does not undo what one of its disposers has undone', async () => {
    const scope = new Scope();
    let ran = 0;
    const undo = scope.add(() => void ran++);
    scope.add(() => undo());
    await scope.dispose();
    expect(ran).toBe(1);
  });

  it.each([
    ['the first', 0],
    ['the second', 1],
  ])('is disposed already for %s of its disposers', async (_which, index) => {
    const scope = new Scope();
    const seen: unknown[] = [];
    const look = (): void => {
      seen.push(scope.isDisposed);
      expect(() => scope.add(() => void seen.push('late'))).toThrow(gone);
      void scope.dispose();
    };
    const disposers = [look, () => void seen.push('other')];
    for (const disposer of index === 0 ? disposers.reverse() : disposers) scope.add(disposer);
    await scope.dispose();
    expect(seen.sort()).toEqual(['other', true].sort());
  });
});

describe('a registration', () => {
  /** A registry of one place; `observe` runs when something was put there. */
  function registry(observe: () => void = () => {}) {
    const log: string[] = [];
    const register = (): (() => void) => {
      log.push('registered');
      observe();
      return () => void log.push('undone');
    };
    return { log, register };
  }

  it('without an owner is undone by hand alone', () => {
    const { log, register } = registry();
    const undo = owned({}, register);
    expect(log).toEqual(['registered']);
    undo();
    expect(log).toEqual(['registered', 'undone']);
  });

  it('is undone with its owner', async () => {
    const { log, register } = registry();
    const scope = new Scope();
    owned({ scope }, register);
    await scope.dispose();
    expect(log).toEqual(['registered', 'undone']);
  });

  it('that was undone by hand is not undone with its owner', async () => {
    const { log, register } = registry();
    const scope = new Scope();
    const undo = owned({ scope }, register);
    undo();
    undo();
    await scope.dispose();
    expect(log).toEqual(['registered', 'undone']);
  });

  it('is refused before anything is registered when its owner is disposed', async () => {
    const { log, register } = registry();
    const scope = new Scope();
    await scope.dispose();
    expect(() => owned({ scope }, register)).toThrow(ArgumentError);
    expect(log).toEqual([]);
  });

  it('is refused while its owner is being disposed', async () => {
    const { log, register } = registry();
    const scope = new Scope();
    const held = gate();
    scope.add(() => held.wait());
    const disposal = scope.dispose();
    expect(() => owned({ scope }, register)).toThrow(gone);
    held.open();
    await disposal;
    expect(log).toEqual([]);
  });

  it('leaves nothing when an observer of it disposes its owner', async () => {
    const scope = new Scope();
    const { log, register } = registry(() => void scope.dispose());
    expect(() => owned({ scope }, register)).toThrow(gone);
    expect(log).toEqual(['registered', 'undone']);
    await scope.dispose();
    expect(log).toEqual(['registered', 'undone']);
  });

  it('that fails leaves nothing with its owner', async () => {
    const scope = new Scope();
    const failure = new Error('taken');
    const register = (): never => {
      throw failure;
    };
    expect(() => owned({ scope }, register)).toThrow(failure);
    await scope.dispose();
  });
});
