/**
 * What holds of who owns whom, whatever is started, told, ended and brought back: real children of
 * one harness in this process, and a plain list of them beside it. `npm run test:properties` plays
 * `RUNS` lists of acts; `SEED` and `RUN_PATH` play one again.
 *
 * What each agent is told, and that a log is gone on with at any prefix, is shown elsewhere:
 * `continuable/model.test.ts` and `session/log-laws.test.ts`.
 */
import { deepStrictEqual as same } from 'node:assert/strict';
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import type { SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { defineTool } from '../../protocol/tool.ts';
import { family, prompt, signal } from '../continuable/family.ts';
import type { Family } from '../continuable/family.ts';

const RUNS = Number(process.env['RUNS'] ?? 60);
const { SEED, RUN_PATH } = process.env;
const NAMES = ['a', 'b', 'c', 'd', 'e'] as const;

interface Limits {
  readonly maxDepth: number;
  readonly maxLiveChildren: number | undefined;
  readonly maxTotalChildren: number | undefined;
}

type Act =
  | { readonly kind: 'start'; readonly of: number; readonly filter: Filter; readonly fork: boolean }
  | { readonly kind: 'start together'; readonly of: number; readonly count: number }
  | { readonly kind: 'run'; readonly of: number; readonly isAborted: boolean }
  | { readonly kind: 'end' | 'end below' | 'bring back'; readonly of: number };
interface Filter {
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
}

interface Member {
  readonly id: string;
  readonly parent: Member | undefined;
  readonly depth: number;
  readonly filter: Filter;
  isLive: boolean;
}

const aName = fc.subarray([...NAMES], { minLength: 1 });
const aFilter: fc.Arbitrary<Filter> = fc.oneof(
  fc.constant({}),
  aName.map((allow) => ({ allow })),
  aName.map((deny) => ({ deny })),
);
const of = fc.nat(999);
const anAct: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('start'), of, filter: aFilter, fork: fc.boolean() }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('start together'),
      of,
      count: fc.integer({ min: 2, max: 6 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('run'), of, isAborted: fc.boolean() }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom('end', 'end', 'end below', 'bring back', 'bring back'),
      of,
    }),
  },
) as fc.Arbitrary<Act>;
const someLimits: fc.Arbitrary<Limits> = fc.record({
  maxDepth: fc.integer({ min: 0, max: 4 }),
  maxLiveChildren: fc.option(fc.integer({ min: 0, max: 6 }), { nil: undefined }),
  maxTotalChildren: fc.option(fc.integer({ min: 0, max: 9 }), { nil: undefined }),
});

/** What happened, and what should have. */
class Tree {
  readonly #family: Family;
  readonly #limits: Limits;
  readonly root: Member;
  readonly members: Member[] = [];
  /** Children that were ever made below the root, those that only ran included. */
  made = 0;
  readonly #seenIds = new Set<string>();
  #gone: string[] = [];
  #starts: string[] = [];

