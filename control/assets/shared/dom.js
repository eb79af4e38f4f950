// Making elements. Text stays text: nothing is ever parsed as HTML.

const svgNames = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value') element.value = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// h makes an element, with attributes, listeners (onclick) and children.
export const h = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);

// s is h for SVG.
export const s = (name, attributes, ...children) => fill(document.createElementNS(svgNames, name), attributes, children);

export const byID = (id) => document.getElementById(id);

export const put = (id, ...children) => byID(id).replaceChildren(...children.flat(Infinity).filter(Boolean));

// say has a screen reader say something when it is free; warn has it say so at once.
export const say = (text) => { byID('polite').textContent = text; };
export const warn = (text) => { byID('assertive').textContent = text; };

let fields = 0;

// field is a labelled control, with a hint.
export function field(label, control, hint, attributes) {
  const id = `field-${++fields}`;
  control.id = id;
  if (hint) control.setAttribute('aria-describedby', `${id}-hint`);
  return h('div', { class: 'field', ...attributes }, h('label', { for: id }, label), control, hint && h('span', { class: 'hint', id: `${id}-hint` }, hint));
}

// select is a list of [value, text] to choose one of.
export function select(options, value, attributes) {
  const list = h('select', attributes, options.map(([of, text]) => h('option', { value: of, selected: of === value }, text ?? of)));
  if (value !== undefined) list.value = value;
  return list;
}

export const tag = (text, mood = '') => h('span', { class: `tag ${mood}` }, text);

// code shows a text that can be copied.
export function code(text, what = 'Copy') {
  const pre = h('pre', { tabindex: '0', role: 'region', 'aria-label': what.replace('Copy', 'Text of') }, text);
  const button = h('button', { type: 'button', class: 'small', 'aria-label': what, onclick: () => copy(pre.textContent, button) }, 'Copy');
  return h('div', { class: 'code' }, pre, button);
}

// copy puts a text into the clipboard. Plain http has none to write to: there the text is selected.
export async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
    say('Copied');
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  } catch {
    const of = button.parentElement.querySelector('pre, .secret');
    getSelection().selectAllChildren(of);
    say('Your browser does not let this page copy. The text is selected: press Control C.');
  }
}

export function table(caption, columns, rows, attributes) {
  const cells = (row, name) => row.map((cell, i) => h(name, { scope: name === 'th' ? 'col' : undefined, class: columns[i].number ? 'number-cell' : undefined }, cell));
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', attributes, h('caption', null, caption), h('thead', null, h('tr', null, cells(columns.map((c) => c.name), 'th'))),
      h('tbody', null, rows.map((row) => h('tr', row.attributes, cells(row.cells ?? row, 'td'))))));
}
