// Requests to the service. Each is logged, with the curl command that does the same.

import { byID, code, h, say, tag } from './dom.js';

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

// curl is the command for a request. key is shown as a variable: a secret is not for a screen.
export function curl({ method = 'GET', path, body, key, cookie = true }) {
  const parts = [`curl -s ${method === 'GET' || body !== undefined ? '' : `-X ${method} `}${quoted(location.origin + path)}`];
  if (key) parts.push('-H "Authorization: Bearer $KEY"');
  else if (cookie) parts.push('-b "$COOKIE"');
  if (body !== undefined) parts.push(`-d ${quoted(JSON.stringify(body))}`);
  return parts.join(' \\\n  ');
}

const mostLogged = 60;

function log(request, answer) {
  const mood = answer.status === 0 || answer.status >= 500 ? 'bad' : answer.status >= 400 ? 'warn' : 'good';
  const list = byID('requests');
  list.prepend(h('li', null, h('details', null,
    h('summary', null, tag(answer.status === 0 ? 'no answer' : String(answer.status), mood), h('code', null, `${request.method ?? 'GET'} ${request.path}`), h('time', null, `${Math.round(answer.ms)} ms`)),
    code(curl(request), 'Copy the curl command'))));
  while (list.children.length > mostLogged) list.lastChild.remove();
}

const pause = (ms) => new Promise((resume) => { setTimeout(resume, ms); });

// waited shows that the service asks for patience.
async function waited(seconds) {
  const banner = byID('banner');
  say(`The sandbox answers 10 requests in 10 seconds. This one is sent again in ${seconds} seconds.`);
  for (let left = seconds; left > 0; left--) {
    banner.hidden = false;
    banner.textContent = `The sandbox answers 10 requests in 10 seconds. This one is sent again in ${left} s.`;
    await pause(1000);
  }
  banner.hidden = true;
}

// longestWait is how many seconds a request waits by itself for the limit of its address.
const longestWait = 12;

// send asks the service. The answer has status, ok, data, error, message, violations, text and ms;
// status is 0 if there was none. A request that was refused for the limit of its address has had no
// effect, and is sent once more when that is over, if it is soon.
export async function send(request) {
  let answer = await once(request);
  if (answer.status === 429 && answer.retryAfter > 0 && answer.retryAfter <= longestWait) {
    await waited(answer.retryAfter);
    answer = await once(request);
  }
  return answer;
}

async function once(request) {
  const { method = 'GET', path, body, key } = request;
  const headers = {};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (key) headers.Authorization = `Bearer ${key}`;
  const began = performance.now();
  let answer;
  try {
    const response = await fetch(path, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store', redirect: 'error', credentials: key ? 'omit' : 'same-origin',
    });
    const text = await response.text();
    answer = { ...parsed(text), status: response.status, text, retryAfter: Number(response.headers.get('Retry-After') ?? 0) };
  } catch {
    answer = { status: 0, message: 'The service did not answer. Is it still running?', text: '' };
  }
  answer.ms = performance.now() - began;
  answer.ok = answer.status >= 200 && answer.status < 300;
  // Looking whether there is a sandbox already is no step of the visitor's: that there is none is no line of the log.
  if (!(request.looks && (answer.error === 'NO_TENANT' || answer.error === 'TENANT_EVICTED'))) log(request, answer);
  return answer;
}

function parsed(text) {
  try {
    const { data, error, message, violations, rebound } = JSON.parse(text);
    return { data, error, message, violations, rebound };
  } catch {
    return { message: text.slice(0, 200) };
  }
}

// failure is what an answer says went wrong, for people.
export function failure(answer) {
  if (answer.status === 429) {
    const wait = answer.retryAfter > 90 ? `${Math.ceil(answer.retryAfter / 60)} minutes` : `${answer.retryAfter} seconds`;
    return `${answer.message ?? 'Too many requests'}. Try again in ${wait}.`;
  }
  return answer.message ?? `The service answered ${answer.status}.`;
}
