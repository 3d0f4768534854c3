import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folderWith, type Folder } from '../cli/command-line.ts';
import { definitionOf, loadDefinitions } from '../../src/cli/definitions.ts';

const reading = ({ path }: Folder) => ({ cwd: path, signal: new AbortController().signal });
const definition = (name: string): string => `---\nname: ${name}\ndescription: It ${name}s.\n---\n`;

it('reads every Markdown file of the folder but its README, by their names', async () => {
  await using folder = await folderWith({
    '.agents/b.md': definition('walk'),
    '.agents/a.md': definition('sit'),
    '.agents/README.md': '# What is here\n',
    '.agents/notes.txt': 'no',
    '.agents/more/c.md': definition('run'),
  });
  const found = await loadDefinitions(undefined, reading(folder));
  expect(found.map(({ name, path }) => [name, path])).toEqual([
    ['sit', '.agents/a.md'],
    ['walk', '.agents/b.md'],
  ]);
  expect(definitionOf(found, 'walk').description).toBe('It walks.');
  expect(() => definitionOf(found, 'fly')).toThrow(
    'No agent "fly" is defined in ".agents"; there are: sit, walk.',
  );
});

it('needs no folder, but the one that was named', async () => {
  await using folder = await folderWith();
  expect(await loadDefinitions(undefined, reading(folder))).toEqual([]);
  await expect(loadDefinitions('team', reading(folder))).rejects.toThrow(
    'Cannot read the folder "team": there is no such file or folder.',
  );
  expect(() => definitionOf([], 'fly', 'team')).toThrow('No agent "fly" is defined in "team".');
});

it('refuses a name that two files define', async () => {
  await using folder = await folderWith({
    'team/a.md': definition('x'),
    'team/b.md': definition('x'),
  });
  await expect(loadDefinitions('team', reading(folder))).rejects.toThrow(
    'team/b.md:2: "x" is defined in team/a.md already.',
  );
});

it('reads no pipe, and nothing that is too large', async () => {
  await using folder = await folderWith({
    'big/a.md': ' '.repeat(8 * 1024 * 1024 + 1),
    'pipe/b.md': definition('x'),
  });
  spawnSync('mkfifo', [join(folder.path, 'pipe/a.md')]);
  await expect(loadDefinitions('big', reading(folder))).rejects.toThrow(
    'Cannot read "big/a.md": it is larger than 8 MiB.',
  );
  await expect(loadDefinitions('pipe', reading(folder))).rejects.toThrow(
    'Cannot read "pipe/a.md": it is no regular file.',
  );
});

it('reads on no more once it is told to stop', async () => {
  await using folder = await folderWith({ 'team/a.md': definition('x') });
  const signal = AbortSignal.abort(new Error('Stopped.'));
  await expect(loadDefinitions('team', { cwd: folder.path, signal })).rejects.toThrow('Stopped.');
});
