// RFC 8785: the one spelling of a JSON value. Numbers and strings are what JSON.stringify makes of
// them, as the RFC takes both from ECMAScript; members are sorted by UTF-16 code units, as sort does.

export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(value);
}

// parse reads a text that is in canonical form, and returns undefined for any other: what a lenient
// parser forgives or drops, such as a member that is there twice, comes out differently again.
export function parse(text) {
  let value;
  try {
    value = JSON.parse(text);
    if (canonical(value) !== text || !wellFormed(text)) return undefined;
  } catch {
    return undefined;
  }
  return value;
}

// wellFormed refuses halves of surrogate pairs, which UTF-8 has no bytes for.
const wellFormed = (text) => !/\\ud[89a-f]/i.test(text.replaceAll('\\\\', ''));
