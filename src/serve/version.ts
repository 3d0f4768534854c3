import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Of this package, from the nearest manifest above: the sources and what is built are not equally deep. */
export const VERSION: string = (() => {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    try {
      const { name, version } = JSON.parse(
        readFileSync(join(folder, 'package.json'), 'utf8'),
      ) as Record<string, string | undefined>;
      if (name === 'subagent-runtime' && version !== undefined) return version;
    } catch {
      // None in this folder.
    }
    // Bundled into another program.
    if (folder === dirname(folder)) return '0.0.0';
  }
})();
