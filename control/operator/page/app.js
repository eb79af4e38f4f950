// The page begins here: a link's token becomes a session, and the panels start.

import { send } from './api.js';
import { applications, quarantine } from './decisions.js';
import { byID, h, say, warn } from './dom.js';
import { clock } from './format.js';
import { redrawAll, startAll, stopAll, whenLocked } from './panel.js';
import { drift, lag, nodesAndSpool, readiness, refusals } from './pictures.js';

const how = () => [' Run ', h('code', null, 'muniment console'), ' on the machine of the server, and open the link that it prints.'];

// lock hides the panels.
function lock(why) {
  stopAll();
  byID('confirm').close();
  byID('panels').hidden = true;
  byID('session').hidden = true;
  byID('locked').hidden = false;
  byID('locked').replaceChildren(why, ...how());
  document.title = 'Muniment console';
}

function unlock({ expiresAt }) {
  byID('locked').hidden = true;
  byID('panels').hidden = false;
  byID('session').hidden = false;
  byID('session-text').textContent = `Session until ${clock(expiresAt)}`;
  startAll();
}

// open begins a session by the token in the address, or goes on with the one that there is. The
// address must not keep the token.
async function open() {
  const token = location.hash.length > 20 ? location.hash.slice(1) : '';
  if (token) history.replaceState(null, '', location.pathname);
  let answer = token ? await send('POST', '/console/api/session', { token }) : { ok: false };
  if (!answer.ok) {
    const refused = token && answer;
    answer = await send('GET', '/console/api/session');
    if (!answer.ok) {
      const why = refused?.status === 401 ? 'This link was used, has expired, or is not one of this process.'
        : answer.status === 401 ? 'This page needs a session.' : `${answer.message ?? 'Something went wrong'}.`;
      lock(why);
      warn(why);
      return;
    }
  }
  unlock(answer.data);
}

readiness();
nodesAndSpool();
lag();
drift();
quarantine();
refusals();
applications();

whenLocked(() => lock('The session has ended.'));
byID('leave').addEventListener('click', async () => {
  await send('DELETE', '/console/api/session');
  lock('You have ended the session.');
  say('You have ended the session');
});
addEventListener('hashchange', () => { if (location.hash.length > 20) open(); });
let width = innerWidth;
addEventListener('resize', () => {
  if (innerWidth !== width && !byID('panels').hidden) redrawAll();
  width = innerWidth;
});
open();
