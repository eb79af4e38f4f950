// What script adds to the pages: copying, one press of a button that sends, and verification.

import { verifyHere } from './proof.js';

const polite = document.getElementById('polite');

for (const button of document.querySelectorAll('[data-copy]')) {
  button.hidden = false;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent.trim());
    button.textContent = 'Copied';
    polite.textContent = 'Copied';
  });
}

for (const code of document.querySelectorAll('.code')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'small';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(code.querySelector('pre').textContent);
    button.textContent = 'Copied';
    polite.textContent = 'Copied';
  });
  code.append(button);
}

// A second press sends nothing twice. A page that comes back from the browser's memory can send again.
for (const form of document.querySelectorAll('form[method="post"]')) {
  form.addEventListener('submit', (e) => {
    if (form.dataset.sent) e.preventDefault();
    form.dataset.sent = 'yes';
  });
}
addEventListener('pageshow', () => {
  for (const form of document.querySelectorAll('form[data-sent]')) delete form.dataset.sent;
});

// On a narrow page the sections are a row that scrolls: the one that is open is in sight.
const here = document.querySelector('.sections [aria-current]');
if (here) {
  const row = here.closest('nav');
  row.scrollLeft = here.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
}

for (const place of document.querySelectorAll('[data-verify]')) {
  place.hidden = false;
  place.querySelector('button').addEventListener('click', () => verifyHere(place));
}

// A secret as a file that programs read. It is made here: the service keeps no copy that it could serve.
for (const button of document.querySelectorAll('[data-env]')) {
  button.hidden = false;
  button.addEventListener('click', () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([`${button.dataset.env}=${document.getElementById(button.dataset.of).textContent.trim()}\n`], { type: 'text/plain' }));
    link.download = '.env';
    link.click();
    URL.revokeObjectURL(link.href);
  });
}
