import { getEventListeners } from 'node:events';
import { expect, it, vi } from 'vitest';
import { CallId, SessionId } from '../../protocol/ids.ts';
import { ToolBody } from '../../workers/tool-body.ts';

it('is one of any number of calls that listen to the signal of one turn', () => {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const { signal } = new AbortController();
  const tool = { name: 'note', description: '', parameters: {}, execute: () => 'noted' };
  const bodies = Array.from(
    { length: 12 },
    (_, index) =>
      new ToolBody(
        tool,
        { id: SessionId('a'), cwd: '/', depth: 0 },
        CallId(`call-${index}`),
        signal,
      ),
  );
  expect(getEventListeners(signal, 'abort')).toHaveLength(12);
  expect(warned).not.toHaveBeenCalled();
  warned.mockRestore();
  for (const body of bodies) body.close();
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});
