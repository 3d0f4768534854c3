import { isPromiseLetGo } from './deferred.ts';

/** The part of a pino logger that is used here. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

const silence = (): void => {};
export const silentLogger: Logger = {
  debug: silence,
  info: silence,
  warn: silence,
  error: silence,
};

/** The logger of a caller: what it throws, now or later, is its own and stops nothing here. */
export function containedLogger(logger: Logger): Logger {
  const contained =
    (level: keyof Logger) =>
    (fields: object, message: string): void => {
      try {
        isPromiseLetGo(logger[level](fields, message));
      } catch {
        // There is nobody left to tell it to.
      }
    };
  return {
    debug: contained('debug'),
    info: contained('info'),
    warn: contained('warn'),
    error: contained('error'),
  };
}
