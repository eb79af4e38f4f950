// Draws /openapi.json. Text from the document only ever becomes text on the page.

const methods = ["get", "post", "put", "patch", "delete"];
let doc;

// prose is the little Markdown that descriptions use: paragraphs, **bold**, `code`.
function prose(text) {
  return (text || "").trim().split(/\n{2,}/).filter(Boolean).map((paragraph) => el("p", {}, phrases(paragraph)));
}

function phrases(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).filter(Boolean).map((part) => {
    if (part.startsWith("`")) return el("code", {}, part.slice(1, -1));
    if (part.startsWith("**")) return el("strong", {}, part.slice(2, -2));
    return part;
  });
}

// follow resolves a reference within the document.
function follow(node) {
  for (let hops = 0; node && node.$ref && hops < 8; hops++) {
    const { $ref, ...beside } = node;
    node = { ...$ref.slice(2).split("/").reduce((at, step) => at[step], doc), ...beside, named: $ref.split("/").pop() };
  }
  return node || {};
}

function typeName(schema) {
  const types = [].concat(schema.type || []).filter((t) => t !== "null");
  let name = schema.format || types.join(" or ") || "any value";
  if (schema.format === "int64" || schema.format === "double") name = types[0];
  if (types[0] === "array") name = "list of " + typeName(follow(schema.items));
  if (types[0] === "object" && schema.named) name = schema.named;
  if ([].concat(schema.type || []).includes("null")) name += " or null";
  return name;
}

// limits are what a schema asks of a value, in words.
function limits(schema) {
  const words = [];
  if (schema.minimum !== undefined && schema.maximum !== undefined) words.push(`${schema.minimum} to ${schema.maximum}`);
  else if (schema.minimum !== undefined) words.push(`at least ${schema.minimum}`);
  else if (schema.maximum !== undefined) words.push(`at most ${schema.maximum}`);
  if (schema.minLength > 0) words.push(schema.minLength === 1 ? "not empty" : `at least ${schema.minLength} characters`);
  if (schema.maxLength !== undefined) words.push(`at most ${schema.maxLength} characters`);
  if (schema.pattern) words.push(`of the form ${schema.pattern}`);
  if (schema.maxItems !== undefined) words.push(`at most ${schema.maxItems}`);
  if (schema.default !== undefined) words.push(`default ${schema.default}`);
  return words.join(", ");
}

// field is one line of a list of fields, with what is inside it.
function field(name, schema, required, note, path) {
  const inner = follow([].concat(schema.type || [])[0] === "array" ? schema.items : schema);
  const values = schema.enum && !(schema.enum.length === 1 && schema.enum[0] === true) ? schema.enum : null;
  const nested = inner.properties && !path.includes(inner.properties) ? fields(inner, [...path, inner.properties]) : null;
  const many = nested && nested.childElementCount > 6;
  const lines = [
    phrases(note || schema.description || "").length ? el("p", {}, phrases(note || schema.description)) : null,
    values ? el("p", { class: "values" }, values.map((v) => [el("code", {}, String(v)), " "])) : null,
    nested && (many || path.length > 2 ? el("details", {}, el("summary", {}, `${nested.childElementCount} fields`), nested) : nested),
  ].filter(Boolean);
  return el("div", {},
    el("dt", {}, el("span", { class: "field" }, name), el("span", { class: "type" }, [typeName(schema), limits(schema)].filter(Boolean).join(", ")),
      required ? el("span", { class: "must" }, "required") : null),
    lines.length ? el("dd", {}, lines) : null);
}

function fields(schema, path) {
  const required = schema.required || [];
  const rank = (name) => { const at = required.indexOf(name); return at < 0 ? required.length : at; };
  const names = Object.keys(schema.properties).sort((a, b) => rank(a) - rank(b));
  return el("dl", { class: "fields" }, names.map((name) => {
    const inner = follow(schema.properties[name]);
    return field(name, inner, path.request && required.includes(name), inner.description, path);
  }));
}

// tree shows a body's schema; what is always around an answer is left out.
function tree(schema, request) {
  let top = follow(schema);
  if (!request && top.properties && top.properties.data && top.properties.contractVersion) top = follow(top.properties.data);
  const path = [top.properties];
  path.request = request;
  return top.properties ? fields(top, path) : el("p", {}, phrases(top.description || typeName(top)));
}

