import { expect, it } from 'vitest';
import { folderWith } from '../cli/command-line.ts';
import { definitionOf, loadDefinitions } from '../../src/cli/definitions.ts';

const definition = (name: string): string => `---\nname: ${name}\ndescription: It ${name}s.\n---\n`;

it('reads every Markdown file of the folder but its README, by their names', async () => {
  await using folder = await folderWith({
    '.agents/b.md': definition('walk'),
    '.agents/a.md': definition('sit'),
    '.agents/README.md': '# What is here\n',
    '.agents/notes.txt': 'no',
    '.agents/more/c.md': definition('run'),
  });
  const found = await loadDefinitions(undefined, folder.path);
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
  expect(await loadDefinitions(undefined, folder.path)).toEqual([]);
  await expect(loadDefinitions('team', folder.path)).rejects.toThrow(
    'Cannot read the folder "team": there is no such file or folder.',
  );
  expect(() => definitionOf([], 'fly', 'team')).toThrow('No agent "fly" is defined in "team".');
});

it('refuses a name that two files define', async () => {
  await using folder = await folderWith({
    'team/a.md': definition('x'),
    'team/b.md': definition('x'),
  });
  await expect(loadDefinitions('team', folder.path)).rejects.toThrow(
    'team/b.md: "x" is defined in team/a.md already.',
  );
});