  constructor(of: Family, limits: Limits) {
    this.#family = of;
    this.#limits = limits;
    this.root = { id: of.rt.root.id, parent: undefined, depth: 0, filter: {}, isLive: true };
    this.members.push(this.root);
    const { harness } = of.rt;
    harness.on('agent/disposed', ({ agent }) => void this.#gone.push(agent.id));
    harness.on('subagent/start', ({ id }) => void this.#starts.push(id));
  }

  async do(act: Act): Promise<void> {
    const live = this.members.filter(({ isLive }) => isLive);
    const pick = <T>(from: readonly T[]): T | undefined => from[act.of % Math.max(1, from.length)];
    switch (act.kind) {
      case 'start':
        await this.#start(pick(live)!, act.filter, act.fork ? 'fork' : 'spawn');
        break;
      case 'start together':
        await this.#startTogether(pick(live)!, act.count);
        break;
      case 'run':
        await this.#run(pick(live)!, act.isAborted);
        break;
      case 'end': {
        const child = pick(live.slice(1));
        if (child !== undefined) await this.#end(child);
        break;
      }
      case 'end below':
        await this.#endBelow(pick(live)!);
        break;
      case 'bring back': {
        const gone = this.members.filter(({ isLive, parent }) => !isLive && parent!.isLive);
        const child = pick(gone);
        if (child !== undefined) await this.#bringBack(child);
        break;
      }
    }
    this.#check();
  }

  /** Why one more child of this parent is refused, if it is. */
  #refusal(parent: Member, isNew: boolean, together = 0): string | undefined {
    const { maxDepth, maxLiveChildren = Infinity, maxTotalChildren = Infinity } = this.#limits;
    if (parent.depth + 1 > maxDepth) return 'DEPTH_EXCEEDED';
    if (isNew && this.made + together >= maxTotalChildren) return 'CAPACITY';
    const live = this.members.filter(({ isLive }) => isLive).length - 1;
    return live + together >= maxLiveChildren ? 'CAPACITY' : undefined;
  }

  async #start(parent: Member, filter: Filter, provider: string): Promise<void> {
    const refused = this.#refusal(parent, true);
    const isFiltered = filter.allow !== undefined || filter.deny !== undefined;
    const started = this.#family.rt.harness.subagents.startContinuable({
      provider,
      label: 'one',
      signal: signal(),
      request: {
        parent: this.#agent(parent),
        prompt: prompt('Hold.'),
        ...(isFiltered ? { toolFilter: filter } : {}),
      },
    });
    const { id, code } = await started.then(
      ({ childId }) => ({ id: childId as string, code: undefined }),
      (error: { code: string }) => ({ id: undefined, code: error.code }),
    );
    same([`start below ${parent.depth}`, code], [`start below ${parent.depth}`, refused]);
    if (id !== undefined) this.#add(id, parent, filter);
  }

  async #startTogether(parent: Member, count: number): Promise<void> {
    const refused = Array.from({ length: count }, (_, at) => this.#refusal(parent, true, at));
    const starts = refused.map(() =>
      this.#family.rt.harness.subagents.startContinuable({
        provider: 'spawn',
        label: 'one of some',
        signal: signal(),
        request: { parent: this.#agent(parent), prompt: prompt('Hold.') },
      }),
    );
    const ends = await Promise.allSettled(starts);
    const codes = ends.map((end) =>
      end.status === 'fulfilled' ? undefined : (end.reason as { code: string }).code,
    );
    // Which of them it is is nobody's promise; how many is.
    same(
      codes.filter((code) => code === undefined).length,
      refused.filter((code) => code === undefined).length,
    );
    for (const end of ends)
      if (end.status === 'fulfilled') this.#add(end.value.childId, parent, {});
  }

  async #run(parent: Member, isAborted: boolean): Promise<void> {
    const refused = this.#refusal(parent, true);
    const controller = new AbortController();
    const started = this.#family.rt.harness.subagents.start('spawn', {
      parent: this.#agent(parent),
      prompt: prompt(isAborted ? 'Hold.' : 'Work.'),
      signal: controller.signal,
    });
    const run = await started.catch((error: { code: string }) => error);
    if (!('result' in run)) return same(run.code, refused);
    same(refused, undefined);
    this.made++;
    this.#knows(run.id);
    if (isAborted) controller.abort(new Error('Enough.'));
    same((await run.result).stopReason, isAborted ? 'aborted' : 'completed');
    await run.dispose();
    // It had no children; nobody else is gone.
    same(this.#gone, [run.id]);
  }

  async #end(child: Member): Promise<void> {
    const { subagents } = this.#family.rt.harness;
    const parent = this.#agent(child.parent!);
    await subagents.drainContinuableChildren(parent, [child.id as SessionId]);
    this.#ended(this.#below(child, true));
  }

  async #endBelow(member: Member): Promise<void> {
    const { subagents } = this.#family.rt.harness;
    const agent = this.#agent(member);
    await subagents.drainContinuableDescendants([agent]);
    this.#ended(this.#below(member, false));
    // What was drained below takes nothing on any more, so it has no part in what follows.
    if (member.parent === undefined) this.isOver = true;
    else await this.#end(member);
  }
  isOver = false;

  async #bringBack(child: Member): Promise<void> {
    const refused = this.#refusal(child.parent!, false);
    this.#starts = [];
    const parent = this.#agent(child.parent!);
    const tell = () => this.#family.tell(parent, child.id as SessionId, 'Hold.');
    // Twice in one tick is once: the second finds who was brought back for the first.
    const told = await Promise.allSettled([tell(), tell()]);
    const codes = told.map((one) =>
      one.status === 'fulfilled' ? undefined : (one.reason as { code: string }).code,
    );
    same(codes, [refused, refused]);
    if (refused !== undefined) return;
    same(this.#starts, [child.id]);
    child.isLive = true;
  }

  #below(member: Member, isIncluded: boolean): Member[] {
    const isBelow = (one: Member | undefined): boolean =>
      one !== undefined && (one === member || isBelow(one.parent));
    return this.members.filter(
      (one) => one.isLive && isBelow(one) && (isIncluded || one !== member),
    );
  }

  /** Exactly these are gone, children first. */
  #ended(members: readonly Member[]): void {
    same(this.#gone.toSorted(), members.map(({ id }) => id).toSorted());
    for (const { id, parent } of members) {
      const at = this.#gone.indexOf(parent!.id);
      if (at !== -1) same(this.#gone.indexOf(id) < at, true);
    }
    for (const member of members) member.isLive = false;
    this.#gone = [];
  }

  #add(id: string, parent: Member, filter: Filter): void {
    this.made++;
    this.#knows(id);
    this.members.push({ id, parent, depth: parent.depth + 1, filter, isLive: true });
  }

  /** No id is ever given twice. */
  #knows(id: string): void {
    same(this.#seenIds.has(id), false);
    this.#seenIds.add(id);
  }

  #agent({ id }: Member): Agent {
    const agent = this.#family.rt.harness.agents.get(id as SessionId);
    if (agent === undefined) throw new Error(`${id} does not live.`);
    return agent;
  }

  /** Those that live are those that should, below whom they should, with the tools they may have. */
  #check(): void {
    const { harness, model } = this.#family.rt;
    const live = this.members.filter(({ isLive }) => isLive);
    this.#gone = [];
    same(
      harness.agents
        .list()
        .map(({ id }) => id)
        .toSorted(),
      live.map(({ id }) => id as SessionId).toSorted(),
    );
    const tools = new Map<string, readonly string[]>();
    for (const { sessionId, tools: shown = [] } of model.requests) {
      const names = shown.map(({ name }) => name).filter((name) => isOurs(name));
      tools.set(sessionId!, names);
    }
    for (const member of live) {
      const { header } = this.#agent(member).session;
      same(header.parentSession, member.parent?.id);
      const shown = tools.get(member.id);
      if (shown !== undefined) same(shown, allowed(member));
      const above = member.parent === undefined ? undefined : allowed(member.parent);
      if (above !== undefined && shown !== undefined) {
        same(
          shown.filter((name) => !above.includes(name)),
          [],
        );
      }
    }
  }
}

