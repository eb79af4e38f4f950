// A device, which a test kills: adds plays to the buffer of a folder, and says so for each. FIRST is the
// number of the first, COUNT how many there are in all. Once it has added HOLD of them it waits to be killed.
//
// With URL it uploads them meanwhile. Its time is its own: between two plays are five seconds, which take
// none; START is when it began, and until ten minutes later some of what it sends arrives and no answer does.

import { Client, DeliveryBuffer } from 'muniment-client';
import { FileStorage } from 'muniment-client/node';

const { URL: url, KEY: key = 'k', RIGHT: rightId = 'rgh_1', FIRST, COUNT, START, NOW, HOLD } = process.env;
let now = Number(NOW ?? Date.now());
const clock = {
  now: () => now,
  // What uploads waits for the time that plays take.
  sleep: async (ms, signal) => {
    const end = now + ms;
    while (now < end) {
      signal?.throwIfAborted();
      await new Promise(setImmediate);
    }
  },
};

let lost = 0;
async function link(target, init) {
  const offline = now < Number(START) + 600_000;
  if (offline && lost % 2 === 0) {
    lost++;
    throw new TypeError('no route to host');
  }
  const response = await fetch(target, init);
  if (!offline) return response;
  lost++;
  await response.body?.cancel();
  throw new TypeError('the connection was reset');
}

const client = new Client({ url: url ?? 'https://service.example', key, clock, fetch: url ? link : () => Promise.reject(new TypeError('offline')) });
const buffer = await DeliveryBuffer.open({
  client, storage: new FileStorage(process.argv[2]),
  refused: (row, why) => {
    console.error('refused', row, why);
    process.exit(1);
  },
});
const stop = new AbortController();
const running = url ? buffer.run(stop.signal) : undefined;
running?.catch((err) => {
  console.error(err);
  process.exit(1);
});
for (let n = Number(FIRST); n < Number(COUNT); n++) {
  await buffer.add({ rightId, spatialAnchorId: `screen-${n % 3}`, dwellMs: 4200, idempotencyKey: `play-${n}` });
  console.log(`${n} ${now}`);
  while (n - Number(FIRST) + 1 === Number(HOLD)) await new Promise((resolve) => setTimeout(resolve, 1));
  now += 5000;
  await new Promise((resolve) => setTimeout(resolve, 1));
}
while (url && buffer.stats().waiting > 0) {
  now += 1000;
  await new Promise((resolve) => setTimeout(resolve, 1));
}
stop.abort();
await running;
await buffer.close();
console.log(`lost ${lost}`);
