import { broken, foreign, MunimentError, readObject, refused, unanswered } from './error.js';
import { type Clock, delay, filled, machineClock, type RetryPolicy } from './retry.js';
import { version } from './version.js';

/** Configuration of a client. `url` and `key` are required. */
export interface Config {
  /** Of the service, as https://muniment.example. It may have a path, which precedes /v1. */
  url: string;
  /**
   * The API key, or a function that returns it, for keys that are rotated or kept elsewhere. It is
   * called for each attempt, and should keep what it has read. Its error ends the call.
   */
  key: string | (() => string | Promise<string>);
  /** Sends the requests. Default: the global fetch. Redirects are not followed, as they would send the key elsewhere. */
  fetch?: typeof fetch;
  /**
   * Of one attempt, until its answer is read; of a download, until it begins. Default one minute:
   * sealing answers within some 30 seconds.
   */
  timeoutMs?: number;
  /** Of a call with all its attempts and pauses. Default: none. */
  deadlineMs?: number;
  /** What is tried again, and when. */
  retry?: RetryPolicy;
  /** Names the caller in the header User-Agent. Default muniment-typescript/VERSION; browsers send their own. */
  userAgent?: string;
  /** For tests. */
  clock?: Clock;
}

/** How a call differs from others. */
export interface CallOptions {
  /** Ends the call. */
  signal?: AbortSignal;
  /** Of a call with all its attempts and pauses. */
  deadlineMs?: number;
  /**
   * For one change: 1 to 255 visible ASCII characters. A caller that may be killed before it has
   * the answer keeps the key, and makes the same call with it again within 24 hours: it gets the first
   * answer. With another call the answer is a conflict.
   */
  idempotencyKey?: string | undefined;
  /** What is tried again, and when. */
  retry?: RetryPolicy;
}

/** One call, in all of its attempts. */
export interface Call {
  method: string;
  path: string;
  query?: object | undefined;
  /** Written as JSON; or bytes, with their Content-Type among the headers. */
  body?: unknown;
  headers?: Record<string, string>;
}

/** A success: the data in its envelope. */
export interface Answer<T> {
  data: T;
  headers: Headers;
  /** The one that was sent; empty if there was none. */
  idempotencyKey: string;
}

/** The longest answer that is read at once. Bundles and files are streams. */
const maxAnswer = 256 << 20;
const maxRefusal = 1 << 20;

/** Makes calls of one service with one API key. */
export class Caller {
  readonly retry: Required<RetryPolicy>;
  readonly clock: Clock;
  private readonly base: string;
  private readonly timeoutMs: number;
  private readonly deadlineMs: number | undefined;
  private readonly userAgent: string | undefined;

  constructor(private readonly cfg: Config, private readonly options: CallOptions = {}) {
    const base = URL.canParse(cfg.url) ? new URL(cfg.url) : undefined;
    if (!base || !/^https?:$/.test(base.protocol) || base.search || base.hash || base.username || base.password) {
      throw new TypeError(`url ${JSON.stringify(cfg.url)} is invalid: it must be like https://muniment.example`);
    }
    if (typeof cfg.key !== 'function') checkKey(cfg.key);
    this.base = (base.origin + base.pathname).replace(/\/+$/, '');
    this.timeoutMs = duration('timeoutMs', cfg.timeoutMs) ?? 60_000;
    this.deadlineMs = duration('deadlineMs', options.deadlineMs ?? cfg.deadlineMs);
    this.retry = filled(options.retry ?? cfg.retry);
    this.clock = cfg.clock ?? machineClock;
    this.userAgent = cfg.userAgent ?? ('process' in globalThis ? `muniment-typescript/${version}` : undefined);
  }

  /** The same with other options. */
  with(options: CallOptions): Caller {
    return new Caller(this.cfg, { ...this.options, ...options });
  }

  /** Makes attempts until one is answered, and returns the data. */
  async data<T>(call: Call): Promise<T> {
    return (await this.answer<T>(call)).data;
  }

