// The storage of a buffer in IndexedDB, for browsers.

import { BufferInUseError, type BufferStorage, type StoredPlay } from './buffer.js';

const store = 'plays';

/**
 * Keeps the plays of a buffer in a database of the origin. One page at a time has it open. A browser may
 * delete what an origin keeps when space runs out, unless navigator.storage.persist() was granted.
 */
export class BrowserStorage implements BufferStorage {
  private db!: IDBDatabase;
  private unlock: () => void = () => undefined;

  /** The name is that of the database. */
  constructor(private readonly name = 'muniment-buffer') {}

  async open(): Promise<StoredPlay[]> {
    await this.lock();
    try {
      const opening = indexedDB.open(this.name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(store, { autoIncrement: true });
      this.db = await result(opening);
      const plays: StoredPlay[] = [];
      const cursors = this.db.transaction(store).objectStore(store).openCursor();
      for (let cursor = await result(cursors); cursor; cursor = await result(cursors)) {
        plays.push({ seq: cursor.key as number, bytes: sizeOf(cursor.value as string) });
        cursor.continue();
      }
      return plays;
    } catch (err) {
      await this.close();
      throw err;
    }
  }

  /** The lock ends with the page. */
  private async lock(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      navigator.locks.request(this.name, { ifAvailable: true }, async (lock) => {
        if (!lock) throw new BufferInUseError(`the buffer ${this.name} is open already`);
        await new Promise<void>((unlock) => {
          this.unlock = unlock;
          resolve();
        });
      }).catch(reject);
    });
  }

  async add(row: string): Promise<StoredPlay> {
    const change = this.change();
    const added = change.objectStore(store).add(row);
    await committed(change);
    return { seq: added.result as number, bytes: sizeOf(row) };
  }

  async read(seqs: number[]): Promise<string[]> {
    const plays = this.db.transaction(store).objectStore(store);
    const rows = await Promise.all(seqs.map((seq) => result(plays.get(seq))));
    if (rows.some((row) => typeof row !== 'string')) throw new Error('plays were deleted beside the buffer');
    return rows as string[];
  }

  async remove(seqs: number[]): Promise<void> {
    const change = this.change();
    for (const seq of seqs) change.objectStore(store).delete(seq);
    await committed(change);
  }

  async close(): Promise<void> {
    this.db?.close();
    this.unlock();
  }

  /** A change that is on disk once it is committed, and not only with the system. */
  private change(): IDBTransaction {
    return this.db.transaction(store, 'readwrite', { durability: 'strict' });
  }
}

const sizeOf = (row: string) => new TextEncoder().encode(row).length;

function result<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function committed(change: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    change.oncomplete = () => resolve();
    change.onabort = () => reject(change.error);
    change.onerror = () => reject(change.error);
  });
}
