// C2SP signed notes, and the checkpoints that are such notes.

import { fromBase64, isTenant, joined, malformed, same, sha256, signedBy, utf8, VerifyError } from './canonical.js';

/** A signed note: its text with the last newline, and its signatures with the key hashes before them. */
export interface Note {
  text: string;
  signatures: { name: string; value: Uint8Array }[];
}

export function readNote(note: string): Note {
  const cut = note.lastIndexOf('\n\n');
  const text = note.slice(0, cut + 1);
  const lines = note.slice(cut + 2).split('\n');
  if (cut < 0 || lines.pop() !== '' || lines.length === 0 || lines.length > 100) throw malformed('it is no signed note');
  const known = new Set<string>();
  const signatures = lines.map((line) => {
    const [, name, encoded] = /^— ([^\s+]+) (\S+)$/.exec(line) ?? [];
    const value = fromBase64(encoded);
    const id = `${name} ${value?.slice(0, 4)}`;
    if (name === undefined || !value || value.length <= 4 || known.has(id)) throw malformed('a signature of a note is malformed');
    known.add(id);
    return { name, value };
  });
  return { text, signatures };
}

/** The first four bytes of a key's hash, under a name and for a kind of signature. */
export async function keyHash(name: string, kind: number, publicKey: Uint8Array): Promise<Uint8Array> {
  return (await sha256(utf8(`${name}\n`), Uint8Array.of(kind), publicKey)).slice(0, 4);
}

const plain = 1; // an Ed25519 signature of the text
const timed = 4; // cosignature/v1, which states a time

/** Whether the signature at a place of a note is by a key under a name. */
export async function isSigned(note: Note, place: number, name: string, publicKey: Uint8Array): Promise<boolean> {
  const s = note.signatures[place];
  if (s?.name !== name || !same(s.value.slice(0, 4), await keyHash(name, plain, publicKey))) return false;
  return s.value.length === 68 && await signedBy(publicKey, s.value.slice(4), utf8(note.text));
}

const sealName = 'muniment/sealed';

/** A checkpoint of a tenant's log, whose signatures were not verified yet. */
export interface Checkpoint {
  origin: string;
  size: number;
  root: Uint8Array;
  note: Note;
}

export function readCheckpoint(text: string): Checkpoint {
  const note = readNote(text);
  const [origin = '', size = '', encoded, ...rest] = note.text.split('\n');
  const root = fromBase64(encoded, 32);
  if (!origin.startsWith('muniment/') || !isTenant(origin.slice(9)) || !/^(0|[1-9]\d{0,15})$/.test(size) || !root || rest.length !== 1 || rest[0] !== '') {
    throw malformed('it is no checkpoint of a tenant');
  }
  if (note.signatures[0]?.name !== origin || note.signatures[1]?.name !== sealName || note.signatures[1].value.length !== 76) {
    throw malformed('the checkpoint is not signed by its log, or does not say when it was sealed');
  }
  return { origin, size: Number(size), root, note };
}

/** The second in which a key has sealed a checkpoint. Both of its signatures have to be by the key. */
export async function sealedSecond(c: Checkpoint, publicKey: Uint8Array): Promise<number> {
  const seal = c.note.signatures[1]!.value;
  const second = Number(new DataView(joined(seal).buffer).getBigUint64(4));
  const message = utf8(`cosignature/v1\ntime ${second}\n${c.note.text}`);
  const sound = await isSigned(c.note, 0, c.origin, publicKey) && same(seal.slice(0, 4), await keyHash(sealName, timed, publicKey))
    && second < 253402300800 && await signedBy(publicKey, seal.slice(12), message);
  if (!sound) throw new VerifyError('signature.invalid', `the checkpoint of ${c.origin} is not signed by its key`);
  return second;
}
