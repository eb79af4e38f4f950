// Delivers once by each default way of fetch and of node:http. Prints a line each: name and status.
import http from 'node:http';

const [url, key, body] = process.argv.slice(2);
const headers = {authorization: `Bearer ${key}`, 'content-type': 'application/json'};

async function byFetch(name, options) {
  const response = await fetch(url, {method: 'POST', headers, ...options});
  await response.text();
  console.log(name, response.status);
}

function byHTTP(name, options, send) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, {method: 'POST', headers, ...options}, (response) => {
      response.resume().on('end', () => {
        console.log(name, response.statusCode);
        resolve();
      });
    });
    request.on('error', reject);
    send(request);
  });
}

await byFetch('fetch text', {body});
await byFetch('fetch stream', {
  duplex: 'half',
  body: new ReadableStream({
    start(out) {
      out.enqueue(new TextEncoder().encode(body.slice(0, 20)));
      out.enqueue(new TextEncoder().encode(body.slice(20)));
      out.close();
    },
  }),
});
await byHTTP('http end', {}, (request) => request.end(body));
await byHTTP('http write', {}, (request) => {
  request.write(body.slice(0, 20));
  request.end(body.slice(20));
});
const agent = new http.Agent({keepAlive: true});
for (const turn of ['first', 'second']) {
  await byHTTP(`http kept alive ${turn}`, {agent}, (request) => {
    request.write(body);
    request.end();
  });
}
await byHTTP('http expect', {headers: {...headers, expect: '100-Continue'}}, (request) => {
  request.on('continue', () => request.end(body));
  request.flushHeaders();
});
agent.destroy();
