// Reading a proof pack: as a bundle of lines, as one JSON object, or as the sandbox's answer.

import { canonical, parse } from './canonical.js';
import { text as decode } from './encoding.js';
import * as shapes from './shapes.js';

const longest = 2 ** 28;
const mostEntries = 100_000;

// Unreadable says why a file is no pack.
export class Unreadable extends Error {}

const need = (ok, why) => {
  if (!ok) throw new Unreadable(why);
};

// readPack returns the parts of a pack, and how the file holds it, so that one part can be changed
// (write). It throws Unreadable for what is not exactly in one of the three forms.
export function readPack(bytes) {
  need(bytes.length <= longest, 'The file is longer than 256 MiB.');
  let text;
  try {
    text = decode(bytes);
  } catch {
    throw new Unreadable('The file is not UTF-8 text.');
  }
  const pack = text.startsWith('{"checkpoint":') ? readBundle(text) : readObject(text);
  const { header } = pack;
  need(shapes.fits(header, shapes.header), 'The header lacks a member, has one too many, or one of another form.');
  need(shapes.fits(pack.signature, shapes.signature) && pack.signature.keyId === header.signingKeyId, 'The signature is not of the form that the header asks for.');
  need(header.treeSize === header.firstIndex + header.count && header.count >= 1 && header.count <= mostEntries, 'The header does not agree with itself about the number of entries.');
  need(header.previous === null ? header.firstIndex === 0 : header.firstIndex > 0 && header.previous.treeSize === header.firstIndex, 'The header names another place in the log than the pack before it leaves.');
  need(pack.entries.length <= header.count, `The file has ${pack.entries.length} entries, and the header says ${header.count}.`);
  need(pack.entries.every((entry) => entry.startsWith('{"actor":')), 'A line among the entries is no event.');
  const leaves = header.duplicates.map((d) => d.leaf);
  need(leaves.every((leaf, i) => leaf >= header.firstIndex && leaf < header.treeSize && (i === 0 || leaves[i - 1] < leaf)), 'The list of duplicates is out of order.');
  need(header.duplicates.every((d) => d.first < d.leaf), 'A duplicate repeats a later entry.');
  return pack;
}

function readBundle(text) {
  const lines = text.split('\n');
  need(lines.length >= 3 && lines.pop() === '', 'The last line is missing, or does not end.');
  const last = parse(lines.pop());
  const [head, ...entries] = lines;
  need(last !== undefined && shapes.fits(last, { signature: shapes.signature }), 'The last line is no signature.');
  const header = parse(head);
  need(header !== undefined, 'The header is not spelt as RFC 8785 says.');
  return {
    header, headerText: head, entries, signature: last.signature, form: 'bundle',
    write: (changed) => `${[changed.headerText, ...changed.entries, canonical({ signature: changed.signature })].join('\n')}\n`,
  };
}

const objectEnds = /^\{"pack":(.*),"verificationKey":(\{[^{}]*\})\}$/s;

function readObject(text) {
  let data = text.replace(/\n$/, '');
  let beside = null;
  let around = (pack) => pack;
  if (!data.startsWith('{"entries":')) {
    const wrapped = data.startsWith('{"ok":true,"data":') && data.endsWith('}');
    const m = objectEnds.exec(wrapped ? data.slice('{"ok":true,"data":'.length, -1) : data);
    need(m, 'The file is no proof pack: it is neither a bundle, nor a pack as one object, nor the sandbox’s answer with one.');
    beside = readBeside(m[2]);
    data = m[1];
    around = (pack) => (wrapped ? `{"ok":true,"data":{"pack":${pack},"verificationKey":${m[2]}}}` : `{"pack":${pack},"verificationKey":${m[2]}}`);
  }
  const pack = parse(data);
  need(pack !== undefined, 'The pack is not spelt as RFC 8785 says.');
  need(shapes.fits(pack.entries, shapes.packObject.entries) && Object.keys(pack).length === 3 && pack.header && pack.signature, 'The pack lacks a member, or has one too many.');
  return {
    header: pack.header, headerText: canonical(pack.header), entries: pack.entries, signature: pack.signature, beside, form: 'object',
    write: (changed) => around(`{"entries":${JSON.stringify(changed.entries)},"header":${changed.headerText},"signature":${canonical(changed.signature)}}`),
  };
}

const keyOrder = ['keyId', 'algorithm', 'publicKey', 'notBefore', 'notAfter', 'revokedAt', 'purpose'];

// readBeside reads the key that the sandbox puts beside a pack, whose members have an order.
function readBeside(text) {
  let key;
  try {
    key = JSON.parse(text);
  } catch {
    key = null;
  }
  need(key && shapes.fits(key, shapes.key) && text === `{${keyOrder.map((name) => `${JSON.stringify(name)}:${canonical(key[name])}`).join(',')}}`, 'The key beside the pack is malformed.');
  return key;
}
