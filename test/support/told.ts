import type { Message } from '../../protocol/content.ts';

/** Whether the runtime said it by itself: what a scripted model that reads its task passes over. */
export const isRuntimeContext = ({ source }: Pick<Message, 'source'>): boolean =>
  source.kind === 'plugin' && source.plugin === 'prompt' && source.form === 'snapshot';
