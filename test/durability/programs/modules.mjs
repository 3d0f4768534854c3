/** A tool and a model that an agent's own thread loads; what they did and asked is kept outside. */
import { appendFileSync, closeSync, fsyncSync, openSync } from 'node:fs';
import { request } from 'node:http';

/** One line of a file that is on the disk when this returns. */
export function note(file, ...words) {
  const descriptor = openSync(file, 'a');
  try {
    appendFileSync(descriptor, `${words.join(' ')}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Ask the process that survives. */
export function ask(url, body, signal) {
  return new Promise((resolve, reject) => {
    const asked = request(
      url,
      { method: 'POST', agent: false, signal, headers: { 'content-type': 'application/json' } },
      (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (part) => (text += part));
        response.on('end', () => resolve(JSON.parse(text)));
        response.on('error', reject);
      },
    );
    asked.on('error', reject);
    asked.end(JSON.stringify(body));
  });
}

/** The work of a tool: a line before its effect, time in which it can be killed, a line after. */
export async function work({ url, file, callId, where }) {
  note(file, 'begin', callId);
  await ask(`${url}/tool`, { callId, where });
  note(file, 'done', callId);
  return `done ${callId}`;
}

export default (options) => {
  if (options.kind === 'tool') {
    return {
      name: 'thread_work',
      description: 'Works in the thread of whoever calls it.',
      parameters: { type: 'object' },
      execute: (_, { callId }) => work({ ...options, callId, where: 'thread' }),
    };
  }
  return {
    async *stream({ messages, sessionId }, { signal }) {
      const answer = await ask(`${options.url}/think`, { messages, sessionId }, signal);
      if (answer.failure !== undefined) {
        yield {
          type: 'finish',
          reason: { kind: 'error', failure: { code: 'REFUSED', message: answer.failure } },
        };
        return;
      }
      yield { type: 'block-start', index: 0, blockType: 'text' };
      for (const text of answer.words) yield { type: 'text-delta', index: 0, text };
      yield { type: 'block-end', index: 0, block: { type: 'text', text: answer.words.join('') } };
      for (const [at, { id, name, args }] of answer.calls.entries()) {
        const index = at + 1;
        const block = { type: 'tool-call', id, name, arguments: JSON.stringify(args) };
        yield { type: 'block-start', index, blockType: 'tool-call' };
        yield { type: 'tool-call-delta', index, id, name, argumentsDelta: block.arguments };
        yield { type: 'block-end', index, block };
      }
      yield { type: 'finish', reason: { kind: answer.calls.length > 0 ? 'tool-calls' : 'stop' } };
    },
  };
};