  /** Returns what stands in the data under the record's noun. */
  async record<T>(call: Call, noun: string): Promise<T> {
    const data = await this.data<Record<string, T>>(call);
    if (data[noun] === undefined) throw new MunimentError({ operation: operationOf(call), kind: 'foreign', status: 200, message: `its data have no ${noun}` });
    return data[noun];
  }

  async answer<T>(call: Call): Promise<Answer<T>> {
    const request = this.request(call);
    return await this.again(request, async (signal) => {
      const response = await this.send(request, signal);
      const text = await readText(request.operation, response, maxAnswer);
      const body = readObject(text);
      if (!body || body.ok !== true || body.data === undefined || typeof body.contractVersion !== 'string' || body.contractVersion === '') {
        throw broken(request.operation, response, foreign(response, text));
      }
      return { data: body.data as T, headers: response.headers, idempotencyKey: request.idempotencyKey };
    });
  }

  /** The records of all pages, which stand in the data under their plural. */
  async* list<T>(path: string, plural: string, query?: object): AsyncGenerator<T, void, undefined> {
    let cursor: unknown;
    do {
      const page = await this.data<Record<string, unknown>>({ method: 'GET', path, query: { ...query, ...(cursor ? { cursor } : {}) } });
      const records = page[plural];
      if (!Array.isArray(records)) throw new MunimentError({ operation: `GET ${path}`, kind: 'foreign', status: 200, message: `its data have no ${plural}` });
      yield* records as T[];
      cursor = page.nextCursor;
    } while (cursor);
  }

  /**
   * A file. Only its begin is tried again: reading one that breaks off ends with an error.
   */
  async stream(path: string, query?: object): Promise<ReadableStream<Uint8Array>> {
    const request = this.request({ method: 'GET', path, query });
    const response = await this.again(request, (signal) => this.send(request, signal), true);
    return response.body ?? new Blob([]).stream();
  }

  /** Waits as after a failed attempt, counted from 0; false if the caller's signal ends that. */
  async pause(attempt: number): Promise<boolean> {
    try {
      await this.clock.sleep(delay(this.retry, attempt, 0), this.options.signal);
      return true;
    } catch {
      return false;
    }
  }

  private request(call: Call): Sent {
    const operation = operationOf(call);
    const headers = { ...call.headers };
    let body = call.body as BodyInit | undefined;
    if (body !== undefined && headers['content-type'] === undefined) {
      body = JSON.stringify(call.body);
      headers['content-type'] = 'application/json';
    }
    let idempotencyKey = '';
    if (call.method === 'POST') {
      idempotencyKey = this.options.idempotencyKey ?? randomKey();
      if (!isVisible(idempotencyKey, 255)) throw new TypeError(`${operation}: the Idempotency-Key must be 1 to 255 visible ASCII characters`);
      headers['idempotency-key'] = idempotencyKey;
    }
    if (this.userAgent !== undefined) headers['user-agent'] = this.userAgent;
    return { operation, idempotencyKey, method: call.method, target: this.base + call.path + queryOf(call.query), headers, body };
  }

  /** Makes one attempt, and returns the answer if its status is 200. */
  private async send(request: Sent, signal: AbortSignal): Promise<Response> {
    const key = typeof this.cfg.key === 'function' ? await this.cfg.key() : this.cfg.key;
    checkKey(key);
    signal.throwIfAborted();
    let response: Response;
    try {
      response = await (this.cfg.fetch ?? fetch)(request.target, {
        method: request.method, headers: { ...request.headers, authorization: `Bearer ${key}` }, body: request.body ?? null, redirect: 'manual', signal,
      });
    } catch (err) {
      throw unanswered(request.operation, err);
    }
    if (response.status === 200) return response;
    throw refused(request.operation, response, await readText(request.operation, response, maxRefusal));
  }

