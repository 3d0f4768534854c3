/** The walls, ranks and doors of the house, as functions from files to what is wrong with them. */
import type { Import, SourceFile } from './imports.ts';

export type Rule = (files: readonly SourceFile[]) => readonly string[];

/** A file may import its own room and rooms of a lower rank. */
const SRC_RANKS: Readonly<Record<string, number>> = {
  base: 0,
  session: 1,
  tools: 1,
  models: 1,
  prompt: 1,
  agent: 2,
  'worker-host': 3,
  subagents: 3,
  jobs: 4,
  'subagent-tools': 5,
  providers: 5,
  'harness-options.ts': 6,
  'harness.ts': 7,
  serve: 8,
  'index.ts': 9,
  'testing.ts': 9,
  cli: 10,
  examples: 10,
};
const WORKER_RANKS: Readonly<Record<string, number>> = {
  'index.ts': 0,
  'link.ts': 1,
  'modules.ts': 1,
  'tool-body.ts': 1,
  'printing.ts': 1,
  'services.ts': 2,
  'model.ts': 3,
  'tools.ts': 3,
  agent: 4,
  'boot.ts': 5,
  'agent-worker.ts': 6,
};
/** Seen by users and nobody else, and so imported by nobody else. */
const USERS_OF_ENTRIES: ReadonlySet<string> = new Set(['src/cli', 'src/examples']);
const ENTRIES: ReadonlySet<string> = new Set(['src/index.ts', 'src/testing.ts']);

/** Where a package comes in: these files, or anything below these folders. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  msgpackr: ['protocol/codec.ts'],
  ajv: ['protocol/validate.ts', 'src/tools/validate-arguments.ts'],
  comlink: ['src/worker-host/services.ts', 'workers/services.ts'],
  '@photostructure/sqlite': ['src/session/sqlite-check.ts', 'src/session/sqlite-file.ts', 'bench/'],
  '@ai-sdk/openai-compatible': ['src/models/openai-compatible.ts'],
  '@ai-sdk/provider': ['src/models/openai-compatible.ts'],
  uuidv7: ['src/base/ids.ts'],
  piscina: ['src/base/offload.ts', 'bench/'],
  tinypool: ['bench/'],
  commander: ['src/cli/'],
  'log-update': ['src/cli/'],
  'string-width': ['src/cli/'],
  tinyglobby: ['src/cli/'],
  yaml: ['src/cli/'],
  vitest: ['test/', 'bench/'],
  'fast-check': ['test/'],
  typescript: ['test/support/imports.ts', 'test/support/exported-names.ts'],
};

/** The room of a file: what ranks are given to, and what may not be in a cycle. */
export function roomOf(path: string): string {
  const [folder = '', ...rest] = path.split('/');
  return folder === 'protocol' || rest.length === 0 ? folder : `${folder}/${rest[0]}`;
}

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');

/** One complaint for each import that `isWrong`. */
function complain(
  files: readonly SourceFile[],
  isWrong: (item: Import, file: SourceFile) => string | false | undefined,
): readonly string[] {
  return files.flatMap((file) =>
    file.imports.flatMap((item) => {
      const reason = isWrong(item, file);
      return typeof reason === 'string'
        ? [`${file.path}:${item.line} imports ${item.specifier}: ${reason}`]
        : [];
    }),
  );
}

const isIn = (path: string | undefined, folder: string): boolean =>
  path?.startsWith(`${folder}/`) ?? false;

/** `src` and `workers` never meet, `protocol` knows neither of them, nor Node. */
export const walls: Rule = (files) =>
  complain(files, ({ specifier, target }, { path }) => {
    if (isIn(path, 'src') && isIn(target, 'workers')) return 'src never imports workers';
    if (isIn(path, 'workers') && isIn(target, 'src')) return 'workers never imports src';
    if (!isIn(path, 'protocol')) return false;
    if (target !== undefined && !isIn(target, 'protocol')) return 'protocol stands alone';
    return specifier.startsWith('node:') && 'protocol knows no Node';
  });

/** Code that is kept imports no test and no bench. */
export const testsStayOutside: Rule = (files) =>
  complain(
    files.filter(({ path }) => !isIn(path, 'test') && !isIn(path, 'bench')),
    ({ target }) => (isIn(target, 'test') || isIn(target, 'bench')) && 'tests stay outside',
  );

