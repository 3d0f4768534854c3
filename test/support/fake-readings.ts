import type { ProcessReadings, Stock } from '../../src/worker-host/process-readings.ts';

const MIB = 1024 * 1024;
/** Faults of one MiB, in pages of 4 KiB. */
const FAULTS = 256;

/** A process whose numbers are what the test says. */
export class FakeReadings implements ProcessReadings {
  rss = 100 * MIB;
  memory = 16_000 * MIB;
  free = 16_000 * MIB;
  /** Nothing can be read: no descriptor is left. */
  isBlind = false;
  /** There is no `/proc`. */
  hasProc = true;
  mapsStock: Stock | undefined = { used: 1_000, most: 65_530 };
  descriptorStock: Stock | undefined = { used: 30, most: 20_000 };
  /** How often anything was read that costs something. */
  reads = 0;
  readonly #threads = new Map<number, { cpuMs: number; minorFaults: number }>();
  #faults = 0;
  #ofMain = 0;
  #ofHelpers = 0;
  #busyMs = 0;

  /** This thread, main, or somebody without a name has so much more (or less) of the process. */
  grows(tid: number | 'main' | 'somebody', mib: number): void {
    this.rss += mib * MIB;
    const faults = Math.max(0, mib) * FAULTS;
    this.#faults += faults;
    if (tid === 'main') this.#ofMain += faults;
    if (tid !== 'somebody') this.works(tid, 20, faults);
  }

  /** It takes so much, and gives it back. */
  churns(tid: number, mib: number): void {
    this.#faults += mib * FAULTS;
    this.works(tid, 20, mib * FAULTS);
  }

  /** The engine's helpers put so much somewhere. */
  helpersMove(mib: number): void {
    this.rss += mib * MIB;
    this.#faults += mib * FAULTS;
    this.#ofHelpers += mib * FAULTS;
  }

  works(tid: number | 'main', cpuMs: number, faults = 0): void {
    if (tid === 'main') {
      this.#busyMs += cpuMs;
      return;
    }
    const { cpuMs: before = 0, minorFaults = 0 } = this.#threads.get(tid) ?? {};
    this.#threads.set(tid, { cpuMs: before + cpuMs, minorFaults: minorFaults + faults });
  }

  rssBytes(): number | undefined {
    this.reads++;
    return this.isBlind ? undefined : this.rss;
  }

  /** As its engine tells it. */
  own = 20 * MIB;
  readonly pageBytes = 4_096;

  ownBytes(): number {
    return this.own;
  }

  thread(tid: number): { cpuMs: number; minorFaults: number } | undefined {
    this.reads++;
    if (this.isBlind || !this.hasProc) return undefined;
    return { cpuMs: 0, minorFaults: 0, ...this.#threads.get(tid) };
  }

  process(): { cpuMs: number; minorFaults: number } | undefined {
    this.reads++;
    if (this.isBlind || !this.hasProc) return undefined;
    return { cpuMs: 0, minorFaults: this.#faults };
  }

  main(): { cpuMs: number; minorFaults: number } | undefined {
    return this.hasProc ? { cpuMs: 0, minorFaults: this.#ofMain } : undefined;
  }

  helpers(): { cpuMs: number; minorFaults: number } | undefined {
    return this.hasProc ? { cpuMs: 0, minorFaults: this.#ofHelpers } : undefined;
  }

  mainBusyMs(): number {
    return this.#busyMs;
  }

  memoryBytes(): number {
    return this.memory;
  }

  freeBytes(): number {
    return this.free;
  }

  maps(): Stock | undefined {
    this.reads++;
    return this.mapsStock;
  }

  descriptors(): Stock | undefined {
    this.reads++;
    return this.descriptorStock;
  }
}
