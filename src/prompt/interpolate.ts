const NAME = /^[a-z][a-z0-9_]*$/;

/** True for what can stand between `{{` and `}}`. */
export const isVariableName = (name: string): boolean => NAME.test(name);

/**
 * Replace every `{{name}}`. Strict, so that a typo is seen and never sent: what stands between
 * the braces must be the exact name of a variable that has a value. A `{{` that nothing closes
 * is text, and what was put in is not looked at again.
 *
 * @param valueOf gives a variable's value, or `undefined` when there is none of that name.
 * @throws {Error} naming the group that is malformed or unknown.
 */
export function interpolate(
  template: string,
  valueOf: (name: string) => string | undefined,
): string {
  let result = '';
  let at = 0;
  for (;;) {
    const open = template.indexOf('{{', at);
    const close = open === -1 ? -1 : template.indexOf('}}', open + 2);
    if (close === -1) return result + template.slice(at);
    const name = template.slice(open + 2, close);
    if (!isVariableName(name)) {
      throw new Error(`The prompt has a malformed variable \`{{${name.slice(0, 64)}}}\`.`);
    }
    const value = valueOf(name);
    if (value === undefined)
      throw new Error(`The prompt names \`{{${name}}}\`, which has no value.`);
    result += template.slice(at, open) + value;
    at = close + 2;
  }
}