export const ranks: Rule = (files) => {
  const rankOf = (path: string): number | undefined => {
    const [folder, name = ''] = roomOf(path).split('/');
    return folder === 'src' ? SRC_RANKS[name] : WORKER_RANKS[name];
  };
  const ranked = files.filter(({ path }) => isIn(path, 'src') || isIn(path, 'workers'));
  const unknown = ranked.filter(({ path }) => rankOf(path) === undefined);
  const upward = complain(ranked, ({ target }, { path }) => {
    if (target === undefined || isIn(target, 'protocol')) return false;
    const [from, to] = [roomOf(path), roomOf(target)];
    if (from === to || from.split('/')[0] !== to.split('/')[0]) return false;
    if (USERS_OF_ENTRIES.has(from)) {
      return !ENTRIES.has(target) && `${from} sees what users see`;
    }
    const [own = -1, other = Infinity] = [rankOf(path), rankOf(target)];
    return other >= own && `${to} does not rank below ${from}`;
  });
  return [...unknown.map(({ path }) => `${path} has no rank`), ...upward];
};

/** No circle of files, none of rooms; an import of types only counts like any other. */
export const noCycles: Rule = (files) => {
  const ofFiles = new Map<string, Set<string>>();
  const ofRooms = new Map<string, Set<string>>();
  const link = (graph: Map<string, Set<string>>, from: string, to: string): void => {
    graph.set(from, (graph.get(from) ?? new Set()).add(to));
  };
  for (const { path, imports } of files) {
    for (const { target } of imports) {
      if (target === undefined) continue;
      link(ofFiles, path, target);
      if (roomOf(path) !== roomOf(target)) link(ofRooms, roomOf(path), roomOf(target));
    }
  }
  return [...cyclesOf(ofFiles), ...cyclesOf(ofRooms)].map((cycle) => `a circle: ${cycle}`);
};

function cyclesOf(graph: ReadonlyMap<string, ReadonlySet<string>>): readonly string[] {
  const cycles: string[] = [];
  const done = new Set<string>();
  const walk = (node: string, path: readonly string[]): void => {
    const start = path.indexOf(node);
    if (start >= 0) cycles.push([...path.slice(start), node].join(' → '));
    if (start >= 0 || done.has(node)) return;
    for (const next of graph.get(node) ?? []) walk(next, [...path, node]);
    done.add(node);
  };
  for (const node of graph.keys()) walk(node, []);
  return cycles;
}

/** Every package comes in by its door. */
export const doors: Rule = (files) =>
  complain(files, ({ specifier, target }, { path }) => {
    if (target !== undefined || specifier.startsWith('node:')) return false;
    const name = packageOf(specifier);
    const open = DOORS[name];
    if (open === undefined) return `${name} has no door`;
    const isDoor = open.some((door) =>
      door.endsWith('/') ? path.startsWith(door) : path === door,
    );
    // Tests may drive what a package does for us with the package itself.
    return !isDoor && !isIn(path, 'test') && `${name} comes in at ${open.join(', ')}`;
  });

/** One room makes threads. */
export const threads: Rule = (files) =>
  complain(
    files.filter(({ path }) => !isIn(path, 'test') && !isIn(path, 'bench')),
    ({ specifier, names, isTypeOnly }, { path }) =>
      specifier === 'node:worker_threads' &&
      !isTypeOnly &&
      (names.includes('Worker') || names.includes('*')) &&
      !isIn(path, 'src/worker-host') &&
      'threads are made in src/worker-host',
  );

/** A thread trusts main, and compiles no schema. */
export const validationStaysOnMain: Rule = (files) =>
  complain(
    files,
    ({ target }, { path }) =>
      isIn(path, 'workers') &&
      (target === 'protocol/validate.ts' || target === 'protocol/schemas.ts') &&
      'frames are checked on main',
  );

/** A package that ships is a dependency, not a tool of the build. */
export function declared(
  manifest: Partial<Record<'dependencies' | 'devDependencies', Record<string, string>>>,
): Rule {
  return (files) =>
    complain(files, ({ specifier, target }, { path }) => {
      if (target !== undefined || specifier.startsWith('node:')) return false;
      const name = packageOf(specifier);
      const isShipped = !isIn(path, 'test') && !isIn(path, 'bench');
      const known = { ...(isShipped ? {} : manifest.devDependencies), ...manifest.dependencies };
      return !Object.hasOwn(known, name) && 'package.json does not name it';
    });
}

export const MAX_LINES = 400;

export const size: Rule = (files) =>
  files
    .filter(({ lines }) => lines > MAX_LINES)
    .map(({ path, lines }) => `${path} has ${lines} lines: which noun wants to move out?`);

