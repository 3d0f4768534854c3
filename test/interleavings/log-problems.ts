/** What is wrong with a log that is over; written without a look at what keeps it in order. */
import type { SessionEvent } from '../../protocol/session-events.ts';

export function logProblems(events: readonly SessionEvent[], isChild: boolean): string[] {
  const problems: string[] = [];
  let turn = 0;
  let step = 0;
  let isTurnOpen = false;
  let isStepOpen = false;
  let hasEntered = false;
  let descriptors = 0;
  const open = new Map<string, number>();
  const announced = new Set<string>();
  const say = (event: SessionEvent, what: string): void =>
    void problems.push(`event ${event.seq} (${event.type}) ${what}`);
  const expectStep = (event: SessionEvent, at: { turn: number; step: number }): void => {
    if (!isStepOpen || at.turn !== turn || at.step !== step) say(event, 'is outside of its step');
  };
  events.forEach((event, at) => {
    if (event.seq !== at) say(event, `stands at ${at}`);
    switch (event.type) {
      case 'turn/start':
        if (isTurnOpen) say(event, 'starts inside of a turn');
        if (event.data.turn !== turn + 1) say(event, 'is not the next');
        turn = event.data.turn;
        step = 0;
        isTurnOpen = true;
        break;
      case 'turn/end':
        if (!isTurnOpen || isStepOpen || event.data.turn !== turn) say(event, 'ends no turn');
        isTurnOpen = false;
        break;
      case 'step/start':
        if (!isTurnOpen || isStepOpen || event.data.step !== step + 1)
          say(event, 'is no next step');
        step = event.data.step;
        isStepOpen = hasEntered = true;
        break;
      case 'step/end':
        expectStep(event, event.data);
        if (open.size > 0) say(event, `leaves ${[...open.keys()].join()} without a result`);
        open.clear();
        isStepOpen = false;
        break;
      case 'tool/call':
        expectStep(event, event.data);
        if (open.has(event.data.callId)) say(event, 'is made twice');
        open.set(event.data.callId, event.seq);
        break;
      case 'tool/result': {
        expectStep(event, event.data);
        const [first] = open.keys();
        if (first !== event.data.message.source.callId) say(event, 'is not the next result');
        open.delete(event.data.message.source.callId);
        break;
      }
      case 'assistant/chunk':
      case 'assistant/message':
        expectStep(event, event.data);
        break;
      case 'llm/retry':
        expectStep(event, event.data);
        announced.add(event.data.retryId);
        break;
      case 'llm/retry-started':
        expectStep(event, event.data);
        if (!announced.delete(event.data.retryId)) say(event, 'was not announced');
        break;
      case 'session/end-seed':
        // What a fork began with is not its own.
        hasEntered = false;
        break;
      case 'subagent/descriptor':
        descriptors++;
        if (!isTurnOpen) say(event, 'stands outside of a turn');
        if (hasEntered) say(event, 'comes after the first step');
        break;
      default:
    }
    if ('sourceEventSeqs' in event && event.sourceEventSeqs?.some((seq) => seq >= event.seq)) {
      say(event, 'cites what is not before it');
    }
  });
  if (isTurnOpen) problems.push(`turn ${turn} is open`);
  if (isStepOpen) problems.push(`step ${step} is open`);
  const expected = isChild && hasEntered ? 1 : 0;
  if (descriptors !== expected) problems.push(`there are ${descriptors} descriptors`);
  return problems;
}
