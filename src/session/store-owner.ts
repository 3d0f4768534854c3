import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import type { SessionId } from '../../protocol/ids.ts';
import { StoreError } from '../../protocol/errors.ts';
import { newId } from '../base/ids.ts';

/** Who holds a session: one open handle of one process. */
export interface StoreOwner {
  readonly host: string;
  readonly pid: number;
  /** Tells a process from a later one of the same pid; `null` where the system does not say. */
  readonly startedAt: string | null;
  readonly handle: string;
}

/** A new owner in this process. */
export function newOwner(): StoreOwner {
  return {
    host: `${hostname()}/${pidNamespace()}`,
    pid: process.pid,
    startedAt: startOf(process.pid) ?? null,
    handle: newId(),
  };
}

/** Why a session that the file says is held by `text` may not be taken; absent when it may. */
export function heldElsewhere(
  id: SessionId,
  text: string,
  leaseUntil: number,
  observer: StoreOwner,
  now: number,
): StoreError | undefined {
  const owner = parseOwner(text);
  const isOver = owner === undefined ? leaseUntil <= now : isGone(owner, observer, leaseUntil, now);
  if (isOver) return undefined;
  const who = owner === undefined ? 'another version' : `process ${owner.pid} on ${owner.host}`;
  const left = Math.ceil((leaseUntil - now) / 1_000);
  const lease = left > 0 ? `its lease runs for ${left} s` : 'its lease is over, but it lives';
  return new StoreError(
    'SESSION_OWNED_ELSEWHERE',
    `Session \`${id}\` is held by ${who}; ${lease}.`,
  );
}

/**
 * Whether an owner can write no more. On one host its process is looked at: a busy process that
 * missed its lease is still alive. Of another host, or without a start time to tell processes of
 * one pid apart, only the lease is known.
 */
function isGone(owner: StoreOwner, observer: StoreOwner, leaseUntil: number, now: number): boolean {
  const isExpired = leaseUntil <= now;
  if (owner.host !== observer.host) return isExpired;
  if (!isAlive(owner.pid)) return true;
  if (owner.startedAt === null) return isExpired;
  const startedAt = startOf(owner.pid);
  return startedAt === undefined ? isExpired : startedAt !== owner.startedAt;
}

function parseOwner(text: string): StoreOwner | undefined {
  try {
    const owner = JSON.parse(text) as Partial<StoreOwner> | null;
    return typeof owner?.host === 'string' && Number.isSafeInteger(owner.pid)
      ? { startedAt: null, handle: '', ...(owner as Pick<StoreOwner, 'host' | 'pid'>) }
      : undefined;
  } catch {
    // Not something this version wrote: its lease alone counts.
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  return !/^[ZX]/.test(statOf(pid)?.[0] ?? '');
}

/** Clock ticks from boot to the start of a process. */
const startOf = (pid: number): string | undefined => statOf(pid)?.[19];

/** The fields after the command's name, which may hold blanks and brackets; `state` is first. */
function statOf(pid: number): readonly string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    // No such process, or no such file system.
    return undefined;
  }
}

/** Containers may share a file and a host name; pids mean something within one of these only. */
function pidNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid');
  } catch {
    // A system without namespaces.
    return '';
  }
}
