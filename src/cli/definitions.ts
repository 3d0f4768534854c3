/** The agents that are defined in a folder, and what makes an agent one of them. */
import { readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { AgentOptions, CreateAgentOptions, SubagentToolConfig } from '../index.ts';
import { reasonOf } from './checks.ts';
import { parseDefinition } from './definition-text.ts';
import type { AgentDefinition } from './definition-text.ts';
import { UsageError } from './exit-codes.ts';
import { readText } from './read-text.ts';

export type { AgentDefinition } from './definition-text.ts';

const DEFAULT_FOLDER = '.agents';

/**
 * Each Markdown file of the folder, but for a README, by name. Without `folder`: those of
 * `.agents`, if there is one.
 *
 * @throws {UsageError} naming the file, and the line.
 */
export async function loadDefinitions(
  folder: string | undefined,
  reading: Parameters<typeof readText>[0],
): Promise<readonly AgentDefinition[]> {
  const shown = folder ?? DEFAULT_FOLDER;
  const names = await readdir(resolve(reading.cwd, shown)).catch((error: NodeJS.ErrnoException) => {
    if (folder === undefined && error.code === 'ENOENT') return [];
    throw new UsageError(`Cannot read the folder "${shown}": ${reasonOf(error)}.`, {
      cause: error,
    });
  });
  const definitions = new Map<string, AgentDefinition>();
  for (const name of names.sort()) {
    if (!/\.md$/iu.test(name) || /^readme\.md$/iu.test(name)) continue;
    const path = join(shown, name);
    const definition = parseDefinition(await readText(reading, path), path);
    const other = definitions.get(definition.name);
    if (other !== undefined) {
      throw new UsageError(
        `${definition.places.name}: "${definition.name}" is defined in ${other.path} already.`,
      );
    }
    definitions.set(definition.name, definition);
  }
  return [...definitions.values()];
}

/** @throws {UsageError} naming those that there are. */
export function definitionOf(
  definitions: readonly AgentDefinition[],
  name: string,
  folder: string = DEFAULT_FOLDER,
): AgentDefinition {
  const found = definitions.find((definition) => definition.name === name);
  if (found !== undefined) return found;
  const names = definitions.map((definition) => definition.name).join(', ');
  throw new UsageError(
    `No agent "${name}" is defined in "${folder}"${names === '' ? '.' : `; there are: ${names}.`}`,
  );
}

/** What its delegation tool is made with. */
export function toolConfigOf(
  definition: AgentDefinition,
  provider: string | undefined,
): Omit<SubagentToolConfig, 'provider'> {
  const { name, description, persona, tools, limits } = definition;
  const options = modelOf(definition, provider);
  return {
    toolName: name,
    description: /[.?!:…)]$/u.test(description) ? description : `${description}.`,
    limits,
    ...(options === undefined ? {} : { agentOptions: options }),
    ...(persona === undefined ? {} : { persona }),
    ...(tools === undefined ? {} : { toolFilter: { allow: tools } }),
  };
}

/** What a root that is one of them is made with. */
export function rootOptionsOf(
  definition: AgentDefinition,
  provider: string | undefined,
): Pick<CreateAgentOptions, 'agentOptions' | 'limits' | 'setup'> {
  const { persona, tools, limits } = definition;
  const options = modelOf(definition, provider);
  return {
    limits,
    ...(options === undefined ? {} : { agentOptions: options }),
    setup(child) {
      // The name and the place of a persona: a child's own hides the deployment's.
      const section = { name: 'deployment:persona', order: 0 };
      if (persona !== undefined) child.prompt.section({ ...section, text: persona });
      if (tools !== undefined) child.tools.restrict({ allow: tools });
    },
  };
}

/** Its model is one of the server that answers; without a server the embedded one answers all. */
const modelOf = (
  { model }: AgentDefinition,
  provider: string | undefined,
): AgentOptions | undefined =>
  model === undefined || provider === undefined ? undefined : { provider, model };
