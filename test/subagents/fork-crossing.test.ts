import { describe, expect, it, vi } from 'vitest';
import { scriptedModel } from '../../src/models/scripted.ts';
import { forking, moduleModel, shown } from './forking.ts';
import { lookTool } from './spawning.ts';
import { text } from './stubs.ts';

describe('what crosses to the thread of a fork', () => {
  /** Run a fork to its end; all that was posted to its thread, as text. */
  const crossing = async (t: Awaited<ReturnType<typeof forking>>, more = {}) => {
    const run = await t.start(more);
    const { init, ports } = t.threads.of(run.id);
    const posted: unknown[] = [init];
    const post = ports!.main.postMessage.bind(ports!.main);
    vi.spyOn(ports!.main, 'postMessage').mockImplementation((value, transfer) => {
      posted.push(value);
      post(value, transfer);
    });
    const result = await run.result;
    await run.dispose();
    return { result, crossed: JSON.stringify(posted) };
  };

  it('is nothing of what it inherited when its model is on main', async () => {
    await using t = await forking({ script: ['Parent-said.', 'Done.'] });
    await t.ask('Parent-asked?');
    const { result, crossed } = await crossing(t);
    expect(result.output).toEqual([text('Done.')]);
    expect(shown(t.model.requests[1]!)).toContain('user: Parent-asked?');
    expect(crossed).toContain('enter');
    expect(crossed).not.toContain('Parent-');
  });

  it('is what its model is shown, once, when that runs there', async () => {
    const { tool } = lookTool();
    const model = scriptedModel([{ toolCalls: [{ name: 'look', arguments: {} }] }, 'Done.']);
    await using t = await forking({
      tools: [tool],
      script: ['Parent-said.'],
      models: { module: moduleModel },
      threads: { import: async () => ({ default: model }) },
    });
    await t.ask('Parent-asked?');
    const agentOptions = { provider: 'module', model: 'm' };
    const { result, crossed } = await crossing(t, { agentOptions });
    expect(result.output).toEqual([text('Done.')]);
    for (const request of model.requests) {
      expect(shown(request)).toEqual(
        expect.arrayContaining(['user: Parent-asked?', 'assistant: Parent-said.']),
      );
    }
    expect(crossed.match(/Parent-\w+/g)).toEqual(['Parent-asked', 'Parent-said']);
  });
});
