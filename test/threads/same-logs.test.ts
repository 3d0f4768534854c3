/** The same scenarios on every plane. Where a loop runs, and where its model, no log tells. */
import { describe, expect, it } from 'vitest';
import * as distribution from '../../dist/src/index.js';
import * as source from '../../src/index.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { testHarness } from '../support/harness.ts';
import { RETRY, playOn, scriptOf } from '../support/plane.ts';
import type { Library, PlaneParts, PlannedAnswer, Played, Scenario } from '../support/plane.ts';
import { scenarios } from '../support/planes.ts';
import { fixture, realRoot } from './real.ts';

const options = ({ tools }: Scenario, library: Library) => ({
  defaultModel: { provider: 'parent', model: 'test' },
  workers: { warm: 0 },
  tools: tools?.(library) ?? [],
});

function modelsOf<Model>(
  { models }: Scenario,
  model: (answers: readonly PlannedAnswer[]) => Model,
): Record<string, Model> {
  return Object.fromEntries(
    Object.entries(models).map(([name, answers]) => [name, model(answers)]),
  );
}

const onMain = (answers: readonly PlannedAnswer[]) =>
  scriptedModel(scriptOf(answers), { retryPolicy: RETRY });
const inThread = (answers: readonly PlannedAnswer[]) => ({
  module: fixture('plane-model.mjs'),
  options: { answers, retryPolicy: RETRY },
});

async function inProcess(scenario: Scenario): Promise<Played> {
  await using t = await testHarness({
    ...options(scenario, source),
    models: modelsOf(scenario, onMain),
  });
  return await playOn(scenario, { library: source, harness: t.harness, root: t.root });
}

async function inRealThreads(
  scenario: Scenario,
  model: typeof onMain | typeof inThread,
): Promise<Played> {
  // The built package has classes of its own; what they do is the same.
  const library = distribution as unknown as Library;
  const given = { ...options(scenario, library), models: modelsOf<unknown>(scenario, model) };
  await using real = await realRoot(given as distribution.HarnessOptions);
  return await playOn(scenario, { ...(real as unknown as PlaneParts), library });
}

describe('every agent has the same log on every plane', () => {
  it.each(scenarios)('$name', async (scenario) => {
    const expected = await inProcess(scenario);
    expect(await inRealThreads(scenario, onMain)).toStrictEqual(expected);
    expect(await inRealThreads(scenario, inThread)).toStrictEqual(expected);
  });
});
