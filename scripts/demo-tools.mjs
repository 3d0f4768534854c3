/** Tools that misbehave, each in its own way. Loaded inside the thread of each agent. */

const tool = (name, description, execute) => ({
  name,
  description,
  parameters: { type: 'object', properties: {}, additionalProperties: false },
  execute,
});

export default () => [
  tool('throw_late', 'Throws outside of its own promise.', () => {
    setTimeout(() => {
      throw new Error('thrown on purpose, by the demo');
    });
    return new Promise(() => {});
  }),
  tool('exhaust_heap', 'Fills the heap with lists.', () => {
    const kept = [];
    for (;;) kept.push(Array.from({ length: 250_000 }).fill(kept.length));
  }),
  tool('spin_forever', 'Never returns.', () => {
    for (;;);
  }),
];
