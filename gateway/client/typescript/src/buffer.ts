import { isVisible, randomKey } from './call.js';
import { Client } from './client.js';
import { type Delivery, ingest, maxBody, maxRows, passes, type Row, rowText, type RowResult } from './deliver.js';
import { errorOfRow, MunimentError } from './error.js';
import { delay } from './retry.js';

/** Refuses a play: too many wait. It has been kept nowhere. */
export class BufferFullError extends Error {
  override readonly name = 'BufferFullError';
}

/** Refuses to open a storage that is open elsewhere. */
export class BufferInUseError extends Error {
  override readonly name = 'BufferInUseError';
}

/** A play that waits, by its number in the storage. */
export interface StoredPlay {
  seq: number;
  bytes: number;
}

/**
 * Where the plays of a buffer are kept. A buffer calls one function at a time. What rejects leaves open
 * whether it was done, unless it says otherwise.
 */
export interface BufferStorage {
  /** Locks the storage, and returns the plays that wait, the oldest first. */
  open(): Promise<StoredPlay[]>;
  /** Keeps a play under a seq above all others. It is durable once this resolves. */
  add(row: string): Promise<StoredPlay>;
  /** The rows of plays that wait. */
  read(seqs: number[]): Promise<string[]>;
  /** Removes plays that were answered. That need not be durable: one that comes back is sent again, and is a duplicate then. */
  remove(seqs: number[]): Promise<void>;
  /** Unlocks the storage. */
  close(): Promise<void>;
}

/** How a buffer works. `client` and `storage` are required. */
export interface BufferConfig {
  /** Uploads the plays. Of its RetryPolicy only the delays apply: a buffer goes on for good. */
  client: Client;
  /** Where the plays are kept: a FileStorage of muniment-client/node, or a BrowserStorage of muniment-client/browser. */
  storage: BufferStorage;
  /** Bounds what the rows of plays take that wait, some 300 bytes each. Default 32 MiB. */
  maxBytes?: number;
  /** Bounds how many plays wait. Default 100,000. */
  maxPlays?: number;
  /**
   * Is called for each play that the service refuses for good, with the reason: the constraint gate's
   * violations, a right that is revoked, a play of more than 30 days ago. The play is removed once it has
   * returned; one may be reported again after a crash. Without it they are dropped.
   */
  refused?: (row: Row, why: MunimentError) => void | Promise<void>;
  /** Is called for each play that was accepted or is a duplicate, like refused. */
  delivered?: (row: Row, result: RowResult) => void | Promise<void>;
  /** Is called with what keeps the buffer from uploading, for logs, before each pause. */
  trouble?: (err: MunimentError) => void;
}

/** What a buffer holds. */
export interface BufferStats {
  /** How many plays wait. */
  waiting: number;
  /** What they take of maxBytes. */
  bytes: number;
}

/**
 * Keeps plays until the service has answered them, for devices that are offline at times. Each play counts
 * exactly once at the service, whenever the process is killed or the power fails: it is durable before
 * add resolves, it is removed after it was answered, and what is sent twice the service knows by its row
 * id. When it is full, add refuses.
 */
export class DeliveryBuffer {
  private waiting: StoredPlay[] = [];
  private bytes = 0;
  private closed = false;
  private running = false;
  private wake: () => void = () => undefined;
  /** Ends with the last operation of the storage. */
  private tail: Promise<unknown> = Promise.resolve();
  private readonly client: Client; // makes one attempt

  private constructor(private readonly cfg: BufferConfig & { maxBytes: number; maxPlays: number }) {
    this.client = cfg.client.with({ retry: { ...cfg.client.caller.retry, attempts: 1 }, idempotencyKey: undefined });
  }

  /** Opens the buffer of a storage. Close it. */
  static async open(config: BufferConfig): Promise<DeliveryBuffer> {
    const cfg = { ...config, maxBytes: config.maxBytes ?? 32 << 20, maxPlays: config.maxPlays ?? 100_000 };
    if (!(cfg.maxBytes > 0) || !(cfg.maxPlays > 0)) throw new TypeError('maxBytes and maxPlays have to be above 0');
    const b = new DeliveryBuffer(cfg);
    b.waiting = await cfg.storage.open();
    b.bytes = b.waiting.reduce((n, play) => n + play.bytes, 0);
    return b;
  }

