import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ReceiveWindow, SendWindow } from '../../protocol/window.ts';

describe('SendWindow', () => {
  it('is closed after as many frames as it has, and open again after one is taken', () => {
    const window = new SendWindow({ frames: 2, bytes: 100 });
    window.spend(1);
    expect(window.isOpen).toBe(true);
    window.spend(1);
    expect(window.isOpen).toBe(false);
    expect(window.acknowledge(1)).toBe(true);
    expect(window.isOpen).toBe(true);
    expect(window.framesInFlight).toBe(1);
  });

  it('is closed by bytes, after at most one frame too many', () => {
    const window = new SendWindow({ frames: 10, bytes: 100 });
    window.spend(99);
    expect(window.isOpen).toBe(true);
    window.spend(500);
    expect(window.isOpen).toBe(false);
    window.acknowledge(1);
    expect(window.isOpen).toBe(false);
    window.acknowledge(2);
    expect(window.isOpen).toBe(true);
  });

  it.each([-1, 0.5, 3, Number.NaN, Number.POSITIVE_INFINITY])(
    'refuses an acknowledgement of %d and is unchanged',
    (taken) => {
      const window = new SendWindow({ frames: 2, bytes: 100 });
      window.spend(1);
      window.spend(1);
      expect(window.acknowledge(taken)).toBe(false);
      expect(window.isOpen).toBe(false);
    },
  );

  it('refuses an acknowledgement that takes back an earlier one', () => {
    const window = new SendWindow({ frames: 2, bytes: 100 });
    window.spend(1);
    expect(window.acknowledge(1)).toBe(true);
    expect(window.acknowledge(1)).toBe(true);
    expect(window.acknowledge(0)).toBe(false);
  });
});

describe('ReceiveWindow', () => {
  it('has nothing to acknowledge until something is taken, and tells each count once', () => {
    const window = new ReceiveWindow({ frames: 2, bytes: 100 });
    window.receive(1);
    expect(window.acknowledgement()).toBeUndefined();
    window.take();
    expect(window.acknowledgement()).toBe(1);
    expect(window.acknowledgement()).toBeUndefined();
  });

  it('notices frames posted without credit', () => {
    const window = new ReceiveWindow({ frames: 2, bytes: 100 });
    expect(window.receive(1)).toBe(true);
    expect(window.receive(1)).toBe(true);
    // Taken here, but the sender was not told: it had no right to a third.
    window.take();
    expect(window.receive(1)).toBe(false);
  });

  it('notices bytes posted without credit', () => {
    const window = new ReceiveWindow({ frames: 10, bytes: 100 });
    expect(window.receive(150)).toBe(true);
    expect(window.receive(1)).toBe(false);
  });

  it('never acknowledges more than has arrived', () => {
    const window = new ReceiveWindow({ frames: 2, bytes: 100 });
    window.receive(1);
    window.take();
    window.take();
    expect(window.acknowledgement()).toBe(1);
  });
});

it('an honest sender is never refused, and never stuck, whatever the sizes and the timing', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('post'), bytes: fc.integer({ min: 0, max: 60 }) }),
    fc.record({ kind: fc.constant('take'), bytes: fc.constant(0) }),
    fc.record({ kind: fc.constant('acknowledge'), bytes: fc.constant(0) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const size = { frames: 5, bytes: 100 };
      const sender = new SendWindow(size);
      const receiver = new ReceiveWindow(size);
      let sent = 0;
      let taken = 0;
      const acknowledge = (): void => {
        const count = receiver.acknowledgement();
        if (count !== undefined) expect(sender.acknowledge(count)).toBe(true);
      };
      for (const { kind, bytes } of steps) {
        if (kind === 'post' && sender.isOpen) {
          sender.spend(bytes);
          sent++;
          expect(receiver.receive(bytes)).toBe(true);
        } else if (kind === 'take' && taken < sent) {
          taken++;
          receiver.take();
        } else if (kind === 'acknowledge') {
          acknowledge();
        }
        expect(sender.framesInFlight).toBeLessThanOrEqual(size.frames);
      }
      for (; taken < sent; taken++) receiver.take();
      acknowledge();
      expect(sender.isOpen).toBe(true);
      expect(sender.framesInFlight).toBe(0);
    }),
  );
});
