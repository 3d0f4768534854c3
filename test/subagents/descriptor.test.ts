import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { DescriptorInput } from '../../src/subagents/descriptor.ts';
import { foldSubagentDescriptor, snapshotDescriptor } from '../../src/subagents/descriptor.ts';

const logged = (...payloads: unknown[]): SessionEvent[] =>
  payloads.map(
    (data, seq) => ({ type: 'subagent/descriptor', seq, time: 0, data }) as unknown as SessionEvent,
  );
const foldOf = (payload: unknown) => foldSubagentDescriptor(logged(payload));

const full = {
  mode: 'continuable',
  provider: 'spawn',
  label: 'read the docs',
  agentProvider: 'local',
  agentModel: 'qwen3',
  maxTokens: 100,
  persona: '',
  toolFilter: { allow: ['a'], deny: [] },
  limits: { memoryMb: 'unlimited', turnMs: 5, steps: 2 },
} as const;

describe('descriptor', () => {
  it.each<[string, DescriptorInput]>([
    ['one-shot without label', { mode: 'one-shot', provider: 'spawn' }],
    ['one-shot with label', { mode: 'one-shot', provider: 'spawn', label: '' }],
    ['continuable with the least', { mode: 'continuable', provider: 'spawn', label: 'l' }],
    ['continuable with everything', full],
  ])('is read back as it was made: %s', (_, input) => {
    const snapshot = snapshotDescriptor(input);
    expect(snapshot).toStrictEqual({ version: 1, ...input });
    expect(foldOf(snapshot)).toStrictEqual(snapshot);
  });

  it('leaves out what is undefined', () => {
    const input = {
      mode: 'continuable',
      provider: 'spawn',
      label: 'l',
      persona: undefined,
      maxTokens: undefined,
      toolFilter: { allow: undefined, deny: ['x'] },
      limits: { turnMs: undefined },
    } as unknown as DescriptorInput;
    expect(snapshotDescriptor(input)).toStrictEqual({
      version: 1,
      mode: 'continuable',
      provider: 'spawn',
      label: 'l',
      toolFilter: { deny: ['x'] },
    });
  });

  it('shares nothing with what it was made from', () => {
    const deny = ['x'];
    const snapshot = snapshotDescriptor({ ...full, toolFilter: { deny } });
    deny.push('y');
    expect(snapshot).toMatchObject({ toolFilter: { deny: ['x'] } });
    expect(Object.isFrozen((snapshot as { toolFilter: object }).toolFilter)).toBe(true);
  });

  it.each([
    ['a symbol in the filter', { ...full, toolFilter: { deny: [Symbol('x')] } }],
    [
      'a symbol as a key of the filter',
      { ...full, toolFilter: { [Symbol('x')]: ['a'], deny: [] } },
    ],
    ['a function as label', { mode: 'one-shot', provider: 'spawn', label: () => 'l' }],
  ])('cannot be made with %s', (_, input) => {
    const make = () => snapshotDescriptor(input as unknown as DescriptorInput);
    expect(make).toThrow(ArgumentError);
    expect(make).toThrow(/not losslessly JSON/);
  });

  it('cannot be made with a label that is no text', () => {
    const make = () => snapshotDescriptor({ mode: 'one-shot', provider: 'p', label: 7 as never });
    expect(make).toThrow(/label/);
  });

  it('is absent from a log that has none, or one of another version', () => {
    expect(foldSubagentDescriptor([])).toBeUndefined();
    expect(foldOf({ version: 2, anything: true })).toBeUndefined();
  });

  it('is the first one of the events', () => {
    const [first, second] = ['one', 'two'].map((label) =>
      snapshotDescriptor({ mode: 'one-shot', provider: 'spawn', label }),
    );
    expect(foldSubagentDescriptor(logged(first, second))).toEqual(first);
  });

  const oneShot = { version: 1, mode: 'one-shot', provider: 'spawn' };
  const lasting = { version: 1, ...full };
  const without = (payload: object, key: string) =>
    Object.fromEntries(Object.entries(payload).filter(([name]) => name !== key));
  it.each<[string, unknown, RegExp]>([
    ['null', null, /an object/],
    ['a list', [], /an object/],
    ['a text', 'one-shot', /an object/],
    ['no version', without(oneShot, 'version'), /version/],
    ['a textual version', { ...oneShot, version: '1' }, /version/],
    ['no mode', without(oneShot, 'mode'), /mode/],
    ['a strange mode', { ...oneShot, mode: 'batch' }, /mode/],
    ['a strange key', { ...oneShot, depth: 1 }, /unknown key "depth"/],
    ['a continuable key', { ...oneShot, persona: 'p' }, /unknown key "persona"/],
    ['a strange continuable key', { ...lasting, outputSchema: {} }, /unknown key "outputSchema"/],
    ['no provider', without(oneShot, 'provider'), /provider/],
    ['a numeric provider', { ...oneShot, provider: 1 }, /provider/],
    ['a null label', { ...oneShot, label: null }, /label/],
    ['no label', without(lasting, 'label'), /label/],
    ['a numeric label', { ...lasting, label: 1 }, /label/],
    ['a numeric agentProvider', { ...lasting, agentProvider: 1 }, /agentProvider/],
    ['a null agentModel', { ...lasting, agentModel: null }, /agentModel/],
    ['a list as persona', { ...lasting, persona: [] }, /persona/],
    ['a textual maxTokens', { ...lasting, maxTokens: '9' }, /maxTokens/],
    ['a maxTokens of 0', { ...lasting, maxTokens: 0 }, /maxTokens/],
    ['a list as toolFilter', { ...lasting, toolFilter: [] }, /toolFilter/],
    ['a null toolFilter', { ...lasting, toolFilter: null }, /toolFilter/],
    [
      'a strange key in toolFilter',
      { ...lasting, toolFilter: { only: [] } },
      /"only" in toolFilter/,
    ],
    ['a text as allow', { ...lasting, toolFilter: { allow: 'a' } }, /toolFilter.allow/],
    ['a number in deny', { ...lasting, toolFilter: { deny: [1] } }, /toolFilter.deny/],
    ['an empty toolFilter', { ...lasting, toolFilter: {} }, /toolFilter/],
    ['a list as limits', { ...lasting, limits: [] }, /limits/],
    ['null limits', { ...lasting, limits: null }, /limits/],
    ['empty limits', { ...lasting, limits: {} }, /limits/],
    ['limits of a one-shot child', { ...oneShot, limits: { turnMs: 1 } }, /"limits"/],
    ['a strange limit', { ...lasting, limits: { maxDepth: 1 } }, /"maxDepth"/],
    ['an inherited limit', { ...lasting, limits: { toString: 1 } }, /"toString"/],
    ['a textual limit', { ...lasting, limits: { turnMs: '5' } }, /turnMs/],
    ['a null limit', { ...lasting, limits: { steps: null } }, /steps/],
    ['no limit of steps', { ...lasting, limits: { steps: 'unlimited' } }, /steps/],
    ['too little memory', { ...lasting, limits: { memoryMb: 1 } }, /memoryMb/],
  ])('is corrupt with %s', (_, payload, named) => {
    expect(() => foldOf(payload)).toThrow(named);
  });
});
