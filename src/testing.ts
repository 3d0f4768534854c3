/** Public test doubles: models that play a script, and a gate to hold them open. */
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