function parameters(list, where, title) {
  const chosen = list.filter((p) => p.in === where);
  return chosen.length === 0 ? null : [
    el("h4", {}, title),
    el("dl", { class: "fields" }, chosen.map((p) => field(p.name, follow(p.schema), p.required, p.description, []))),
  ];
}

function sample(title, tabs) {
  const pre = el("pre", { tabindex: 0 });
  const buttons = tabs.map((tab) => el("button", {
    type: "button",
    onclick: () => {
      pre.replaceChildren(...[tab.plain ? tab.value : coloured(tab.value)].flat(Infinity));
      buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(tabs[i] === tab)));
    },
  }, tab.name));
  const copy = el("button", {
    type: "button", class: "copy",
    onclick: async () => {
      await navigator.clipboard.writeText(pre.textContent);
      copy.textContent = "copied";
      setTimeout(() => { copy.textContent = "copy"; }, 1200);
    },
  }, "copy");
  buttons[0].click();
  return el("div", { class: "sample" }, el("header", {}, el("span", {}, title), tabs.length > 1 ? el("div", { class: "tabs" }, buttons) : null, navigator.clipboard && copy), pre);
}

const exampleOf = (holder) => Object.values((holder && holder.content) || {}).map((media) => media.example).find((e) => e !== undefined);

// filled is the path with the ids of the answer's example.
function filled(path, op) {
  const answer = JSON.stringify(exampleOf(op.responses["200"]) || "");
  return path.replace(/\{(\w+)\}/g, (_, name) => {
    const found = answer.match(new RegExp(`"${name}":"([^"]+)"`)) || answer.match(/"id":"([^"]+)"/);
    return found ? found[1] : "$" + name.replace(/[A-Z]/g, "_$&").toUpperCase();
  });
}

// curl is the operation as a command.
function curl(path, method, op) {
  const lines = [`curl -s ${location.origin}${filled(path, op)}`];
  if (op["x-required-scope"]) lines.push(`-H "Authorization: Bearer $KEY"`);
  for (const p of op.parameters || []) {
    if (p.in === "header" && follow(p.schema).examples) lines.push(`-H '${p.name}: ${follow(p.schema).examples[0]}'`);
  }
  const body = exampleOf(op.requestBody);
  if (body !== undefined) lines.push(`-d '${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ").replaceAll("'", "'\\''")}'`);
  else if (method !== "get") lines.splice(1, 0, `-X ${method.toUpperCase()}`);
  return lines.join(" \\\n  ");
}

// most is how much of an answer is shown.
const most = 200_000;

// trial sends the operation to the service, with the key that was entered on the page.
function trial(path, method, op) {
  const example = exampleOf(op.requestBody);
  const target = el("input", { value: filled(path, op), spellcheck: "false", autocomplete: "off", "aria-label": "Path and query" });
  const body = example === undefined ? null : el("textarea", { rows: 8, spellcheck: "false", "aria-label": "Body" }, JSON.stringify(example, null, 2));
  const answer = el("div", { role: "status" });
  const send = async (e) => {
    e.preventDefault();
    answer.replaceChildren("Sending…");
    const headers = {};
    const key = document.getElementById("key").value.trim();
    if (op["x-required-scope"] && key) headers.Authorization = "Bearer " + key;
    if (body) headers["Content-Type"] = "application/json";
    try {
      const got = await fetch(new URL(target.value, location.origin), { method: method.toUpperCase(), headers, body: body ? body.value : undefined });
      const text = await got.text();
      answer.replaceChildren(el("p", {}, `Answered ${got.status}.`), text ? el("pre", { tabindex: 0 }, text.length > most ? text.slice(0, most) + "…" : shaped(text)) : null);
    } catch (err) {
      answer.replaceChildren("There was no answer: " + err.message);
    }
  };
  return el("details", { class: "trial" }, el("summary", {}, "Try it"),
    el("form", { onsubmit: send }, target, body, el("button", { class: "send" }, "Send"), answer));
}

// shaped is JSON with its parts marked, and any other text as it is.
function shaped(text) {
  try {
    return coloured(JSON.parse(text));
  } catch {
    return text;
  }
}

