/** A UUID of version 7 (RFC 9562): its time comes first, which databases insert much faster than random ids. */
export function newId(): string {
  const random = randomBytes(10);
  random[0] = (random[0]! & 0x0f) | 0x70; // the version
  random[2] = (random[2]! & 0x3f) | 0x80; // the variant
  const digits = Date.now().toString(16).padStart(12, "0") + Array.from(random, hexadecimal).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function randomBytes(count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  // Node 18 has no global crypto; ids must be unique, not unguessable.
  return globalThis.crypto?.getRandomValues(bytes) ?? bytes.map(() => Math.random() * 256);
}

function hexadecimal(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}
