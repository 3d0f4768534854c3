/**
 * A provider of your own. Its children are processes; they could as well be requests to a service.
 *
 *     node dist/src/examples/custom-provider.js
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
// In your program: 'subagent-runtime'.
import { ArgumentError, createHarness, SessionId, textOf } from '../index.ts';
import type { SubagentProvider, SubagentResult } from '../index.ts';

/** What a child runs: it answers in capitals; some tasks are too much for it. */
const PROGRAM = `process.stdin.setEncoding('utf8').on('data', (task) => {
  if (task === 'wait') return setInterval(() => {}, 1000);
  if (task === 'fail') process.exit(3);
  process.stdout.write(task.toUpperCase(), () => process.exit(0));
});`;

const processes: SubagentProvider = {
  name: 'process',
  // What it cannot do is refused before it is called, so that nothing is silently left out.
  capabilities: { outputSchema: false, depthLimit: false, toolFilter: false, persona: false },
  inheritsParentContext: false,

  async start({ prompt, signal }) {
    // Validate first: what is refused here has built nothing.
    const task = textOf(prompt);
    if (task === '') throw new ArgumentError('A process takes a task of text.');
    signal.throwIfAborted();

    const child = spawn(process.execPath, ['-e', PROGRAM], { stdio: ['pipe', 'pipe', 'ignore'] });
    // Ready, or not there at all: then this rejects.
    await once(child, 'spawn');
    const ended = Promise.all([once(child, 'close'), text(child.stdout)]);
    const cancel = (): void => void child.kill('SIGKILL');
    if (signal.aborted) {
      // Aborted while it started: take it back, then reject with the caller's reason.
      cancel();
      await ended;
      signal.throwIfAborted();
    }
    signal.addEventListener('abort', cancel, { once: true });
    child.stdin.on('error', () => {}); // It ended before it read: its exit code says why.
    child.stdin.end(task);

    // From here on nothing rejects: whatever becomes of the child is a result.
    const result = ended.then(([[code], said]): SubagentResult => {
      signal.removeEventListener('abort', cancel);
      const output = said === '' ? [] : [{ type: 'text' as const, text: said }];
      if (code === 0) return { output, stopReason: 'completed' };
      if (child.killed) return { output, stopReason: 'aborted' };
      return { output, stopReason: 'error', diagnostic: `EXITED: with ${code}` };
    });
    // Idempotent; when it resolves the process is gone.
    const dispose = async (): Promise<void> => {
      cancel();
      await result;
    };
    // Not an agent of this harness, so no `localAgent`.
    return { id: SessionId(`process-${child.pid}`), localAgent: undefined, result, dispose };
  },
};

await using harness = await createHarness({ providers: [processes] });
await using host = await harness.agents.createHost();
harness.on('subagent/end', ({ provider, stopReason }) => console.log(provider, stopReason));

async function delegate(task: string, signal = AbortSignal.timeout(60_000)) {
  const prompt = [{ type: 'text' as const, text: task }];
  const run = await harness.subagents.start('process', { parent: host.agent, prompt, signal });
  return run.result.finally(() => run.dispose());
}

const { output } = await delegate('hello');
assert.equal(textOf(output), 'HELLO');
assert.equal((await delegate('fail')).diagnostic, 'EXITED: with 3');

const stopped = new AbortController();
harness.on('subagent/start', () => stopped.abort());
assert.equal((await delegate('wait', stopped.signal)).stopReason, 'aborted');

await assert.rejects(delegate(''), { code: 'INVALID_ARGUMENT' });
console.log('all as expected');
