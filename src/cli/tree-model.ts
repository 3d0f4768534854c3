/** The agents of one run, or of one store, as data: a fold over what is told. Knows no terminal. */
import type { RowListing, RuntimeEvent, SessionEvent } from '../index.ts';
import { delegationLabel, foldEnd, foldEvent } from './tree-fold.ts';
import { applyStatus, nameOf, newRow, rowOfDiagnostic, rowOfSession } from './tree-row.ts';
import type { AgentRow, RowFailure } from './tree-row.ts';

/** A delegation that brought no result, with or without a child of its own. */
export interface FailedRun extends RowFailure {
  readonly label: string;
}

type EventOf<T extends RuntimeEvent['type']> = Extract<RuntimeEvent, { type: T }>;
type DataOf<T extends SessionEvent['type']> = Extract<SessionEvent, { type: T }>['data'];

export class TreeModel {
  readonly #rows = new Map<string, AgentRow>();
  /** Calls that ask for a child: the row that stands for it until there is one, if it still does. */
  readonly #delegations = new Map<string, AgentRow>();
  /** Delegations whose call failed, with the agent that made it. */
  readonly #unanswered: (FailedRun & { readonly by: AgentRow })[] = [];
  #roots: AgentRow[] = [];
  /** Of a store, whose roots go on: the one root of a run is done with its turn. */
  #isStore = false;

  get root(): AgentRow | undefined {
    return this.#roots[0];
  }

  /** Those without a parent here, in the order in which they were told of. */
  get roots(): readonly AgentRow[] {
    return this.#roots;
  }

  get rows(): readonly AgentRow[] {
    return [...this.#rows.values()];
  }

  row(id: string): AgentRow | undefined {
    return this.#rows.get(id);
  }

  /** Children that did not complete, and delegations that were refused a child. */
  failures(): readonly FailedRun[] {
    const failed = this.rows.filter(
      ({ parent, failure }) => parent !== undefined && failure !== undefined,
    );
    // Either can be told first: what a call tells again of its child counts once.
    const told = new Set<AgentRow>();
    const refused = this.#unanswered.filter(({ by, label }) => {
      const child = by.children.find(
        (each) => each.label === label && each.failure !== undefined && !told.has(each),
      );
      if (child !== undefined) told.add(child);
      return child === undefined;
    });
    return [
      ...failed.map(({ label, failure }) => ({ label, ...(failure as RowFailure) })),
      ...refused.map(({ label, code, message }) => ({ label, code, message })),
    ];
  }

  /** Begin anew with what there is: it takes the place of all that was told before. */
  reset({ rows, diagnostics }: RowListing): void {
    this.#rows.clear();
    this.#delegations.clear();
    this.#unanswered.length = 0;
    this.#roots = [];
    this.#isStore = true;
    const made = [...rows.map(rowOfSession), ...diagnostics.map(rowOfDiagnostic)];
    for (const row of made) this.#rows.set(row.id, row);
    for (const row of made) this.#place(row);
  }

  apply(event: RuntimeEvent): void {
    switch (event.type) {
      case 'session/created':
        return this.#create(event);
      case 'session/event': {
        const row = this.#rows.get(event.session);
        if (row !== undefined) this.#fold(row, event.event);
        return;
      }
      case 'session/status': {
        const row = this.#rows.get(event.session);
        if (row !== undefined) applyStatus(row, event);
        return;
      }
      case 'subagent/start':
        return this.#start(event);
      case 'subagent/end': {
        const row = this.#rows.get(event.id);
        if (row !== undefined) foldEnd(row, event.stopReason, event.time);
        return;
      }
      case 'agent/error': {
        const row = this.#rows.get(event.session);
        if (row !== undefined) row.error = { code: event.code, message: event.message };
        return;
      }
      default:
        event satisfies never;
    }
  }

  #create({ session: id, parent, time, label }: EventOf<'session/created'>): void {
    const again = this.#rows.get(id);
    if (again !== undefined) {
      again.state = 'starting';
      return;
    }
    const isBelow = parent !== undefined && this.#rows.has(parent);
    const row = newRow({
      id,
      parent,
      label: label ?? (isBelow ? nameOf(id) : 'root'),
      startedAt: time,
      goesOn: parent === undefined && this.#isStore,
    });
    this.#rows.set(id, row);
    this.#place(row);
    if (label !== undefined) this.#arrived(row, label);
  }

  #start({ id, parent, label, local, time }: EventOf<'subagent/start'>): void {
    let row = this.#rows.get(id);
    if (row === undefined) {
      if (local) return;
      row = newRow({ id, parent, label: nameOf(id), startedAt: time, state: 'running' });
      this.#rows.set(id, row);
      this.#place(row);
    }
    row.label = label ?? row.label;
    this.#arrived(row, row.label);
  }

  #fold(row: AgentRow, event: SessionEvent): void {
    foldEvent(row, event);
    if (event.type === 'tool/call') this.#ask(row, event.data, event.time);
    if (event.type === 'tool/result') this.#answer(row, event.data);
    // What was asked for and has no child by now gets none.
    if (event.type === 'turn/end') {
      for (const asked of row.children.filter(({ state }) => state === 'queued')) {
        this.#remove(asked);
      }
    }
  }

  /** A child is asked for: it waits for a thread until it is told of. */
  #ask(row: AgentRow, { name, callId, arguments: args }: DataOf<'tool/call'>, time: number): void {
    const label = delegationLabel(name, args);
    if (label === undefined) return;
    const id = askedId(row, callId);
    const made = { id, parent: row.id, label, startedAt: time } as const;
    const asked = newRow({ ...made, state: 'queued', hasSession: false });
    this.#delegations.set(id, asked);
    this.#rows.set(id, asked);
    this.#place(asked);
  }

  /** The child that was asked for under this label is here. */
  #arrived(row: AgentRow, label: string): void {
    const above = row.parent === undefined ? undefined : this.#rows.get(row.parent);
    const asked = above?.children.find(
      (each) => each.state === 'queued' && each.label === label && this.#delegations.has(each.id),
    );
    if (asked !== undefined) this.#remove(asked);
  }

  #answer(row: AgentRow, { message, error }: DataOf<'tool/result'>): void {
    const key = askedId(row, message.source.callId);
    const asked = this.#delegations.get(key);
    this.#delegations.delete(key);
    if (asked === undefined) return;
    this.#remove(asked);
    const block = message.content[0];
    if (block?.type !== 'tool-result' || block.isError !== true) return;
    const text = block.content.map((part) => (part.type === 'text' ? part.text : '')).join('');
    const { label } = asked;
    this.#unanswered.push({ by: row, label, code: error?.code ?? 'FAILED', message: text });
  }

  /** Idempotent. */
  #remove(row: AgentRow): void {
    if (!this.#rows.delete(row.id)) return;
    const siblings = this.#siblingsOf(row);
    siblings.splice(siblings.indexOf(row), 1);
  }

  #place(row: AgentRow): void {
    this.#siblingsOf(row).push(row);
  }

  #siblingsOf({ parent }: AgentRow): AgentRow[] {
    const above = parent === undefined ? undefined : this.#rows.get(parent);
    return above?.children ?? this.#roots;
  }
}

/** No session is named like this: what is printed of an id has no such character. */
const askedId = ({ id }: AgentRow, callId: string): string => `${id}\0${callId}`;
