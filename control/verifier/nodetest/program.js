// Runs the program as the page's worker does, for tests: each line of the standard input is a command line and the
// files that it names, as JSON ({"args":[…],"files":{name: base64}}); each line of the output is its exit status and
// what it printed.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { gunzipSync } from 'node:zlib';

import { run } from '../page/run.js';
import '../program/wasm_exec.js';

const program = await WebAssembly.compile(gunzipSync(readFileSync(new URL('../program/muniment-verify.wasm.gz', import.meta.url))));

for await (const line of createInterface({ input: process.stdin })) {
  const { args, files } = JSON.parse(line);
  const { status, printed } = await run(program, args, new Map(Object.entries(files).map(([name, text]) => [name, Buffer.from(text, 'base64')])));
  console.log(JSON.stringify({ status, printed: Buffer.concat(printed).toString() }));
}
