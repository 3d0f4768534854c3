import { expose, wrap } from 'comlink';
import type { Endpoint } from 'comlink';
import { describe, expect, it } from 'vitest';
import { frameEndpoint } from '../../protocol/frame-endpoint.ts';
import type { FrameEndpoint } from '../../protocol/frame-endpoint.ts';

describe('frameEndpoint', () => {
  it('carries calls and answers of Comlink as plain messages', async () => {
    const sent: unknown[] = [];
    const far: FrameEndpoint<unknown> = frameEndpoint((message) => near.deliver(message));
    const near: FrameEndpoint<unknown> = frameEndpoint((message) => {
      sent.push(message);
      far.deliver(message);
    });
    expose({ add: (a: number, b: number) => a + b }, far as unknown as Endpoint);
    const remote = wrap<{ add(a: number, b: number): number }>(near as unknown as Endpoint);
    expect(await remote.add(1, 2)).toBe(3);
    expect(sent).toEqual([
      {
        id: expect.any(String),
        type: 'APPLY',
        path: ['add'],
        argumentList: [
          { type: 'RAW', value: 1 },
          { type: 'RAW', value: 2 },
        ],
      },
    ]);
  });

  it('refuses to transfer anything', () => {
    const sent: unknown[] = [];
    const endpoint = frameEndpoint((message) => sent.push(message));
    expect(() => endpoint.postMessage({}, [new ArrayBuffer(1)])).toThrow(/nothing is transferred/);
    endpoint.postMessage({ a: 1 }, []);
    endpoint.postMessage({ a: 2 });
    expect(sent).toEqual([{ a: 1 }, { a: 2 }]);
  });

  it('delivers to functions and to objects, until they no longer listen', () => {
    const heard: unknown[] = [];
    const endpoint = frameEndpoint<string, never>(() => {});
    const byFunction = ({ data }: { data: unknown }): void => void heard.push(data);
    const byObject = { handleEvent: ({ data }: { data: unknown }) => void heard.push(data) };
    endpoint.addEventListener('message', byFunction);
    endpoint.addEventListener('message', byObject);
    endpoint.addEventListener('error', byFunction);
    endpoint.deliver('both');
    endpoint.removeEventListener('message', byFunction);
    endpoint.deliver('object');
    endpoint.removeEventListener('message', byObject);
    endpoint.deliver('nobody');
    expect(heard).toEqual(['both', 'both', 'object']);
  });
});
