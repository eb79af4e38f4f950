"use strict";
// What both pages have: light and dark, and a menu where it is narrow.

// el makes an element: el("a", {href: "#"}, "text", child, [more]).
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

// coloured is JSON with its parts marked.
function coloured(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const out = [];
  let at = 0;
  for (const m of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|-?\b\d[\d.eE+-]*\b|\b(?:true|false|null)\b/g)) {
    out.push(text.slice(at, m.index), el("span", { class: m[2] ? "key" : m[1] ? "string" : "number" }, m[1] || m[0]), m[2] || "");
    at = m.index + m[0].length;
  }
  return [...out, text.slice(at)];
}

// theme goes on from the reader's last choice, and from the system's without one.
function theme() {
  const root = document.documentElement;
  const saved = localStorage.getItem("theme");
  if (saved) root.dataset.theme = saved;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  });
}

// menu opens and closes the contents where the window is narrow.
function menu() {
  const button = document.getElementById("menu");
  const open = (now) => {
    button.setAttribute("aria-expanded", String(now));
    document.querySelector("aside").classList.toggle("open", now);
  };
  button.addEventListener("click", () => open(button.getAttribute("aria-expanded") !== "true"));
  document.getElementById("contents").addEventListener("click", (e) => { if (e.target.closest("a")) open(false); });
}

theme();
menu();
