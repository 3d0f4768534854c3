#!/usr/bin/env node
import process from 'node:process';
import { runCommand } from './command.ts';
import { runUnderSignals } from './signals.ts';

await runUnderSignals((signal) =>
  runCommand(process.argv.slice(2), process, { cwd: process.cwd(), env: process.env }, signal),
);
