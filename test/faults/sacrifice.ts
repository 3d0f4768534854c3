/** A fault that a thread does not contain, in a process that is given up to it, and its real end. */
import { GroundProcess } from './ground-process.ts';
import { kindOf } from './kinds.ts';
import type { ProcessEnd } from './kinds.ts';
import { cellsOf } from './moments.ts';
import { endText } from './run.ts';

export interface Sacrificed {
  readonly kind: string;
  readonly end: ProcessEnd;
  /** In words: how it ended, and by whose hand. */
  readonly text: string;
  /** What its agent was told, if the process lived to tell. */
  readonly told: string;
  /** What others were told afterwards. */
  readonly afterwards: string;
  /** One of the ends that the table of kinds has. */
  readonly isKnown: boolean;
  readonly unanswered: number;
}

export async function sacrifice(name: string): Promise<Sacrificed> {
  const kind = kindOf(name);
  const [cell] = cellsOf(kind, 'tool');
  if (cell === undefined) throw new Error(`The kind "${name}" has no cell.`);
  const ground = new GroundProcess();
  await ground.up();
  const played = await ground.play(cell, 1);
  const ended = await ground.end();
  const { hangs, signal, code } = ended;
  const end: ProcessEnd = {
    ...(hangs === undefined ? {} : { hangs }),
    ...(signal === undefined ? {} : { signal }),
    ...(code === undefined ? {} : { code }),
  };
  const [word] = 'seen' in played ? played.seen.told : [];
  return {
    kind: name,
    end,
    text: endText(ended),
    told: word === undefined ? 'nothing' : `${word.stopReason} ${word.codes.join()}`.trim(),
    afterwards: 'seen' in played ? played.seen.afterwards : 'nothing',
    isKnown: (kind.ends ?? []).some((known) => isSameEnd(known, end)),
    unanswered: played.probing.unanswered,
  };
}

const isSameEnd = (one: ProcessEnd, other: ProcessEnd): boolean =>
  one.hangs === other.hangs && one.signal === other.signal && one.code === other.code;

export function sacrificesTable(all: readonly Sacrificed[]): string {
  return [
    '| not contained | how its process ended | its agent was told | the next agent says | probes unanswered |',
    '| --- | --- | --- | --- | --- |',
    ...all.map(({ kind, text, told, afterwards, unanswered }) => {
      const said = afterwards.replaceAll(/\s+/g, ' ').slice(0, 160);
      return `| ${[kind, text, told, said, unanswered].join(' | ')} |`;
    }),
  ].join('\n');
}
