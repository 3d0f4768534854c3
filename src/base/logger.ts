import { isPromiseLetGo } from './deferred.ts';

/** The part of a pino logger that is used here. */
export interface Logger {
  /** What is of use only when something is looked into. */
  debug(fields: object, message: string): void;
  /** What happens in the ordinary course. */
  info(fields: object, message: string): void;
  /** What went wrong and was got over. */
  warn(fields: object, message: string): void;
  /** What went wrong and is lost. */
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
