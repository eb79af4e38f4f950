// The storage of a buffer in a folder, for Node.
//
// The folder has the file buffer, which has the form that the Go client gives it (bufferfile.go):
// lines that end with a newline. The first is
//
//     muniment-buffer.v1
//
// and each other one has one of two forms, where CRC is the CRC-32C of what stands behind the space
// after it, in eight lower-case hexadecimal digits:
//
//     CRC + SEQ ROW            a play was added: ROW is that of a batch, as JSON
//     CRC - SEQ SEQ …          these were answered, and are removed
//
// What is behind the last sound line is the torn end of a write that was not acknowledged, and is cut
// off. A line before it that is not sound is moved to the file damaged, for people. The file is
// replaced by a shorter one, by rename, once most of it is answered.

import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open, realpath, rename, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { BufferInUseError, type BufferStorage, type StoredPlay } from './buffer.js';

const start = Buffer.from('muniment-buffer.v1\n');
const compactAt = 256 << 10; // how much has to be answered at least before the file is replaced

const table = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n >>> 0;
});

function crc32c(bytes: Uint8Array): string {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = table[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
  return ((crc ^ 0xffffffff) >>> 0).toString(16).padStart(8, '0');
}

const lineOf = (text: string) => {
  const bytes = Buffer.from(text);
  return Buffer.concat([Buffer.from(`${crc32c(bytes)} `), bytes, Buffer.from('\n')]);
};

/** Where the line of a play stands. */
interface Place {
  seq: number;
  at: number;
  length: number;
}

/** A play that was added, or plays that were answered; undefined of a line that is not sound. */
function readLine(line: Buffer): { added: { seq: number; row: string } } | { removed: number[] } | undefined {
  const text = line.subarray(9, -1);
  if (line[8] !== 32 || line.subarray(0, 8).toString('latin1') !== crc32c(text)) return undefined;
  const [, kind, rest = ''] = /^([+-]) (.*)$/s.exec(text.toString()) ?? [];
  if (kind === '-') return { removed: rest.split(' ').map(Number) };
  const [, seq, row = ''] = /^(\d+) (.*)$/s.exec(rest) ?? [];
  return kind === '+' && seq !== undefined ? { added: { seq: Number(seq), row } } : undefined;
}

/** Keeps the plays of a buffer in a folder, which it makes if there is none. One process has it open at a time. */
export class FileStorage implements BufferStorage {
  /** How many lines were found damaged when it was opened: plays that the disk has lost. They are in the file damaged. */
  damaged = 0;
  private file!: FileHandle;
  private lock!: Server;
  private places = new Map<number, Place>();
  private size = 0; // of the file, as far as it is sound
  private live = 0; // bytes of the lines of plays that wait
  private last = 0; // the highest seq that the file has
  private broken: Error | undefined; // why nothing can be written any more

  constructor(private readonly folder: string) {}

  async open(): Promise<StoredPlay[]> {
    if (await mkdir(this.folder, { recursive: true, mode: 0o700 })) await syncFolder(dirname(this.folder));
    this.lock = await lockFolder(await realpath(this.folder));
    try {
      this.broken = undefined;
      await this.load();
    } catch (err) {
      await this.close();
      throw err;
    }
    return [...this.places.values()].map((place) => ({ seq: place.seq, bytes: place.length }));
  }

  /** Reads what the folder holds, and makes it sound. */
  private async load(): Promise<void> {
    const name = join(this.folder, 'buffer');
    this.file = await open(name, 'r+').catch(async (err: NodeJS.ErrnoException) => {
      if (err.code !== 'ENOENT') throw err;
      return await open(name, 'wx+', 0o600);
    });
    const whole = await this.file.readFile();
    if (!whole.subarray(0, start.length).equals(start.subarray(0, whole.length))) throw new Error(`${name} is not the file of a buffer`);
    this.places.clear();
    this.size = start.length;
    const damaged: Buffer[] = [];
    let unsound: Buffer[] = [];
    this.last = 0;
    for (let at = start.length; at < whole.length;) {
      const end = whole.indexOf(10, at) + 1;
      if (end === 0) break;
      const line = whole.subarray(at, end);
      const said = readLine(line);
      if (!said || 'added' in said && said.added.seq <= this.last) {
        unsound.push(line);
      } else {
        if ('added' in said) this.places.set(this.last = said.added.seq, { seq: this.last, at, length: line.length });
        else for (const seq of said.removed) this.places.delete(seq);
        damaged.push(...unsound);
        unsound = [];
        this.size = end;
      }
      at = end;
    }
    this.live = sum(this.places);
    if (whole.length < start.length) await writeAll(this.file, start, 0);
    await this.file.truncate(this.size);
    await this.file.sync();
    await syncFolder(this.folder);
    this.damaged = damaged.length;
    if (damaged.length > 0) {
      const kept = await open(join(this.folder, 'damaged'), 'a', 0o600);
      try {
        await kept.writeFile(Buffer.concat(damaged));
        await kept.sync();
      } finally {
        await kept.close();
      }
      await this.replace();
    }
  }

  async add(row: string): Promise<StoredPlay> {
    if (this.broken) throw this.broken;
    const seq = this.last + 1;
    const line = lineOf(`+ ${seq} ${row}`);
    await writeAll(this.file, line, this.size); // after an error the next line is written over it
    try {
      await this.file.sync();
    } catch (err) {
      throw this.breaks(err);
    }
    this.last = seq;
    this.places.set(seq, { seq, at: this.size, length: line.length });
    this.size += line.length;
    this.live += line.length;
    return { seq, bytes: line.length };
  }

  /** Ends all writing. */
  private breaks(err: unknown): Error {
    return this.broken = new Error('the buffer has to be opened again, as it is not known what is on disk', { cause: err });
  }

  async read(seqs: number[]): Promise<string[]> {
    return await Promise.all(seqs.map(async (seq) => (await this.row(this.places.get(seq)!)).row));
  }

  private async row(place: Place): Promise<{ line: Buffer; row: string }> {
    const line = Buffer.alloc(place.length);
    const { bytesRead } = await this.file.read(line, 0, line.length, place.at);
    const said = bytesRead === line.length ? readLine(line) : undefined;
    if (!said || !('added' in said)) throw new Error('the line of a play was changed on disk');
    return { line, row: said.added.row };
  }

  async remove(seqs: number[]): Promise<void> {
    for (const seq of seqs) this.places.delete(seq);
    this.live = sum(this.places);
    if (this.broken) throw this.broken;
    if (this.places.size === 0) {
      try {
        await this.file.truncate(start.length);
        await this.file.sync();
      } catch (err) {
        throw this.breaks(err);
      }
      this.size = start.length;
      return;
    }
    const line = lineOf(`- ${seqs.join(' ')}`);
    try {
      await writeAll(this.file, line, this.size);
      this.size += line.length;
      if (this.size - start.length - this.live > Math.max(this.live, compactAt)) await this.replace();
    } catch {
      // They are sent again after the buffer was opened again, and are duplicates then.
    }
    if (this.broken) throw this.broken;
  }

  /** Makes a file of the plays that wait the buffer's. Until it is, the old one is. */
  private async replace(): Promise<void> {
    const name = join(this.folder, 'buffer');
    const next = await open(`${name}.new`, 'w+', 0o600);
    const places = new Map<number, Place>();
    let size = start.length;
    try {
      await writeAll(next, start, 0);
      for (const place of this.places.values()) {
        const { line } = await this.row(place);
        await writeAll(next, line, size);
        places.set(place.seq, { seq: place.seq, at: size, length: line.length });
        size += line.length;
      }
      await next.sync();
    } catch (err) {
      await next.close();
      throw err;
    }
    const old = this.file;
    try {
      await rename(`${name}.new`, name);
      [this.file, this.places, this.size] = [next, places, size];
      await syncFolder(this.folder);
    } catch (err) {
      throw this.breaks(err); // it may have been renamed all the same
    } finally {
      await (this.file === next ? old : next).close();
    }
  }

  async close(): Promise<void> {
    await this.file?.close();
    await new Promise((resolve) => this.lock.close(resolve));
  }
}

const sum = (places: Map<number, Place>) => [...places.values()].reduce((n, place) => n + place.length, 0);

async function writeAll(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
  }
}

/** Makes durable which files a folder has. Windows does so by itself. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Locks a folder by listening under its name, which one process can do at a time, and which ends with the
 * process: on Linux in the abstract namespace, on Windows as a named pipe. Elsewhere a socket is left
 * behind by a process that is killed: one that nobody listens on is removed.
 */
async function lockFolder(folder: string): Promise<Server> {
  const name = `muniment-buffer-${createHash('sha256').update(folder).digest('hex')}`;
  const path = process.platform === 'linux' ? `\0${name}` : process.platform === 'win32' ? `\\\\.\\pipe\\${name}` : join(tmpdir(), `${name.slice(0, 48)}.sock`);
  for (let tries = 0; ; tries++) {
    try {
      return await listen(path);
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw err;
      if (process.platform === 'linux' || process.platform === 'win32' || tries > 0 || await isAnswered(path)) {
        throw new BufferInUseError(`the buffer ${folder} is open already`);
      }
      await rm(path, { force: true });
    }
  }
}

function listen(path: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', reject);
    server.listen(path, () => resolve(server.unref()));
  });
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
