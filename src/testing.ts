/** For tests of programs: models that play a script, a gate to hold them open, a watch. */
export { scriptedModel } from './models/scripted.ts';
export type {
  Script,
  ScriptedAnswer,
  ScriptedCall,
  ScriptedFunction,
  ScriptedModel,
  ScriptedStep,
  ScriptedText,
  ScriptedToolCall,
} from './models/scripted.ts';
export { gate } from './base/gate.ts';
export type { Gate } from './base/gate.ts';
export { watchInvariants } from './subagents/invariants.ts';
export type { InvariantWatch, LifecycleViolation } from './subagents/invariants.ts';
