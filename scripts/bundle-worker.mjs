/**
 * Bundle the thread entry into one small CommonJS file: a thread pays for every module it loads,
 * and for Node's ES module loader, which is then started only by who has modules to load.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const msgpackr = new URL('./pack.js', import.meta.resolve('msgpackr'));

const bundle = await rolldown({
  input: 'dist/workers/agent-worker.js',
  platform: 'node',
  logLevel: 'warn',
  // The same library as a module, of which only what is used gets in.
  resolve: { alias: { 'msgpackr/index-no-eval': fileURLToPath(msgpackr) } },
});
await bundle.write({ file: 'dist/agent-worker.cjs', format: 'cjs', minify: true });
await bundle.close();
writeFileSync('dist/agent-worker.d.cts', 'export {};\n');
