// Reading a proof pack, to show what is in it and to change one character of it. It checks nothing: that is for the program.

export const delivered = 'delivery.recorded';

// readPack returns the parts of a pack, of which the program has said that it has the form of one; null for anything else.
// events are what the entries say, null for what can't be read.
export function readPack(bytes) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    const pack = text.startsWith('{"checkpoint":') ? readBundle(text) : readObject(text);
    return { text, ...pack, header: JSON.parse(pack.headerText), events: pack.entries.map(readEvent) };
  } catch {
    return null;
  }
}

// readBundle reads a header, entries and a signature, each a line. spelt is how the file has an entry.
function readBundle(text) {
  const [headerText, ...lines] = text.split('\n');
  return { headerText, entries: lines.slice(0, -2), spelt: (entry) => entry };
}

const header = ['],"header":', ',"signature":{"algorithm":'];

// readObject reads a pack as one JSON object, alone or in the sandbox's answer. Quotes in entries are escaped there.
function readObject(text) {
  const whole = JSON.parse(text);
  const data = whole.data ?? whole;
  const headerText = text.slice(text.indexOf(header[0]) + header[0].length, text.lastIndexOf(header[1]));
  return { headerText, entries: (data.pack ?? data).entries, spelt: JSON.stringify };
}

function readEvent(entry) {
  try {
    const event = JSON.parse(entry);
    const whole = [event.type, event.at, event.subject.kind, event.subject.id].every((member) => typeof member === 'string') && Object(event.data) === event.data;
    return whole && (event.type !== delivered || (event.data.receipt && event.data.metering)) ? event : null;
  } catch {
    return null;
  }
}

// places are where one character of a pack can be changed, and what that upsets.
export const places = [
  ['anchor', 'an anchor: what the receipt says'],
  ['right', 'a right: what the receipt was signed for'],
  ['quantity', 'a billed quantity: what is paid for'],
  ['signature', 'a signature of a receipt'],
  ['header', 'a number in the header'],
];

const patterns = {
  anchor: /("spatialAnchorId":")([^"\\])/, right: /("rightId":"\w+)(\w)/, quantity: /("quantityMs":)(\d)/, signature: /("value":"[\w-]{20})([\w-])/, header: /("quantityMs":)(\d)/,
};

const another = (c) => (/\d/.test(c) ? String(c === '9' ? 8 : Number(c) + 1) : c === 'A' ? 'B' : 'A');

// altered changes one character at a place, of any delivery or of the header. It returns the new file, and what was changed:
// entry is -1 for the header. It returns null if the pack has no such place.
export function altered({ text, headerText, entries, events, spelt }, place) {
  const deliveries = events.flatMap((event, i) => (event?.type === delivered ? [i] : []));
  const entry = place === 'header' ? -1 : deliveries[Math.floor(Math.random() * deliveries.length)];
  const before = place === 'header' ? headerText : entries[entry];
  const m = before === undefined ? null : patterns[place].exec(before);
  if (!m) return null;
  const at = m.index + m[1].length;
  const after = before.slice(0, at) + another(before[at]) + before.slice(at + 1);
  const [was, is] = place === 'header' ? [before, after] : [spelt(before), spelt(after)];
  const from = text.indexOf(was);
  return { bytes: new TextEncoder().encode(text.slice(0, from) + is + text.slice(from + was.length)), place, entry, at, before, after };
}
