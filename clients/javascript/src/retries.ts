const FIRST_PAUSE_MS = 100;
const PAUSE_MS_MAX = 5_000;
const JITTER = 0.5;

/**
 * How long to wait after an attempt, the first being 1, in milliseconds.
 *
 * Pauses double, and are shortened by a random share, so that many clients that were refused together do not return
 * together; unless the service says when to return: retryAfter, the header, in seconds or as a date.
 */
export function pauseMs(attempt: number, retryAfter: string | null = null): number {
  const asked = retryAfter === null ? Number.NaN : delayMs(retryAfter);
  if (!Number.isNaN(asked)) return Math.max(0, asked);
  return Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), PAUSE_MS_MAX) * (1 - JITTER * Math.random());
}

function delayMs(retryAfter: string): number {
  return /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1_000 : Date.parse(retryAfter) - Date.now();
}
