import { describe, expect, it } from 'vitest';
import { CancelFlag } from '../../protocol/cancel-flag.ts';

describe('CancelFlag', () => {
  it('is seen by whoever shares its buffer', () => {
    const main = new CancelFlag();
    const worker = new CancelFlag(main.buffer);
    expect(worker.isRaised(1)).toBe(false);
    expect(worker.causeOf(1)).toBeUndefined();
    main.raise(1, 'parent');
    expect(worker.isRaised(1)).toBe(true);
    expect(worker.causeOf(1)).toBe('parent');
  });

  it('keeps the first cause of a turn', () => {
    const flag = new CancelFlag();
    expect(flag.raise(3, 'user')).toBe(true);
    expect(flag.raise(3, 'limit')).toBe(false);
    expect(flag.causeOf(3)).toBe('user');
  });

  it('says nothing about the turn after the one it was raised for', () => {
    const flag = new CancelFlag();
    flag.raise(3, 'user');
    expect(flag.isRaised(4)).toBe(false);
    expect(flag.raise(4, 'hook')).toBe(true);
    expect(flag.causeOf(4)).toBe('hook');
  });

  it('stays raised for a turn when a later one is raised', () => {
    const flag = new CancelFlag();
    flag.raise(3, 'user');
    flag.raise(4, 'limit');
    expect(flag.isRaised(3)).toBe(true);
  });

  it('is raised for every turn when the agent is disposed', () => {
    const flag = new CancelFlag();
    flag.raiseForEver('disposed');
    expect(flag.isRaised(1)).toBe(true);
    expect(flag.isRaised(0x0fff_fffe)).toBe(true);
    expect(flag.causeOf(7)).toBe('disposed');
    expect(flag.raise(7, 'user')).toBe(false);
  });

  it.each(['user', 'parent', 'hook', 'disposed', 'limit'] as const)(
    'carries the cause %s',
    (cause) => {
      const flag = new CancelFlag();
      flag.raise(0x0fff_fffe, cause);
      expect(flag.causeOf(0x0fff_fffe)).toBe(cause);
      expect(flag.isRaised(0x0fff_ffff)).toBe(false);
    },
  );
});
