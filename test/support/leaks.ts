/** After every test: nothing that the test opened is still open. */
export {};
