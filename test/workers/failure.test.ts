import { describe, expect, it } from 'vitest';
import { turnErrorOf } from '../../workers/agent/failure.ts';

describe('turnErrorOf', () => {
  it("keeps an error's own code and tells its causes", () => {
    const cause = new Error('no route to host');
    const error = Object.assign(new Error('It broke', { cause }), { code: 'E_BROKE' });
    expect(turnErrorOf(error)).toEqual({ message: 'It broke: no route to host', code: 'E_BROKE' });
  });

  it('makes something of anything that can be thrown', () => {
    expect(turnErrorOf('just text')).toEqual({ message: 'just text', code: 'UNKNOWN' });
    expect(turnErrorOf(undefined)).toEqual({ message: 'undefined', code: 'UNKNOWN' });
  });
});
