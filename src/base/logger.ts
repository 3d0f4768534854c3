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
