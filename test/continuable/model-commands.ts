/** What is done to children, at once to the model and to the harness. */
import * as fc from 'fast-check';
import type { Member, Model } from './model.ts';
import type { Real } from './model-real.ts';

type Seen = Pick<Model, 'root' | 'members' | 'children' | 'residents'>;
type Command = fc.AsyncCommand<Model, Real>;
const DEEPEST = 4;
const MANY = 12;

/** One of those that `among` finds; the command is left out where it finds none. */
function command(
  name: string,
  pick: number,
  among: (model: Seen) => readonly Member[],
  act: (member: Member, model: Model, real: Real) => Promise<void>,
): Command {
  return {
    check: (model) => among(model).length > 0,
    async run(model, real) {
      const choices = among(model);
      const member = choices[pick % choices.length]!;
      real.did.push(`${name} ${member.id}`);
      await act(member, model, real);
      await real.agrees(model);
    },
    // Whom it was done to goes by what came before: what failed says it.
    toString: () => `${name} #${pick}`,
  };
}

/** What is refused below a root that is being drained leaves all as it is. */
async function unlessDrained(
  owner: Member,
  ask: () => Promise<void>,
  then: () => void,
): Promise<void> {
  const code = await ask().then(
    () => 'accepted',
    (error: { code?: string }) => error.code ?? String(error),
  );
  const expected = owner.isDrained ? 'DRAINING' : 'accepted';
  if (code !== expected) throw new Error(`It is ${code}, should be ${expected}.`);
  if (code === 'accepted') then();
}

const start = (pick: number, provider: string): Command =>
  command(
    provider,
    pick,
    (model) =>
      model.members.length > MANY ? [] : model.residents.filter(({ depth }) => depth < DEEPEST),
    (parent, model, real) => {
      const token = model.newMessage();
      const id = `c${model.members.length}`;
      return unlessDrained(
        parent,
        () => real.start(parent, id, provider, token),
        () => void model.start(parent, token),
      );
    },
  );

const followup = (pick: number): Command =>
  command(
    'tell',
    pick,
    ({ members }) => members.filter(({ parent }) => parent?.isResident ?? true),
    (member, model, real) => {
      const token = model.newMessage();
      // The root itself takes messages until it is gone.
      if (member.parent === undefined) {
        return real.followup(member, token).then(() => model.followup(member, token));
      }
      return unlessDrained(
        member.parent,
        () => real.followup(member, token),
        () => model.followup(member, token),
      );
    },
  );

const report = (pick: number, delivery: 'quiet' | 'wakeup' | 'next-step'): Command =>
  command(
    `report ${delivery} of`,
    pick,
    ({ children }) => children.filter(isResident),
    (child, model, real) => {
      const token = model.newMessage();
      return unlessDrained(
        child,
        () => real.report(child, token, delivery),
        () => model.report(child, token, delivery),
      );
    },
  );

const interrupt = (pick: number, above: number): Command =>
  command(
    above === 0 ? 'user interrupts' : 'ancestor interrupts',
    pick,
    ({ children }) => children.filter(({ parent }) => parent!.isResident),
    async (child, model, real) => {
      let by = above === 0 ? undefined : child.parent!;
      for (let left = above - 1; left > 0 && by?.parent !== undefined; left--) by = by.parent;
      real.interrupt(child, by);
      model.interrupt(child);
    },
  );

const crash = (pick: number): Command =>
  command(
    'crash',
    pick,
    ({ residents }) => residents,
    async (member, model, real) => {
      await real.crash(member, pick);
      model.crash(member);
    },
  );

const answer = (pick: number, how: 'answer' | 'fail'): Command =>
  command(
    how,
    pick,
    ({ residents }) => residents.filter(({ isInTurn }) => isInTurn),
    async (member, model, real) => {
      real.answer(member, how);
      model.answer(member, how === 'fail');
    },
  );

const drain = (pick: number): Command =>
  command(
    'drain',
    pick,
    ({ children }) => children.filter(({ parent }) => parent!.isResident),
    async (child, model, real) => {
      const parent = child.parent!;
      // An idle parent may hear of the second end in the turn of the first, or in one of its own.
      const chosen = parent.isInTurn ? parent.children : [child];
      await real.drain(parent, chosen);
      for (const one of chosen) model.drain(one);
    },
  );

const drainBelow = (pick: number): Command =>
  command(
    'drain below',
    pick,
    ({ residents }) => residents,
    async (member, model, real) => {
      await real.drainBelow(member);
      model.drainBelow(member);
    },
  );

const restart: Command = command(
  'restart',
  0,
  ({ root }) => [root],
  async (_, model, real) => {
    await real.restart();
    model.restart();
  },
);

const isResident = (member: Member): boolean => member.isResident;
const DELIVERIES = ['quiet', 'wakeup', 'next-step'] as const;

export function commands(most: number, replayPath?: string) {
  const pick = fc.nat(999);
  const often = (arbitrary: fc.Arbitrary<Command>): fc.Arbitrary<Command>[] => [
    arbitrary,
    arbitrary,
    arbitrary,
  ];
  return fc.commands(
    [
      ...often(fc.tuple(pick, fc.constantFrom('spawn', 'spawn', 'fork')).map((of) => start(...of))),
      ...often(pick.map(followup)),
      ...often(pick.map((of) => answer(of, 'answer'))),
      fc.tuple(pick, fc.constantFrom(...DELIVERIES)).map((of) => report(...of)),
      fc.tuple(pick, fc.constantFrom(...DELIVERIES)).map((of) => report(...of)),
      fc.tuple(pick, fc.nat(3)).map((of) => interrupt(...of)),
      fc.tuple(pick, fc.nat(3)).map((of) => interrupt(...of)),
      pick.map((of) => answer(of, 'fail')),
      pick.map(crash),
      pick.map(drain),
      pick.map(drainBelow),
      fc.constant(restart),
    ],
    { maxCommands: most, size: 'max', ...(replayPath === undefined ? {} : { replayPath }) },
  );
}
