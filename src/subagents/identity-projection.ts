/** Loaded by URL as well, in a thread that folds logs: it imports nothing that a thread lacks. */
import type { Json } from '../../protocol/json.ts';
import type { ProjectionUnit } from '../session/projections/projection.ts';
import { isPlainObject } from '../../protocol/json.ts';
import { foldSubagentDescriptor } from './descriptor.ts';

/** Who a child is, by the last descriptor in its log; `null` while there is none that is valid. */
export type SubagentIdentity = {
  readonly mode: 'one-shot' | 'continuable';
  readonly label?: string;
  /** The event it was told by. */
  readonly seq: number;
} | null;

/** The last descriptor wins; one that is damaged or of another version leaves no identity. */
export const subagentIdentity: ProjectionUnit<SubagentIdentity, SubagentIdentity> = {
  key: 'subagent',
  stateVersion: 2,
  init: () => null,
  apply(state, event) {
    if (event.type !== 'subagent/descriptor') return state;
    try {
      const descriptor = foldSubagentDescriptor([event]);
      if (descriptor === undefined) return null;
      const { mode, label } = descriptor;
      return { mode, ...(label === undefined ? {} : { label }), seq: event.seq };
    } catch {
      // Damaged: whoever it was before, this log no longer says who it is.
      return null;
    }
  },
  isState: isIdentity,
  wire: { view: (state) => state, isView: isIdentity },
  module: new URL(import.meta.url),
};

export default subagentIdentity;

function isIdentity(value: Json): value is SubagentIdentity {
  if (value === null) return true;
  if (!isPlainObject(value)) return false;
  const { mode, label, seq } = value;
  const isLabel = typeof label === 'string' || (label === undefined && mode === 'one-shot');
  return (mode === 'one-shot' || mode === 'continuable') && isLabel && isCount(seq);
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
