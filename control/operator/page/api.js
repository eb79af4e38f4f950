// Requests to the control process that has served this page. The session's cookie goes with them by
// itself, and no script can read it.

// timeout is how long a panel waits for an answer, in milliseconds: somewhat longer than control waits for
// its engines.
const timeout = 8000;

// changeTimeout is how long the page waits for the answer to a change.
const changeTimeout = 30_000;

// send returns the answer: status, ok, data, error, message. status is 0 if there was none.
export async function send(method, path, body) {
  try {
    const response = await fetch(path, {
      method, body: body === undefined ? undefined : JSON.stringify(body), headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      cache: 'no-store', redirect: 'error', credentials: 'same-origin', signal: AbortSignal.timeout(method === 'GET' ? timeout : changeTimeout),
    });
    return { ...parsed(await response.text()), status: response.status, ok: response.ok };
  } catch (error) {
    const late = error.name === 'TimeoutError' && method !== 'GET';
    return { status: 0, ok: false, message: late ? 'control has not answered yet, and may have done it: close this, and look' : 'control does not answer' };
  }
}

function parsed(text) {
  try {
    const answer = JSON.parse(text);
    return { data: answer.data ?? answer, error: answer.error, reason: answer.reason, message: answer.message };
  } catch {
    return { message: text.slice(0, 200) };
  }
}
