import type { components } from './document.js';

type Schemas = components['schemas'];

/**
 * What to do about an error.
 *
 * - `invalid`: the request is not valid. Change it.
 * - `auth`: the key is missing, wrong, or lacks a scope. Use another one.
 * - `notFound`: the tenant has no such record.
 * - `conflict`: the state of the record does not allow this, or an Idempotency-Key was used for
 *   something else. Read the record.
 * - `precondition`: the constraint gate refuses the delivery, for the violations; or a
 *   confirmation is missing.
 * - `rateLimited`: too much at once. Wait `retryAfter`.
 * - `unavailable`: the service can't answer now. A change may have been made: make the same call
 *   again, with the same Idempotency-Key.
 * - `foreign`: the answer is not one of the service's, but of something on the way or at a wrong
 *   address, or it is cut off. The message says what came.
 */
export type ErrorKind = 'invalid' | 'auth' | 'notFound' | 'conflict' | 'precondition' | 'rateLimited' | 'unavailable' | 'foreign';

/**
 * What became of the request: `refused` for good, and nothing was changed; `tryAgain` later, and
 * nothing was changed; or `unknown`, which the same call with the same Idempotency-Key resolves.
 */
export type Outcome = 'refused' | 'tryAgain' | 'unknown';

export type ValidationError = Schemas['ValidationError'];

/** One rule of the constraint gate that refuses a delivery. */
export type Violation = Schemas['Violation'];

/** The members of a MunimentError. */
export interface Failure {
  operation: string;
  kind: ErrorKind;
  message: string;
  code?: string;
  status?: number;
  field?: string;
  validationErrors?: ValidationError[];
  violations?: Violation[];
  substrate?: string;
  requiredScopes?: string[];
  keyScopes?: string[];
  reason?: string;
  pending?: unknown[];
  confirmationToken?: string;
  preview?: unknown;
  requestId?: string;
  retryAfter?: number;
  /** What failed on the way, if no whole answer came. */
  cause?: unknown;
}

/** What went wrong with a call. */
export class MunimentError extends Error {
  override readonly name = 'MunimentError';
  /** What to do about it. */
  readonly kind: ErrorKind;
  /** Code of the service; empty if the answer was not the service's, or there was none. */
  readonly code: string;
  /** Status of the answer; 0 if there was none. */
  readonly status: number;
  /** The first field at fault. */
  readonly field: string;
  /** The faults, at most 20. */
  readonly validationErrors: ValidationError[];
  /** The rules that refused a delivery. */
  readonly violations: Violation[];
  /** Whose rules refused a delivery. */
  readonly substrate: string;
  /** What the key lacks. */
  readonly requiredScopes: string[];
  /** What the key has. */
  readonly keyScopes: string[];
  /** Of a 503; RIGHT_NOT_IN_FORCE of a row that is refused for good. */
  readonly reason: string;
  /** What sealing still waits for. */
  readonly pending: unknown[];
  /** Confirms an erasure, and `preview` says what would go. */
  readonly confirmationToken: string;
  readonly preview: unknown;
  /** Names the request in the service's log; empty if there was no answer. */
  readonly requestId: string;
  /** The service's Retry-After, in seconds; 0 if there is none. */
  readonly retryAfter: number;
  /** The method and the path of the request. */
  readonly operation: string;
  /**
   * That of the request, if it had one: whether a change was made that no answer came to shows when
   * the same call is made with it again.
   */
  idempotencyKey = '';

  constructor(f: Failure) {
    super(text(f), f.cause === undefined ? undefined : { cause: f.cause });
    this.kind = f.kind;
    this.code = f.code ?? '';
    this.status = f.status ?? 0;
    this.field = f.field ?? '';
    this.validationErrors = f.validationErrors ?? [];
    this.violations = f.violations ?? [];
    this.substrate = f.substrate ?? '';
    this.requiredScopes = f.requiredScopes ?? [];
    this.keyScopes = f.keyScopes ?? [];
    this.reason = f.reason ?? '';
    this.pending = f.pending ?? [];
    this.confirmationToken = f.confirmationToken ?? '';
    this.preview = f.preview;
    this.requestId = f.requestId ?? '';
    this.retryAfter = f.retryAfter ?? 0;
    this.operation = f.operation;
  }

  /** What became of the request. */
  get outcome(): Outcome {
    if (this.kind === 'unavailable' || this.kind === 'foreign') return 'unknown';
    return this.passes ? 'tryAgain' : 'refused';
  }

  /** Whether the same request may be answered otherwise later. */
  get passes(): boolean {
    switch (this.status) {
      case 0: case 408: case 425: case 429:
        return true;
      case 409: // an earlier attempt with the same Idempotency-Key is still being answered
        return this.code !== '' && this.retryAfter > 0;
      case 200:
        return this.cause !== undefined; // it was cut off
    }
    return this.status >= 500;
  }
}