function operation(path, method, op) {
  const params = (op.parameters || []).map(follow);
  const ok = follow(op.responses["200"]);
  const [kind, media] = Object.entries(ok.content || {})[0] || [];
  const refusals = Object.entries(op.responses).filter(([status]) => status >= "400").map(([status, r]) => [status, follow(r)]);
  const send = op.requestBody && Object.values(op.requestBody.content)[0];
  const answers = [exampleOf(ok) !== undefined ? { name: "200", value: exampleOf(ok) } : null,
    ...refusals.map(([status, r]) => ({ name: status, value: exampleOf(r) }))].filter(Boolean);

  const left = el("div", {},
    prose(op.description),
    parameters(params, "path", "Path parameters"), parameters(params, "query", "Query parameters"), parameters(params, "header", "Headers"),
    send && send.schema ? [el("h4", {}, "Body", op.requestBody.required ? "" : el("span", { class: "kind" }, " (optional)")), tree(send.schema, true)] : null,
    [el("h4", {}, "Response ", el("span", { class: "kind" }, kind === "application/json" ? "" : kind || "")), media && media.schema ? tree(media.schema, false) : prose(ok.description)],
    el("h4", {}, "Errors"),
    el("ul", { class: "refusals" }, refusals.map(([status, r]) => el("li", {},
      el("span", { class: "status" }, status), el("span", {}, (r["x-error-codes"] || []).map((c) => [el("code", {}, c), " "]), el("span", { class: "note" }, phrases(r.description)))))));

  const scope = op["x-required-scope"];
  return el("article", { id: op.operationId },
    el("header", {},
      el("h3", {}, el("a", { href: "#" + op.operationId }, op.summary)),
      el("div", { class: "route" },
        el("span", { class: "method " + method }, method.toUpperCase()),
        el("span", { class: "path" }, path.split(/(\{\w+\})/).map((part) => part.startsWith("{") ? el("b", {}, part) : part)),
        el("span", { class: "scope" }, scope ? ["scope ", el("code", {}, scope)] : "public"))),
    left,
    el("div", { class: "samples" },
      sample("Request", [{ name: "curl", value: curl(path, method, op), plain: true }]),
      trial(path, method, op),
      answers.length ? sample("Response", answers) : null));
}

// kinds shows the catalogue of events.
function kinds() {
  return el("article", { id: "kinds-of-events" },
    el("header", {}, el("h3", {}, el("a", { href: "#kinds-of-events" }, "Kinds of events"))),
    el("table", {}, el("tbody", {}, doc["x-event-kinds"].map((k) => el("tr", {},
      el("td", {}, el("code", {}, k.type)), el("td", {}, k.description), el("td", {}, k.scopes.map((s) => [el("code", {}, s), " "])))))));
}

// names adds the names of all fields of a schema to a set.
function names(schema, into, seen = new Set()) {
  const node = follow(schema);
  for (const [name, inner] of Object.entries(node.properties || {})) {
    into.add(name);
    if (!seen.has(inner)) names(inner, into, seen.add(inner));
  }
  if (node.items && !seen.has(node.items)) names(node.items, into, seen.add(node.items));
}

// searched is what the search of an operation looks at: its names, and those of all its fields.
function searched(path, method, op) {
  const all = new Set([method, path, op.summary, op.operationId, op["x-required-scope"], ...(op.tags || [])]);
  for (const p of op.parameters || []) all.add(follow(p).name);
  for (const content of [op.requestBody, follow(op.responses["200"])]) for (const media of Object.values((content && content.content) || {})) names(media.schema, all);
  return [...all].join(" ").toLowerCase();
}

// Of all places one is drawn at a time: the page stays small, however many operations there are.
const places = new Map(); // by their ids: the chapter, the link in the contents, what the search looks at, and how to draw it
const ids = []; // in the order of the contents

function place(id, chapter, link, search, draw) {
  places.set(id, { chapter, link, search, draw });
  ids.push(id);
}

function overview() {
  return el("section", { class: "overview" },
    el("h1", {}, doc.info.title), el("p", { class: "lead" }, doc.info.summary || ""), prose(doc.info.description),
    el("p", {}, "This page shows ", el("a", { href: "/openapi.json" }, "/openapi.json"), " (OpenAPI ", doc.openapi, "). The same in OpenAPI 3.0, for tools that want it, is ",
      el("a", { href: "/openapi-3.0.json" }, "/openapi-3.0.json"), ". What the constraint gate asks of a delivery is at ",
      el("a", { href: "/docs/gate" }, "/docs/gate"), "."));
}

function chapters() {
  return el("ul", { class: "chapters" }, doc.tags.map((tag) => {
    const first = ids.find((id) => places.get(id).chapter === tag);
    return first && el("li", {}, el("a", { href: "#" + first }, tag.name), el("p", {}, phrases(tag.description || "")));
  }));
}