  /** Releases the storage. Plays that wait stay in it. End run first. */
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    await this.inTurn(() => this.cfg.storage.close());
  }

  stats(): BufferStats {
    return { waiting: this.waiting.length, bytes: this.bytes };
  }

  /**
   * Resolves once the play is durable; then it will be uploaded, as of playedAt, or of now without one. An
   * error promises nothing: after one of the storage the play may be there all the same. A caller that
   * adds it again gives it an idempotencyKey, so that it counts once.
   *
   * It takes no account of whether the service would accept the play; but rightId and spatialAnchorId have
   * to be given.
   */
  async add(delivery: Delivery, playedAt?: Date | string): Promise<void> {
    const { text, bytes } = rowText(this.rowOf(delivery, playedAt));
    await this.inTurn(async () => {
      this.checkOpen();
      if (this.bytes + bytes > this.cfg.maxBytes || this.waiting.length >= this.cfg.maxPlays) {
        throw new BufferFullError(`the buffer is full: ${this.waiting.length} plays wait, of ${this.bytes} bytes`);
      }
      const play = await this.cfg.storage.add(text);
      this.waiting.push(play);
      this.bytes += play.bytes;
    });
    this.wake();
  }

  private rowOf(delivery: Delivery, playedAt: Date | string | undefined): Row {
    const { idempotencyKey = randomKey(), ...d } = delivery;
    if (!d.rightId || !d.spatialAnchorId) throw new TypeError('rightId or spatialAnchorId is missing');
    if (!(d.dwellMs >= 0)) throw new TypeError('dwellMs is not a number of 0 or more');
    if (!isVisible(idempotencyKey, 255)) throw new TypeError('idempotencyKey must be 1 to 255 visible ASCII characters');
    const at = new Date(playedAt ?? this.client.caller.clock.now());
    const row: Record<string, unknown> = { rowId: idempotencyKey, playedAt: at.toISOString() };
    for (const [name, value] of Object.entries(d)) {
      if (value !== undefined && value !== null && value !== '') row[name] = value;
    }
    return row as unknown as Row;
  }

  /**
   * Uploads plays, the oldest first, until the signal aborts; then it resolves. While the service can't be
   * reached, or can't take them, it goes on trying, with pauses as the client's RetryPolicy has them.
   *
   * It rejects if going on is of no use: the service does not accept the key (`auth`), is not at the
   * address (`notFound`), or the storage fails. No play is lost by that; call it again when it is mended.
   * One run at a time.
   */
  async run(signal: AbortSignal): Promise<void> {
    if (this.running) throw new Error('the buffer is being uploaded already');
    this.running = true;
    try {
      await this.upload(this.client.with({ signal }), signal);
    } catch (err) {
      if (!signal.aborted) throw err;
    } finally {
      this.running = false;
    }
  }

  private async upload(client: Client, signal: AbortSignal): Promise<void> {
    let most = maxRows; // of the next batch: fewer while one is refused as a whole
    for (let failed = 0; !signal.aborted;) {
      const { plays, rows } = await this.take(most);
      if (plays.length === 0) {
        await this.added(signal);
        continue;
      }
      let trouble: MunimentError | undefined;
      try {
        trouble = await this.send(client, plays, rows);
        if (!trouble) {
          [most, failed] = [Math.min(2 * most, maxRows), 0];
          continue;
        }
      } catch (err) {
        if (signal.aborted || !(err instanceof MunimentError)) throw err;
        trouble = err;
        if (ofBody(err)) {
          if (plays.length > 1) most = Math.floor(plays.length / 2); // to find the row that is to blame
          else await this.refuse(plays[0]!, rows[0]!, err);
          continue;
        }
        if (!err.passes && err.kind !== 'foreign') throw err;
      }
      this.cfg.trouble?.(trouble);
      await client.caller.clock.sleep(delay(client.caller.retry, failed++, Math.min(trouble.retryAfter, 3600) * 1000), signal);
    }
  }

  /** Reads the oldest plays, as many as a batch takes, and most at most. */
  private async take(most: number): Promise<{ plays: StoredPlay[]; rows: string[] }> {
    return await this.inTurn(async () => {
      this.checkOpen();
      const plays: StoredPlay[] = [];
      let size = 0;
      for (const play of this.waiting) {
        if (plays.length === most || (size += play.bytes + 1) > maxBody) break;
        plays.push(play);
      }
      return { plays, rows: plays.length === 0 ? [] : await this.cfg.storage.read(plays.map((play) => play.seq)) };
    });
  }

  /** Sends plays, and removes those that were answered. What it returns says why some were not, which the service can't decide now. */
  private async send(client: Client, plays: StoredPlay[], rows: string[]): Promise<MunimentError | undefined> {
    const results = await ingest(client.caller, rows);
    const answered = new Set<number>();
    let busy: MunimentError | undefined;
    for (const [i, result] of results.entries()) {
      const why = errorOfRow(result);
      if (passes(result) || why?.code === 'RATE_LIMITED') {
        busy = why;
        continue;
      }
      const row = JSON.parse(rows[i]!) as Row;
      if (result.status === 'rejected') await this.cfg.refused?.(row, why ?? new MunimentError({ operation: `row ${i}`, kind: 'invalid', message: 'no reason was given' }));
      else await this.cfg.delivered?.(row, result);
      answered.add(plays[i]!.seq);
    }
    await this.remove(answered);
    return busy;
  }

  /** Removes a play that the service refuses even alone. */
  private async refuse(play: StoredPlay, row: string, why: MunimentError): Promise<void> {
    await this.cfg.refused?.(JSON.parse(row) as Row, why);
    await this.remove(new Set([play.seq]));
  }

  private async remove(answered: Set<number>): Promise<void> {
    if (answered.size === 0) return;
    await this.inTurn(async () => {
      this.checkOpen();
      await this.cfg.storage.remove([...answered]);
      this.waiting = this.waiting.filter((play) => !answered.has(play.seq));
      this.bytes = this.waiting.reduce((n, play) => n + play.bytes, 0);
    });
  }

  /** Resolves once a play was added, and rejects once the signal aborts. */
  private async added(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const stop = () => reject(signal.reason);
      this.wake = () => {
        signal.removeEventListener('abort', stop);
        resolve();
      };
      signal.addEventListener('abort', stop, { once: true });
      if (signal.aborted) stop();
      if (this.waiting.length > 0) this.wake(); // it was added meanwhile
    });
  }

  private checkOpen(): void {
    if (this.closed) throw new Error('the buffer is closed');
  }

  /** Runs one operation of the storage after the other. */
  private inTurn<T>(operation: () => Promise<T>): Promise<T> {
    const done = this.tail.then(operation);
    this.tail = done.catch(() => undefined);
    return done;
  }
}

/**
 * Whether the service refuses what is in the body: it names a field, or the body is too large. Other
 * refusals, as by a port that speaks TLS, are the same for any body.
 */
function ofBody(err: MunimentError): boolean {
  return err.code !== '' && err.kind === 'invalid' && (err.field !== '' || err.status === 413);
}