const isOurs = (name: string): boolean => (NAMES as readonly string[]).includes(name);

/** What this one may use: what all above it may, and its own filter lets through. */
function allowed(member: Member | undefined): string[] {
  if (member === undefined) return [...NAMES];
  const { allow = NAMES, deny = [] } = member.filter;
  return allowed(member.parent).filter((name) => allow.includes(name) && !deny.includes(name));
}

it(
  'holds for every list of acts: a forest within its caps, whose parts end as a whole, children first',
  { timeout: 60_000 + RUNS * 500 },
  async () => {
    let started = 0;
    let brought = 0;
    await fc.assert(
      fc.asyncProperty(
        someLimits,
        fc.array(anAct, { minLength: 1, maxLength: 14, size: 'max' }),
        async (limits, acts) => {
          const caps = Object.fromEntries(
            Object.entries(limits).filter(([, most]) => most !== undefined),
          );
          await using t = await family({ limits: { ...caps }, tools: NAMES.map(tool) });
          const tree = new Tree(t, limits);
          for (const act of acts) {
            if (tree.isOver) break;
            await tree.do(act);
            if (act.kind === 'bring back') brought++;
          }
          started += tree.made;
          t.held.open();
        },
      ),
      {
        numRuns: RUNS,
        includeErrorInReport: true,
        ...(SEED === undefined ? {} : { seed: Number(SEED) }),
        ...(RUN_PATH === undefined ? {} : { path: RUN_PATH }),
      },
    );
    expect(started).toBeGreaterThan(RUNS);
    expect(brought).toBeGreaterThan(0);
  },
);

const tool = (name: string) =>
  defineTool({ name, description: name, parameters: { type: 'object' }, execute: () => name });
