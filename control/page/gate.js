for (const pre of document.querySelectorAll("pre.json")) pre.replaceChildren(...coloured(pre.textContent));
watch();
