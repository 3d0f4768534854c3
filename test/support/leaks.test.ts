import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { beforeAll, describe, expect, it } from 'vitest';
import { leaksSince, trackLeak } from './leaks.ts';
import { takeSnapshot } from './open-things.ts';

const vitest = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url));
const config = fileURLToPath(new URL('fixtures/vitest.config.ts', import.meta.url));

interface Report {
  readonly testResults: readonly {
    readonly message: string;
    readonly assertionResults: readonly {
      readonly title: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

describe('a run of tests that leave things open', () => {
  let report: Report;
  const failureOf = (title: string): string | undefined => {
    const test = report.testResults[0]?.assertionResults.find((each) => each.title === title);
    if (test === undefined) throw new Error(`The run has no test "${title}".`);
    return test.status === 'passed' ? undefined : test.failureMessages.join('\n');
  };

  beforeAll(async () => {
    const output = await new Promise<string>((resolve) => {
      const args = [vitest, 'run', '--config', config, '--reporter=json'];
      execFile(process.execPath, args, (_failed, stdout) => resolve(stdout));
    });
    report = JSON.parse(output) as Report;
  }, 60_000);

  it.each([
    ['leaves a thread that does not hold the loop', /1 × threads.*a thread was made .*leaky/s],
    ['leaves a port', /port made .*leaky\.fixture/],
    ['leaves a port that does not hold the loop', /port made .*leaky\.fixture/],
    ['leaves a timer', /timer made .*leaky\.fixture/],
    ['leaves a timer that does not hold the loop', /timer made .*leaky\.fixture/],
    ['leaves a file', /1 × descriptors/],
    ['leaves a server', /1 × descriptors/],
    ['leaves a child process', /1 × child processes/],
    ['leaves an entry in the census', /1 × open store/],
  ])('fails the test that %s', (title, complaint) => {
    expect(failureOf(title)).toMatch(complaint);
  });

  it('passes a test that closed all it opened, and the first test that starts a thread', () => {
    expect(failureOf('leaves nothing')).toBeUndefined();
  });
});

it('lets what is being closed finish closing', async () => {
  const before = takeSnapshot();
  const worker = new Worker('setInterval(() => {}, 1_000)', { eval: true });
  await new Promise((resolve) => worker.once('online', resolve));
  void worker.terminate();
  expect(await leaksSince(before)).toEqual([]);
});

it('asks the checks that a test has added', async () => {
  const before = takeSnapshot();
  const stop = trackLeak(() => 'a thing of the test');
  const leaks = await leaksSince(before);
  stop();
  expect(leaks).toEqual(['a thing of the test']);
});
