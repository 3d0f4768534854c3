import { expect, it } from 'vitest';
import { findId, shortIds } from '../../src/cli/session-ids.ts';

const IDS = ['0190-aaaa-1111', '0190-aaaa-2222', '0191-bbbb-2222', 'main'];

it.each([
  ['an id', 'main', 'main'],
  ['a beginning', '0191', '0191-bbbb-2222'],
  ['an end', '1111', '0190-aaaa-1111'],
])('finds a session by %s', (_, part, id) => {
  expect(findId(IDS, part)).toBe(id);
});

it('takes an id for itself although another one begins with it', () => {
  expect(findId(['main', 'main-2'], 'main')).toBe('main');
});

it('names the candidates when several can be meant', () => {
  expect(() => findId(IDS, '2222')).toThrow(
    /^"2222" can be 2 sessions: 0190-aaaa-2222, 0191-bbbb-2222\.$/u,
  );
  const many = Array.from({ length: 12 }, (_, index) => `id-${index}`);
  expect(() => findId(many, 'id-')).toThrow(/can be 12 sessions: id-0, .*id-9, and 2 more\.$/u);
});

it.each(['x', '', '0190-bbbb'])('finds no session by %j', (part) => {
  expect(() => findId(IDS, part)).toThrow(/^There is no session/u);
});

it('shows as much of the ends of ids as tells them apart, and at least eight characters', () => {
  expect([...shortIds(['a-12345678', 'b-12345679', 'main']).values()]).toEqual([
    '12345678',
    '12345679',
    'main',
  ]);
  expect([...shortIds(['aa-00000000', 'ba-00000000']).values()]).toEqual([
    'aa-00000000',
    'ba-00000000',
  ]);
});
