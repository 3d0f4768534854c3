/**
 * Write the API reference from the docstrings: `node scripts/docs.mjs [folder]`, by default
 * docs/api. One page for each entry of the package; the main one is split by what a name is for.
 * Nothing else is written, and any warning of the generator fails it.
 */
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Application, LogLevel } from 'typedoc';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = resolve(process.argv[2] ?? join(root, 'docs/api'));

/** The pages of the main entry, and the files whose names they have: the longest match counts. */
const PAGES = {
  harness: {
    about: 'Making a harness, its options, what can be observed of it.',
    from: ['src/harness', 'src/worker-host/', 'src/base/'],
  },
  agents: {
    about: 'Agents and hosts: making and resuming them, telling them things, hooks.',
    from: ['src/agent/', 'src/base/hooks'],
  },
  delegation: {
    about: 'Children: starting, telling, interrupting, draining and listing them.',
    from: ['src/subagents/', 'src/session/output'],
  },
  providers: {
    about: 'The ways to run a child, and what a way of your own has to keep.',
    from: [
      'src/providers/',
      'src/subagents/provider',
      'src/subagents/settle-run',
      'src/subagents/diagnostic',
    ],
  },
  'delegation-tools': {
    about: 'The tools with which a model delegates, and jobs in the background.',
    from: ['src/subagent-tools/', 'src/jobs/'],
  },
  tools: {
    about: 'Defining and registering tools; tool filters and tool hooks.',
    from: ['src/tools/', 'protocol/tool'],
  },
  prompts: { about: 'The parts of a system prompt and of runtime context.', from: ['src/prompt/'] },
  models: {
    about: 'Models: OpenAI-compatible servers, AI SDK objects, adapters of your own.',
    from: ['src/models/', 'protocol/model', 'protocol/ai-sdk'],
  },
  sessions: {
    about: 'Sessions: reading, following, moving and removing them; stores; projections.',
    from: ['src/session/'],
  },
  serving: {
    about: 'Reaching a harness from outside, and watching all of it.',
    from: ['src/serve/'],
  },
  events: {
    about: 'What a log is made of: headers, events, messages, content; ids and JSON.',
    from: ['protocol/'],
  },
  errors: { about: 'Classes of errors, and their codes.', from: ['protocol/errors'] },
};
/** The other entries, each a page of its own. */
const ENTRIES = {
  worker: { about: 'For modules of tools and models that threads load.', file: 'workers/index.ts' },
  testing: { about: 'For tests of programs.', file: 'src/testing.ts' },
  protocol: { about: 'Types of what threads and the main thread say.', file: 'protocol/index.ts' },
};
/** Helpers of types. What has them shows what is in them, or says it in words. */
const NOT_EXPORTED = [
  'AiSdkStream',
  'Brand',
  'Envelope',
  'InStep',
  'InTurn',
  'MessageOf',
  'OfCall',
  'PromptPart',
  'SqliteStore',
  'SUBAGENT_ERROR_CODES',
];

/** Each page of the main entry as an entry of its own, with the exports that belong there. */
function splitMain() {
  const texts = new Map(Object.keys(PAGES).map((name) => [name, '']));
  const main = readFileSync(join(root, 'src/index.ts'), 'utf8');
  for (const [, what, from] of main.matchAll(/^export ((?:type )?\{[^}]*\}) from '([^']+)';$/gm)) {
    const file = join('src', from);
    const [[page] = []] = Object.entries(PAGES)
      .flatMap(([name, { from: starts }]) => starts.map((start) => [name, start]))
      .filter(([, start]) => file.startsWith(start))
      .toSorted(([, a], [, b]) => b.length - a.length);
    if (page === undefined) throw new Error(`No page of the reference has ${file}.`);
    texts.set(page, `${texts.get(page)}export ${what} from ${JSON.stringify(join(root, file))};\n`);
  }
  return texts;
}

const folder = mkdtempSync(join(tmpdir(), 'api-reference-'));
try {
  const entries = [];
  const add = (name, module, about, text) => {
    const file = join(folder, `${name}.ts`);
    writeFileSync(
      file,
      `/**\n * ${about}\n *\n * \`import … from '${module}'\`\n * @module ${name}\n */\n${text}`,
    );
    entries.push(file);
  };
  for (const [name, text] of splitMain()) add(name, 'subagent-runtime', PAGES[name].about, text);
  for (const [name, { about, file }] of Object.entries(ENTRIES)) {
    const text = `export * from ${JSON.stringify(join(root, file))};\n`;
    add(name, `subagent-runtime/${name}`, about, text);
  }
  const tsconfig = join(folder, 'tsconfig.json');
  const compilerOptions = {
    noEmit: true,
    composite: false,
    declaration: false,
    typeRoots: [join(root, 'node_modules/@types')],
    types: ['node'],
  };
  const config = { extends: join(root, 'tsconfig.base.json'), compilerOptions, files: entries };
  writeFileSync(tsconfig, JSON.stringify(config));

  const app = await Application.bootstrapWithPlugins({
    entryPoints: entries,
    tsconfig,
    basePath: root,
    name: 'API reference',
    plugin: ['typedoc-plugin-markdown'],
    router: 'module',
    out,
    readme: 'none',
    logLevel: LogLevel.Warn,
    treatWarningsAsErrors: true,
    skipErrorChecking: true,
    excludePrivate: true,
    excludeProtected: true,
    excludeInternal: true,
    excludeExternals: true,
    disableSources: true,
    disableGit: true,
    githubPages: false,
    hidePageHeader: true,
    hideBreadcrumbs: true,
    sortEntryPoints: false,
    entryFileName: 'README',
    indexFormat: 'table',
    parametersFormat: 'table',
    interfacePropertiesFormat: 'table',
    classPropertiesFormat: 'table',
    typeAliasPropertiesFormat: 'table',
    propertyMembersFormat: 'table',
    typeDeclarationFormat: 'table',
    useCodeBlocks: true,
    // Nearly everything is readonly, and what is not says so.
    tableColumnSettings: { hideModifiers: true, hideInherited: true, hideOverrides: true },
    preservedTypeAnnotationTags: ['@throws'],
    intentionallyNotExported: NOT_EXPORTED,
    validation: { notExported: true, invalidLink: true, notDocumented: true },
    requiredToBeDocumented: ['Class', 'Interface', 'TypeAlias', 'Function', 'Variable', 'Method'],
  });
  const project = await app.convert();
  if (project === undefined) throw new Error('The code could not be read.');
  // The entries are outside of the package, and speak of what is in it.
  project.packageName = 'subagent-runtime';
  app.validate(project);
  await app.generateOutputs(project);
  if (app.logger.hasErrors() || app.logger.hasWarnings()) process.exitCode = 1;
  else for (const name of readdirSync(out)) console.log(name);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
