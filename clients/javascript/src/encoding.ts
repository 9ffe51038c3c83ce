/**
 * A request's body as JSON.
 *
 * An infinite number becomes the largest one, which the service refuses: JSON has null for it, a missing value.
 */
export function encode(body: unknown): string {
  return JSON.stringify(body, (_name, value: unknown) => {
    if (value === Infinity) return Number.MAX_VALUE;
    return value === -Infinity ? -Number.MAX_VALUE : value;
  });
}