  /**
   * Makes attempts until one succeeds or none may follow. An attempt that has begun a stream may go on
   * after its timeout.
   */
  private async again<T>(request: Sent, attempt: (signal: AbortSignal) => Promise<T>, streams = false): Promise<T> {
    const end = this.deadlineMs === undefined ? Infinity : this.clock.now() + this.deadlineMs;
    for (let n = 0; ; n++) {
      this.options.signal?.throwIfAborted();
      let e: MunimentError;
      try {
        return await this.bounded(attempt, end - this.clock.now(), streams);
      } catch (err) {
        if (!(err instanceof MunimentError)) throw err;
        e = err;
      }
      e.idempotencyKey = request.idempotencyKey;
      const afterMs = e.retryAfter * 1000;
      if (!e.passes || this.options.signal?.aborted || n + 1 >= this.retry.attempts || afterMs > this.retry.maxRetryAfterMs) throw e;
      const pause = delay(this.retry, n, afterMs);
      if (this.clock.now() + pause >= end) throw e; // says more than that the time is over
      try {
        await this.clock.sleep(pause, this.options.signal);
      } catch {
        throw e;
      }
    }
  }

  /** Makes an attempt that ends with its timeout, with the call's deadline and with the caller's signal. */
  private async bounded<T>(attempt: (signal: AbortSignal) => Promise<T>, leftMs: number, streams: boolean): Promise<T> {
    const stop = new AbortController();
    const outer = this.options.signal;
    const abort = () => stop.abort(outer?.reason);
    outer?.addEventListener('abort', abort, { once: true });
    const timer = setTimeout(() => stop.abort(new Error('the answer did not come in time')), Math.max(Math.min(this.timeoutMs, leftMs), 0));
    let going = false;
    try {
      const result = await attempt(stop.signal);
      going = streams; // the caller's signal still ends it
      return result;
    } finally {
      clearTimeout(timer);
      if (!going) outer?.removeEventListener('abort', abort);
    }
  }
}

/** A call as it is sent. */
interface Sent {
  operation: string;
  idempotencyKey: string;
  method: string;
  target: string;
  headers: Record<string, string>;
  body: BodyInit | undefined;
}

const operationOf = (call: Call) => `${call.method} ${call.path}`;

async function readText(operation: string, response: Response, most: number): Promise<string> {
  const parts: string[] = [];
  const decoder = new TextDecoder();
  let size = 0;
  if (!response.body) return '';
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return parts.join('') + decoder.decode();
      if ((size += value.length) > most) break;
      parts.push(decoder.decode(value, { stream: true }));
    }
  } catch (err) {
    throw broken(operation, response, `the answer is cut off: ${err instanceof Error ? err.message : String(err)}`, err);
  }
  await reader.cancel().catch(() => undefined); // whatever else comes is of no use
  throw broken(operation, response, `the answer is longer than ${most} bytes`);
}

/** The error does not show the key: a part of it may be right. */
function checkKey(key: unknown): asserts key is string {
  if (typeof key !== 'string' || !isVisible(key, 1024)) throw new TypeError('the API key is malformed: it must be visible ASCII');
}

export const isVisible = (text: string, most: number) => text.length <= most && /^[!-~]+$/.test(text);

/** 128 random bits. */
export function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}

function duration(name: string, ms: number | undefined): number | undefined {
  if (ms !== undefined && !(ms >= 0)) throw new TypeError(`${name} is invalid`);
  return ms;
}

/** A path of fixed parts and ids, which are escaped: at`/v1/rights/${id}/revoke`. */
export function at(parts: TemplateStringsArray, ...ids: string[]): string {
  return parts.reduce((path, part, i) => {
    const id = ids[i - 1];
    // A dot would be taken for a step in the path.
    if (typeof id !== 'string' || /^\.{0,2}$/.test(id)) throw new TypeError(`${path}: ${JSON.stringify(id)} is no id`);
    return path + encodeURIComponent(id).replaceAll('%3A', ':') + part;
  });
}

/** The query of a filter. What is undefined, null or empty is left out. */
function queryOf(filter: object = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== '') query.append(name, String(one));
    }
  }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}
