import type { ContentBlock, ToolCallBlock, Usage } from '../../protocol/content.ts';
import { CallId } from '../../protocol/ids.ts';
import type { FinishReason, ModelPart } from '../../protocol/model.ts';
import type { Json } from '../../protocol/json.ts';

type Finish = Extract<ModelPart, { type: 'finish' }>;
type Draft = {
  type: 'text' | 'reasoning' | 'tool-call';
  text: string;
  id: string;
  name: string;
  /** A `block-end` has said what it is: nothing changes it any more. */
  isFinal: boolean;
};

/** Longer ids and names are no ids and names: main refuses them. */
const NAME_CHARS = 256;

/**
 * Parts of one stream made one assistant message. Blocks stand in the order in which their
 * index was first seen; `block-end` wins over deltas; deltas without `block-start` are taken.
 */
export class Assembler {
  readonly #drafts = new Map<number, Draft>();
  #count = 0;
  #usage: Usage | undefined;
  #finish: Finish | undefined;

  /** How many parts made this message. */
  get count(): number {
    return this.#count;
  }
  get usage(): Usage | undefined {
    return this.#usage;
  }
  /** A stream that ended without saying why has stopped. */
  get reason(): FinishReason {
    return this.#finish?.reason ?? { kind: 'stop' };
  }
  get replayState(): Json | undefined {
    return this.#finish?.replayState;
  }

  push(part: ModelPart): void {
    this.#count++;
    switch (part.type) {
      case 'block-start':
        this.#draft(part.index, part.blockType);
        return;
      case 'text-delta':
      case 'reasoning-delta': {
        const draft = this.#draft(part.index, part.type === 'text-delta' ? 'text' : 'reasoning');
        if (!draft.isFinal) draft.text += part.text;
        return;
      }
      case 'tool-call-delta': {
        const draft = this.#draft(part.index, 'tool-call');
        if (draft.isFinal) return;
        draft.id ||= part.id;
        draft.name ||= part.name ?? '';
        draft.text += part.argumentsDelta;
        return;
      }
      case 'block-end':
        return this.#settle(part.index, part.block);
      case 'usage':
        this.#usage = part.usage;
        return;
      case 'finish':
        this.#finish ??= part;
        return;
      default:
        part satisfies never;
    }
  }

  /** The finished content; tool calls have ids that are theirs alone in this step. */
  content(): ContentBlock[] {
    const ids = new Set<string>();
    return [...this.#drafts].flatMap(([index, draft]): ContentBlock[] => {
      if (draft.type !== 'tool-call') return draft.text === '' ? [] : [textBlock(draft)];
      const id = uniqueId(draft.id, index, ids);
      ids.add(id);
      const name = draft.name.slice(0, NAME_CHARS);
      return [{ type: 'tool-call', id: CallId(id), name, arguments: draft.text }];
    });
  }

  /** What a reader saw of a stream that was cut off: text and reasoning that is not blank. */
  visible(): ContentBlock[] {
    return [...this.#drafts.values()]
      .filter((draft) => draft.type !== 'tool-call' && draft.text.trim() !== '')
      .map(textBlock);
  }

  #draft(index: number, type: Draft['type']): Draft {
    let draft = this.#drafts.get(index);
    if (draft === undefined) {
      draft = { type, text: '', id: '', name: '', isFinal: false };
      this.#drafts.set(index, draft);
    }
    return draft;
  }

  #settle(index: number, block: ContentBlock): void {
    switch (block.type) {
      case 'text':
      case 'reasoning':
        Object.assign(this.#draft(index, block.type), block, { isFinal: true });
        return;
      case 'tool-call': {
        const { id, name, arguments: text } = block;
        const type = block.type;
        Object.assign(this.#draft(index, type), { type, id, name, text, isFinal: true });
        return;
      }
      // A model makes no other kind; blocks are open for new ones, which we skip.
      default:
    }
  }
}

/** The tool calls of some content, in the model's order. */
export function toolCallsOf(content: readonly ContentBlock[]): ToolCallBlock[] {
  return content.filter((block) => block.type === 'tool-call');
}

function textBlock({ type, text }: Draft): ContentBlock {
  return { type: type === 'reasoning' ? 'reasoning' : 'text', text };
}

function uniqueId(wished: string, index: number, taken: ReadonlySet<string>): string {
  const isUsable = wished !== '' && wished.length <= NAME_CHARS && !taken.has(wished);
  let id = isUsable ? wished : `call-${index}`;
  for (let copy = 2; taken.has(id); copy++) id = `call-${index}-${copy}`;
  return id;
}
