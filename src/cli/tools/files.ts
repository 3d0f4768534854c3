/**
 * The tools for the files that a run was given: loaded by URL inside each agent's thread, so
 * that files are read there. Only the listed files can be read.
 */
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ToolDefinition } from '../../index.ts';
import { showPage } from './page.ts';

export interface FileToolsOptions {
  /** Absolute path that the names in `files` start from. */
  readonly root: string;
  readonly files: readonly string[];
}

const MAX_FILE_BYTES = 8 * 1024 * 1024;

const fileTools = ({ root, files }: FileToolsOptions): readonly ToolDefinition[] => {
  const known = new Set(files);
  return [
    {
      name: 'list_files',
      description: 'The files of this task, one path per line. Read one with `read_file`.',
      parameters: { type: 'object', properties: {}, additionalProperties: false },
      isConcurrencySafe: () => true,
      execute: () => files.join('\n'),
    },
    {
      name: 'read_file',
      description:
        'Read a text file of this task. The first line says which characters follow and, if the ' +
        'file goes on, with which offset to read on.',
      parameters: {
        type: 'object',
        properties: {
          path: { type: 'string', description: 'A path as `list_files` gives it.' },
          offset: { type: 'integer', minimum: 0, description: 'Where to begin. Default: 0.' },
        },
        required: ['path'],
        additionalProperties: false,
      },
      isConcurrencySafe: () => true,
      execute(args) {
        const { path, offset = 0 } = args as { path: string; offset?: number };
        if (!known.has(path)) {
          throw new Error(`"${path}" is not a file of this task; list_files names them.`);
        }
        return showPage(path, readText(resolve(root, path), path), offset);
      },
    },
  ];
};

// A thread loads a module by its default export.
// oxlint-disable-next-line import/no-default-export
export default fileTools;

/** In one go: the thread has nothing else to do, and loads less to do it. */
function readText(absolute: string, path: string): string {
  const status = statSync(absolute);
  // Reading a pipe or a device could wait for ever, and take a thread of the file system with it.
  if (!status.isFile()) throw new Error(`"${path}" is not a regular file.`);
  if (status.size > MAX_FILE_BYTES) {
    throw new Error(`"${path}" is larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB.`);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      readFileSync(absolute),
    );
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new Error(`"${path}" is not UTF-8 text.`, { cause: error });
  }
}
