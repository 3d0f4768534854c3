export const MAX_DIAGNOSTIC_BYTES = 4_096;
const CUT = '… [cut]';

/** At most 4 096 bytes of UTF-8, cut between characters and visibly. */
export function boundDiagnostic(text: string): string {
  const bytes = Buffer.from(text, 'utf8');
  // Through UTF-8 and back, so that a lone surrogate does not grow when it is encoded later.
  if (bytes.byteLength <= MAX_DIAGNOSTIC_BYTES) return bytes.toString('utf8');
  let end = MAX_DIAGNOSTIC_BYTES - Buffer.byteLength(CUT);
  while (isContinuation(bytes[end])) end--;
  return `${bytes.toString('utf8', 0, end)}${CUT}`;
}

/** The byte at which a character must not be cut off: it belongs to the one before. */
function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000;
}