// beside leads to the operations before and behind one.
function beside(id) {
  const at = ids.indexOf(id);
  const link = (to, className, sign) => ids[to] && el("a", { href: "#" + ids[to], class: className }, sign(places.get(ids[to]).link.title || "Kinds of events"));
  return el("nav", { class: "beside plain", "aria-label": "Before and behind" }, link(at - 1, "before", (t) => `← ${t}`), link(at + 1, "next", (t) => `${t} →`));
}

// show draws what the address names.
function show(move) {
  const id = decodeURIComponent(location.hash.slice(1));
  const at = places.get(id);
  const main = document.getElementById("content");
  for (const other of places.values()) {
    other.link.classList.toggle("here", other === at);
    if (other === at) other.link.setAttribute("aria-current", "page"); else other.link.removeAttribute("aria-current");
  }
  if (at) {
    main.replaceChildren(el("section", { class: "chapter alone" }, el("p", {}, el("a", { href: "#" }, doc.info.title), " · ", at.chapter.name), at.draw(), beside(id)));
    at.link.scrollIntoView({ block: "nearest", behavior: "instant" });
  } else main.replaceChildren(overview(), chapters());
  document.title = (at ? at.link.textContent.replace(/^[A-Z]+/, "") + " · " : "") + doc.info.title + " API";
  if (move) {
    scrollTo({ top: 0, behavior: "instant" });
    main.focus({ preventScroll: true });
  }
}

// search leaves in the contents what has all of the words; Enter opens the first, or the one that is called so.
function search() {
  const filter = document.getElementById("filter");
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const one of places.values()) {
      one.link.hidden = !words.every((w) => one.search.includes(w));
      if (!one.link.hidden) found++;
    }
    for (const group of document.querySelectorAll("#contents > div")) group.hidden = [...group.querySelectorAll("a")].every((a) => a.hidden);
    document.querySelector("#contents .none").textContent = found === 0 ? "No operation has that." : words.length > 0 ? `${found} of ${ids.length}. Enter opens the first.` : "";
  };
  filter.addEventListener("input", apply);
  filter.addEventListener("keydown", (e) => {
    const found = ids.filter((id) => !places.get(id).link.hidden);
    const called = filter.value.trim().toLowerCase();
    const first = found.find((id) => id === called || places.get(id).link.title.toLowerCase().startsWith(called)) ?? found[0];
    if (e.key === "Enter" && first) places.get(first).link.click();
  });
  addEventListener("keydown", (e) => {
    if (e.key === "/" && !e.target.closest("input, textarea")) {
      e.preventDefault();
      filter.focus();
    } else if (e.key === "Escape" && document.activeElement === filter) {
      filter.value = "";
      filter.blur();
      apply();
    }
  });
}

function start() {
  document.getElementById("version").textContent = doc.info.version;
  const contents = document.getElementById("contents");
  contents.append(el("p", { class: "none", role: "status" }));
  for (const tag of doc.tags || []) {
    const links = el("div", {}, el("h2", {}, tag.name));
    for (const [path, item] of Object.entries(doc.paths)) {
      for (const method of methods.filter((m) => item[m] && (item[m].tags || []).includes(tag.name))) {
        const op = item[method];
        const link = el("a", { href: "#" + op.operationId, title: op.summary }, el("span", { class: "method " + method }, method === "delete" ? "DEL" : method.toUpperCase()), el("span", {}, op.summary));
        place(op.operationId, tag, link, searched(path, method, op), () => operation(path, method, op));
        links.append(link);
      }
    }
    if (tag.name === "Events") {
      const link = el("a", { href: "#kinds-of-events" }, el("span", {}, "Kinds of events"));
      place("kinds-of-events", tag, link, ["kinds of events webhooks", ...doc["x-event-kinds"].map((k) => k.type)].join(" ").toLowerCase(), kinds);
      links.append(link);
    }
    contents.append(links);
  }
  search();
  show(false);
  addEventListener("hashchange", () => show(true));
}

fetch("/openapi.json")
  .then((answer) => answer.ok ? answer.json() : Promise.reject(new Error("HTTP " + answer.status)))
  .then((read) => { doc = read; start(); })
  .catch((e) => document.getElementById("content").append(el("p", { class: "none" }, "The document can't be shown: " + e.message)));
