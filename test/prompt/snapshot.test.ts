import { describe, expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import type { Message, MessageSource } from '../../protocol/content.ts';
import { MessageId } from '../../protocol/ids.ts';
import { contextSnapshot } from '../../src/prompt/snapshot.ts';

const message = (source: MessageSource, text = 'x'): Message => ({
  id: MessageId(crypto.randomUUID()),
  role: 'user',
  content: [{ type: 'text', text }],
  source,
});
const request = message({ kind: 'user' });
const place = { name: 'place', text: 'You are in Bern.' };
const time = { name: 'time', text: 'It is noon.' };

/** What was told with these contexts after this history, as a message of the log. */
function told(contexts: Parameters<typeof contextSnapshot>[1], history: readonly Message[] = []) {
  const snapshot = contextSnapshot(history, contexts);
  if (snapshot === undefined) throw new Error('Nothing was told.');
  return { ...message(snapshot.source), content: snapshot.content };
}

describe('a snapshot of the runtime context', () => {
  it('is not told where there is no context and never was any', () => {
    expect(contextSnapshot([], [])).toBeUndefined();
    expect(contextSnapshot([request], [])).toBeUndefined();
  });

  it('tells the whole context, and that the user did not ask for it', () => {
    const snapshot = contextSnapshot([request], [place, time]);
    expect(snapshot?.source).toStrictEqual({
      kind: 'plugin',
      plugin: 'prompt',
      form: 'snapshot',
      sections: [place, time],
    });
    const [heading, ...parts] = textOf(snapshot?.content ?? []).split('\n\n');
    expect(heading).toContain('not a request of the user');
    expect(parts).toEqual([place.text, time.text]);
  });

  it('is told once while nothing changes', () => {
    const history = [request, told([place, time]), request];
    expect(contextSnapshot(history, [place, time])).toBeUndefined();
  });

  it.each([
    ['a text', [place, { name: 'time', text: 'It is one.' }]],
    ['a name', [place, { name: 'clock', text: time.text }]],
    ['the order', [time, place]],
    ['a part more', [place, time, { name: 'mood', text: 'Calm.' }]],
    ['a part less', [place]],
  ])('is told anew and whole when what changed is %s', (_what, contexts) => {
    const history = [request, told([place, time]), request];
    expect(contextSnapshot(history, contexts)?.source).toMatchObject({ sections: contexts });
  });

  it('is compared with the last that was told', () => {
    const history = [told([place]), told([time]), request];
    expect(contextSnapshot(history, [time])).toBeUndefined();
    expect(contextSnapshot(history, [place])).toBeDefined();
  });

  it('is compared by its parts, whatever words it was told in', () => {
    const { source } = told([place]);
    expect(contextSnapshot([message(source, 'other words')], [place])).toBeUndefined();
  });

  it('tells once that nothing applies any more, and then of what applies again', () => {
    const gone = told([], [told([place])]);
    expect(gone.source).toMatchObject({ form: 'snapshot', sections: [] });
    expect(textOf(gone.content)).toContain('no longer applies');
    const history = [told([place]), gone, request];
    expect(contextSnapshot(history, [])).toBeUndefined();
    expect(contextSnapshot(history, [place])).toBeDefined();
  });

  it('is told again once the history has lost it', () => {
    expect(contextSnapshot([request], [place])).toBeDefined();
  });

  it.each<MessageSource>([
    { kind: 'plugin', plugin: 'prompt', form: 'notice', sections: [place] },
    { kind: 'plugin', plugin: 'other', form: 'snapshot', sections: [place] },
    { kind: 'plugin', plugin: 'prompt', form: 'snapshot' },
  ])('does not take a message of %j for one', (source) => {
    expect(contextSnapshot([message(source)], [place])).toBeDefined();
    expect(contextSnapshot([message(source)], [])).toBeUndefined();
  });

  it('copies the contexts it was given', () => {
    const contexts = [{ ...place }];
    const { source } = told(contexts);
    (contexts[0] as { text: string }).text = 'changed';
    expect(source).toMatchObject({ sections: [place] });
  });
});
