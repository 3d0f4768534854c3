/**
 * Puts the program that is killed, with the built package, into one file: to load a file costs a
 * process more than anything else that it does before it is killed. `node bundle.mjs <folder>`.
 */
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';

const bundle = await rolldown({
  input: fileURLToPath(new URL('host.mjs', import.meta.url)),
  platform: 'node',
  logLevel: 'warn',
  external: [/^@photostructure/, /^piscina/],
  plugins: [
    {
      name: 'places',
      // What it looks for beside a module is there and not beside the bundle.
      transform(code, id) {
        const url = JSON.stringify(pathToFileURL(id).href);
        return code.replaceAll('import.meta.url', url);
      },
    },
  ],
});
await bundle.write({ dir: process.argv[2], format: 'esm', entryFileNames: '[name].mjs' });
await bundle.close();
