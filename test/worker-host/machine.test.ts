import { describe, expect, it } from 'vitest';
import { MachineCapacity } from '../../src/worker-host/machine.ts';
import { processReadings } from '../../src/worker-host/process-readings.ts';
import { FakeReadings } from '../support/fake-readings.ts';
import { ManualClock } from '../support/manual-clock.ts';

const MIB = 1024 * 1024;

function machine() {
  const clock = new ManualClock();
  const readings = new FakeReadings();
  const capacity = new MachineCapacity({ clock, readings, budgetBytes: () => 12_000 * MIB });
  return { clock, readings, capacity };
}

describe('the capacity of a machine', () => {
  it.each([
    ['memory maps', { used: 1_000, most: 65_530 }, undefined, 1_162],
    ['memory maps', { used: 60_000, most: 65_530 }, undefined, 27],
    ['descriptors', undefined, { used: 50, most: 256 }, 28],
    ['descriptors', { used: 1_000, most: 65_530 }, { used: 900, most: 1_024 }, 12],
    ['memory', undefined, undefined, 1_190],
  ] as const)('is bound by %s', (bound, maps, descriptors, most) => {
    const { readings, capacity } = machine();
    readings.mapsStock = maps;
    readings.descriptorStock = descriptors;
    expect([capacity.most(0), capacity.bound]).toEqual([most, bound]);
  });

  it('is what lives, when nothing more has room', () => {
    const { readings, capacity } = machine();
    readings.rss = 12_500 * MIB;
    expect(capacity.most(7)).toBe(7);
  });

  it('is bound by what others on the machine leave', () => {
    const { readings, capacity } = machine();
    readings.free = 95 * MIB;
    expect([capacity.most(3), capacity.bound]).toEqual([12, 'memory']);
  });

  it('counts threads that are young with what they will take', () => {
    const { readings, capacity } = machine();
    readings.mapsStock = { used: 20 * 1_000, most: 65_530 };
    expect(capacity.most(1_000)).toBe(1_000 + Math.floor((65_530 - 4_096 - 52_000) / 52));
  });

  it('is read again after a second, and not before', async () => {
    const { clock, readings, capacity } = machine();
    const most = capacity.most(0);
    readings.mapsStock = { used: 65_000, most: 65_530 };
    await clock.advance(999);
    expect(capacity.most(0)).toBe(most);
    await clock.advance(1);
    expect(capacity.most(0)).toBe(0);
  });

  it('allows some threads on this very machine', () => {
    const { clock } = machine();
    const budgetBytes = (): number => processReadings.memoryBytes();
    const capacity = new MachineCapacity({ clock, readings: processReadings, budgetBytes });
    expect(capacity.most(0)).toBeGreaterThan(2);
    expect(capacity.most(0)).toBeLessThan(100_000);
  });
});
