/** Loose parts, as an adapter of somebody else's may yield them. */
import { expect } from 'vitest';

export const start = (index: number, blockType: string): object => ({
  type: 'block-start',
  index,
  blockType,
});
export const says = (index: number, text: string): object => ({ type: 'text-delta', index, text });
export const ends = (index: number, block: object): object => ({ type: 'block-end', index, block });
export const stop = { type: 'finish', reason: { kind: 'stop' } };
export const textBlock = [start(0, 'text'), says(0, 'Hi'), ends(0, { type: 'text', text: 'Hi' })];
export const call = { type: 'tool-call', id: 'c1', name: 'add', arguments: '{}' };

export const endsWith = (code: string): object[] => [
  { type: 'finish', reason: { kind: 'error', failure: expect.objectContaining({ code }) } },
];
