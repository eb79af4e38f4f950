/**
 * How often and when a request is made again. It is, if
 *
 * - no answer came, or it broke off;
 * - the status is 408, 425, 429 or from 500 on;
 * - the status is 409 with Retry-After: an earlier attempt with the same Idempotency-Key is still
 *   being answered.
 *
 * The pause is random, up to a bound that doubles with each attempt, and at least half of that;
 * where the service says Retry-After, it is that and a little more.
 */
export interface RetryPolicy {
  /** Of a call, the first included. Default 5; 1 tries nothing again. */
  attempts?: number;
  /** The bound of the first pause. Default 500. */
  firstDelayMs?: number;
  /** The bound of all pauses. Default 30,000. */
  maxDelayMs?: number;
  /**
   * The longest Retry-After that a call waits for: with a longer one the call ends with the answer.
   * Default 120,000.
   */
  maxRetryAfterMs?: number;
}

/** The policy with its defaults; it refuses what makes no sense. */
export function filled(p: RetryPolicy = {}): Required<RetryPolicy> {
  const all = { attempts: 5, firstDelayMs: 500, maxDelayMs: 30_000, maxRetryAfterMs: 120_000, ...p };
  for (const [name, value] of Object.entries(all)) {
    if (!(value >= 0) || name === 'attempts' && !(Number.isInteger(value) && value > 0)) throw new TypeError(`retry.${name} is invalid`);
  }
  return all;
}

/** The pause after an attempt, counted from 0, afterMs being the service's Retry-After, or 0. */
export function delay(p: Required<RetryPolicy>, attempt: number, afterMs: number): number {
  const half = Math.min(p.firstDelayMs * 2 ** Math.min(attempt, 50), p.maxDelayMs) / 2;
  const jitter = half * Math.random();
  return afterMs > 0 ? afterMs + Math.min(jitter, afterMs / 4) : half + jitter;
}

/** Time. Tests replace it. */
export interface Clock {
  /** The milliseconds since 1970. */
  now(): number;
  /** Resolves after a while, or rejects with the signal's reason once that aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The time of the machine. */
export const machineClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) => new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, Math.min(ms, 2 ** 31 - 1));
    signal?.addEventListener('abort', stop, { once: true });
  }),
};