/** A promise in a comment, or a test that is switched off or narrowed to itself. */
export const nothingLeftForLater: Rule = (files) => {
  const words = /\b(?:TO(?:)DO|FIX(?:)ME|X{3})\b/;
  const switches = /\b(?:it|test|describe)(?:\.\w+)*\.(?:only|skip|todo|concurrent)\b/;
  return files.flatMap(({ path, text }) => [
    ...(words.test(text) ? [`${path} leaves something for later`] : []),
    ...(path.endsWith('.test.ts') && switches.test(text) ? [`${path} switches a test off`] : []),
  ]);
};

/** Nothing in the repository leans on what lies beside it. */
export const selfContained: Rule = (files) => {
  const outside = complain(
    files,
    ({ target, specifier }) =>
      ((target?.startsWith('..') ?? false) || specifier.startsWith('/')) && 'it is outside',
  );
  const beside = files.filter(({ text }) => /(?:\.\.|\/work)\/shared\b/.test(text));
  return [...outside, ...beside.map(({ path }) => `${path} names a folder beside the repository`)];
};

/** Where an error without a code is made all the same: it reaches no caller as it is. */
const CODELESS: Readonly<Record<string, string>> = {
  'src/agent/host-agent.ts': 'the error of a turn, in the log',
  'src/base/teardown.ts': 'the cause of a SubagentError',
  'src/cli/reachable.ts': 'a line of the program',
  'src/cli/tools/files.ts': 'the result of a tool',
  'src/models/bounded-fetch.ts': 'the failure of a model request',
  'src/prompt/interpolate.ts': 'the error of a turn whose prompt cannot be rendered',
  'src/prompt/prompt.ts': 'the error of a turn whose prompt cannot be rendered',
  'src/subagent-tools/foreground.ts': 'the result of a tool',
  'src/tools/validate-arguments.ts': 'the cause of an ArgumentError',
  'workers/agent-worker.ts': 'the entry was loaded by something that is no thread',
  'workers/agent/loop.ts': 'the end of a thread, which is told as a record',
  'workers/boot.ts': 'the end of calls inside a thread that ends',
  'workers/tool-body.ts': 'the result of a tool',
};

/** What reaches a caller has a class and a code of protocol/errors.ts. */
export const errorsHaveCodes: Rule = (files) => {
  const codeless =
    /\bnew (?:Error|TypeError|RangeError|AggregateError)\b|\bthrow new DOMException\b/;
  return files
    .filter(({ path }) => /^(?:src|workers)\//.test(path))
    .filter(({ path, text }) => codeless.test(text) !== Object.hasOwn(CODELESS, path))
    .map(({ path }) =>
      Object.hasOwn(CODELESS, path)
        ? `${path} makes no error without a code any more`
        : `${path} makes an error without a code: who can get it?`,
    );
};

/** Entries spell out what they export, and relative imports name files as they are. */
export const plainImports: Rule = (files) => [
  ...complain(
    files,
    ({ target }) => target !== undefined && !/\.(?:ts|js|mjs|json)$/.test(target) && 'no extension',
  ),
  ...files
    .filter(({ path }) => /^(?:protocol|src|workers)\//.test(path))
    .filter(
      ({ path, exports }) =>
        exports.includes('*') || (exports.includes('default') && !mayBeLoadedByUrl(path)),
    )
    .map(({ path }) => `${path} exports something without a name`),
];

/** A module for threads has its tool, model, projection or job as its default export. */
const mayBeLoadedByUrl = (path: string): boolean =>
  USERS_OF_ENTRIES.has(roomOf(path)) || /-(?:projection|helper)\.ts$/.test(path);

/** A value that is exported is imported by another file, or is for users. */
export const noDeadExports: Rule = (files) => {
  const used = new Set<string>();
  for (const { imports } of files) {
    for (const { target, names } of imports) {
      for (const name of names) used.add(`${target} ${name}`);
    }
  }
  const isForUsers = (path: string, name: string): boolean =>
    ENTRIES.has(path) ||
    /^(?:workers|protocol)\/index\.ts$/.test(path) ||
    (name === 'default' && mayBeLoadedByUrl(path));
  return files
    .filter(({ path }) => /^(?:protocol|src|workers)\//.test(path))
    .flatMap(({ path, values }) =>
      values
        .filter((name) => !used.has(`${path} ${name}`) && !used.has(`${path} *`))
        .filter((name) => !isForUsers(path, name))
        .map((name) => `${path} exports ${name} for nobody`),
    );
};
