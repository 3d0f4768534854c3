/** Starts of `fork` on a whole harness, and what tests read of them. */
import type { Message } from '../../protocol/content.ts';
import type { ModelRequest } from '../../protocol/model.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { TestHarnessOptions } from '../support/harness.ts';
import { spawning } from './spawning.ts';

export const forking = (options: TestHarnessOptions = {}) =>
  spawning({ ...options, provider: 'fork' });

export const moduleModel = { module: new URL('file:///held.mjs') };

export const ownEvents = ({ session }: Agent): readonly SessionEvent[] =>
  session.eventsFrom(session.header.seedLength ?? 0);
/** What a model was shown, one line per message. */
export const shown = ({ messages }: Pick<ModelRequest, 'messages'>): string[] =>
  messages.flatMap(({ role, content }: Message) =>
    content.map((block) => {
      if (block.type === 'text') return `${role}: ${block.text}`;
      if (block.type === 'tool-call') return `${role} calls ${block.name}`;
      return block.type === 'tool-result' ? `${role} has a result` : block.type;
    }),
  );