function text(f: Failure): string {
  if (!f.status) return `${f.operation}: no answer: ${f.message}`;
  const said = f.code ? `${f.status} ${f.code}: ${f.message}` : `the answer is not the service's: ${f.message}`;
  const reason = f.reason ? ` (${f.reason})` : '';
  const request = f.requestId ? ` [request ${f.requestId}]` : '';
  return `${f.operation}: ${said}${reason}${request}`;
}

/** The reaction to a status of the service's. */
export function kindOf(status: number): ErrorKind {
  switch (status) {
    case 401: case 403: return 'auth';
    case 404: return 'notFound';
    case 409: return 'conflict';
    case 412: return 'precondition';
    case 429: return 'rateLimited';
    case 408: case 425: return 'unavailable';
  }
  return status >= 500 ? 'unavailable' : 'invalid';
}

/** The error of a request that no answer came to. */
export function unanswered(operation: string, cause: unknown): MunimentError {
  // What fetch throws says little; why is in its cause.
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  return new MunimentError({ operation, kind: 'unavailable', message: inner instanceof Error ? inner.message || inner.name : String(inner), cause });
}

/** The error of an answer that is not whole, or can't be read. */
export function broken(operation: string, response: Response, message: string, cause?: unknown): MunimentError {
  return new MunimentError({
    operation, kind: 'foreign', message, status: response.status, requestId: response.headers.get('x-request-id') ?? '',
    retryAfter: retryAfter(response.headers), cause,
  });
}

/** Reads the error envelope of an answer; one without is of something else on the way. */
export function refused(operation: string, response: Response, text: string): MunimentError {
  const body = readObject(text);
  if (!body || body.ok !== false || typeof body.error !== 'string' || body.error === '') {
    return broken(operation, response, foreign(response, text));
  }
  return new MunimentError({
    operation, kind: kindOf(response.status), code: body.error, status: response.status, message: string(body.message) ?? '',
    field: string(body.field), validationErrors: list(body.validationErrors), violations: list(body.violations), substrate: string(body.substrate),
    requiredScopes: list(body.requiredScopes), keyScopes: list(body.keyScopes), reason: string(body.reason), pending: list(body.pending),
    confirmationToken: string(body.confirmationToken), preview: body.preview, retryAfter: retryAfter(response.headers),
    requestId: string(body.requestId) ?? response.headers.get('x-request-id') ?? '',
  });
}

/** The object that a text is; undefined if it is none. */
export function readObject(text: string): Record<string, unknown> | undefined {
  try {
    const v: unknown = JSON.parse(text);
    return typeof v === 'object' && v !== null && !Array.isArray(v) ? v as Record<string, unknown> : undefined;
  } catch {
    return undefined;
  }
}

const string = (v: unknown) => (typeof v === 'string' && v !== '' ? v : undefined);
const list = <T>(v: unknown) => (Array.isArray(v) ? v as T[] : undefined);

/** Describes an answer that is not the service's. */
export function foreign(response: Response, text: string): string {
  if (response.type === 'opaqueredirect') return 'a redirect, which is not followed';
  const kind = response.headers.get('content-type') ?? 'no content type';
  return `${response.status} ${response.statusText} with ${printable(kind)} that begins ${JSON.stringify(printable(text))}`;
}

/** The start of a foreign text as a log may have it. */
function printable(text: string): string {
  return text.slice(0, 100).replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, ' ');
}

/** Reads the header, in seconds or as a date; 0 if there is none. */
function retryAfter(headers: Headers): number {
  const given = headers.get('retry-after') ?? '';
  if (/^\d{1,9}$/.test(given)) return Number(given);
  const at = Date.parse(given);
  return Number.isNaN(at) ? 0 : Math.max((at - Date.now()) / 1000, 0);
}

type RowError = Schemas['RowError'];

/** The error of a row that was rejected; undefined of any other. */
export function errorOfRow(row: { index: number; error?: RowError }): MunimentError | undefined {
  const e = row.error;
  if (!e) return undefined;
  const status = e.error === 'INTERNAL_ERROR' && e.reason ? 503 : statusOf[e.error] ?? 500;
  return new MunimentError({
    operation: `row ${row.index}`, kind: kindOf(status), code: e.error, status, message: e.message, field: e.field, validationErrors: e.validationErrors ?? [],
    violations: list(e.violations), substrate: e.substrate, reason: e.reason,
  });
}

/** The status that a code of the service goes with. */
const statusOf: Record<string, number> = {
  AUTH_REQUIRED: 401, AUTH_INVALID: 401, SCOPE_MISSING: 403, RESOURCE_NOT_FOUND: 404, STATE_CONFLICT: 409, PRECONDITION_FAILED: 412,
  VALIDATION_FAILED: 422, RATE_LIMITED: 429, BAD_REQUEST: 400, INTERNAL_ERROR: 500,
};
