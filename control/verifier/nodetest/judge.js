// Judges as the page does, for tests: the standard input is {"root":…,"published":BASE64|null,"files":{NAME: BASE64}} as JSON, the
// output is the report. The page's worker is a stand-in that runs the same program here.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';

import { run } from '../page/run.js';
import '../program/wasm_exec.js';

const program = await WebAssembly.compile(gunzipSync(readFileSync(new URL('../program/muniment-verify.wasm.gz', import.meta.url))));

globalThis.Worker = class {
  async postMessage({ run: number, args, files }) {
    const { status, printed } = await run(program, args, new Map(files));
    this.onmessage({ data: { run: number, status, printed: Buffer.concat(printed).toString() } });
  }
};

const { judge } = await import('../page/program.js');
const bytes = (text) => Buffer.from(text, 'base64');
const { root, published, files } = JSON.parse(readFileSync(0, 'utf8'));
const keysAt = async (path) => {
  if (published === null) throw new Error('the service could not be reached');
  return path === '/.well-known/muniment/keys.json' ? bytes(published) : null;
};
const report = await judge(Object.entries(files).map(([name, text]) => [name, bytes(text)]), root, keysAt);
console.log(JSON.stringify(report));
