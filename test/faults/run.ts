/** Plays a plan on grounds, a few of them at a time, and judges each fault as it is seen. */
import { GroundProcess } from './ground-process.ts';
import type { GroundEnd } from './ground-process.ts';
import { kindOf } from './kinds.ts';
import type { Cell } from './moments.ts';
import type { Observation, Probing } from './observation.ts';
import { judge } from './oracle.ts';

export interface Outcome {
  readonly number: number;
  readonly cell: Cell;
  readonly wrong: readonly string[];
  readonly seen: Observation | undefined;
  readonly probing: Probing;
  /** The process was lost with it. */
  readonly groundEnd?: GroundEnd;
}

export interface RunOptions {
  readonly atOnce: number;
  /** A ground is replaced after so many faults. */
  readonly perGround: number;
  onOutcome?(outcome: Outcome): void;
  /** A ground that did nothing wrong ended. */
  onGroundEnd?(end: GroundEnd): void;
}

/** Resolves when all were played. */
export async function play(cells: readonly Cell[], options: RunOptions): Promise<void> {
  let next = 0;
  const take = (): { cell: Cell; number: number } | undefined => {
    const cell = cells[next];
    return cell === undefined ? undefined : { cell, number: ++next };
  };
  const lane = async (): Promise<void> => {
    let ground: GroundProcess | undefined;
    let played = 0;
    const leave = async (): Promise<GroundEnd | undefined> => {
      const end = await ground?.end();
      ground = undefined;
      played = 0;
      return end;
    };
    for (let task = take(); task !== undefined; task = take()) {
      const { cell, number } = task;
      // What degrades its process has one to itself: nobody after it is to suffer from that.
      const isAlone = kindOf(cell.kind).fault !== 'contained';
      if (ground !== undefined && (isAlone || played >= options.perGround)) {
        const end = await leave();
        if (end !== undefined) options.onGroundEnd?.(end);
      }
      if (ground === undefined) {
        ground = new GroundProcess();
        await ground.up();
      }
      const result = await ground.play(cell, number);
      played++;
      const { probing } = result;
      if ('seen' in result) {
        const { seen } = result;
        options.onOutcome?.({ number, cell, wrong: judge(seen, probing), seen, probing });
        if (isAlone) await leave();
        continue;
      }
      const groundEnd = (await leave())!;
      const wrong = [`${result.failed.split('\n', 1)[0]!} (${endText(groundEnd)})`];
      options.onOutcome?.({ number, cell, wrong, seen: undefined, probing, groundEnd });
    }
    const end = await leave();
    if (end !== undefined) options.onGroundEnd?.(end);
  };
  await Promise.all(Array.from({ length: options.atOnce }, lane));
}

export function endText({
  hangs,
  signal,
  code,
}: Pick<GroundEnd, 'hangs' | 'signal' | 'code'>): string {
  if (hangs === true) return 'it hung, and was killed by its watcher';
  return signal === undefined ? `it ended by itself with ${code}` : `it was ended by ${signal}`;
}
