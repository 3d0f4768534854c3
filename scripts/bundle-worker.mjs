/** Bundle the thread entry into one small file: a thread pays for every module it loads. */
import { rolldown } from 'rolldown';

const bundle = await rolldown({
  input: 'dist/workers/agent-worker.js',
  platform: 'node',
  logLevel: 'warn',
});
// Errors are named by their classes.
await bundle.write({ file: 'dist/agent-worker.js', format: 'esm', minify: true, keepNames: true });
await bundle.close();
