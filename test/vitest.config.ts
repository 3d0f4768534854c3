import { defineConfig } from 'vitest/config';

/** They put something in the place of a package, before anything else has loaded that. */
const MOCKING = ['store-faults/*.test.ts', 'session/sqlite-versions.test.ts'];

/**
 * Two planes: the source in one process, and the built package with real threads; and programs of
 * the package as processes. The leak check counts threads and descriptors of its process, in which
 * one test runs at a time. Files of the source plane share two processes, and load the source once
 * in each: they may change nothing that another file meets.
 */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'source',
          pool: 'forks',
          root: new URL('.', import.meta.url).pathname,
          include: ['**/*.test.ts'],
          exclude: [
            'threads/**',
            'cli/**',
            'artifact/**',
            'durability/**',
            'faults/**',
            'store-faults/processes/**',
            'examples.test.ts',
            ...MOCKING,
          ],
          setupFiles: ['support/leaks.ts'],
          testTimeout: 20_000,
          isolate: false,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: 'mocking',
          pool: 'forks',
          root: new URL('.', import.meta.url).pathname,
          include: MOCKING,
          setupFiles: ['support/leaks.ts'],
          testTimeout: 20_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: 'threads',
          pool: 'forks',
          root: new URL('.', import.meta.url).pathname,
          include: [
            'threads/**/*.test.ts',
            'durability/**/*.test.ts',
            'store-faults/processes/**/*.test.ts',
          ],
          setupFiles: ['support/leaks.ts'],
          testTimeout: 60_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: 'processes',
          pool: 'forks',
          root: new URL('.', import.meta.url).pathname,
          include: [
            'cli/**/*.test.ts',
            'artifact/**/*.test.ts',
            'faults/**/*.test.ts',
            'examples.test.ts',
          ],
          setupFiles: ['support/leaks.ts'],
          // Faults are judged by what becomes of them, here; how soon is for a machine of their own.
          env: { SLACK: '4' },
          testTimeout: 60_000,
          maxWorkers: 2,
        },
      },
    ],
  },
});
