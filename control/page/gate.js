// A filter, and a mark for where the reader is.

// watch marks in the contents where the reader is.
function watch() {
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const inView = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const e of entries) e.isIntersecting ? inView.add(e.target.id) : inView.delete(e.target.id);
    const here = [...links.keys()].find((id) => inView.has(id));
    for (const [id, a] of links) a.classList.toggle("here", id === here);
  }, { rootMargin: "-8% 0px -62% 0px" });
  for (const id of links.keys()) observer.observe(document.getElementById(id));

  const filter = document.getElementById("filter");
  filter.addEventListener("input", () => show(links, filter.value.toLowerCase().split(/\s+/).filter(Boolean)));
  addEventListener("keydown", (e) => {
    if (e.key === "/" && document.activeElement !== filter) {
      e.preventDefault();
      filter.focus();
    } else if (e.key === "Escape" && document.activeElement === filter) {
      filter.value = "";
      filter.blur();
      show(links, []);
    }
  });
}

// show leaves the articles that have all of the words.
function show(links, words) {
  for (const article of document.querySelectorAll("article")) {
    article.hidden = !words.every((w) => article.dataset.search.includes(w));
    links.get(article.id).hidden = article.hidden;
  }
  for (const group of document.querySelectorAll("section.chapter, nav > div")) {
    group.hidden = [...group.querySelectorAll(":scope > article, :scope > a")].every((one) => one.hidden);
  }
  document.querySelector(".overview").hidden = words.length > 0;
  document.querySelector("nav .none").hidden = [...links.values()].some((a) => !a.hidden);
}

for (const pre of document.querySelectorAll("pre.json")) pre.replaceChildren(...coloured(pre.textContent));
watch();
