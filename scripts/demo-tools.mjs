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
  tool('exhaust_heap', 'Fills the heap with small objects.', () => {
    // Many small arrays of small objects: a shape that a thread's heap limit contains.
    const kept = [];
    for (;;) {
      const some = [];
      while (some.length < 1000) some.push({});
      kept.push(some);
    }
  }),
  tool('spin_forever', 'Never returns.', () => {
    for (;;);
  }),
];
