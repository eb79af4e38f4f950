// The worker in which the program runs: the page stays usable while it does. A message is the number of a run, a command
// line and the files that it names; the response is that number, the exit status and what was printed.

import { run as runProgram } from './run.js';
import './wasm_exec.js';

let compiled; // the program, a promise

async function compile() {
  const response = await fetch('./muniment-verify.wasm.gz');
  if (!response.ok) throw new Error(`the program could not be loaded: ${response.status}`);
  const unpacked = response.body.pipeThrough(new DecompressionStream('gzip'));
  return WebAssembly.compileStreaming(new Response(unpacked, { headers: { 'content-type': 'application/wasm' } }));
}

async function answer({ run, args, files }) {
  try {
    compiled ??= compile();
    const program = await compiled;
    const { status, printed } = await runProgram(program, args, new Map(files));
    postMessage({ run, status, printed: await new Blob(printed).text() });
  } catch (error) {
    compiled = undefined; // the next attempt loads it again
    postMessage({ run, failed: String(error.message ?? error) });
  }
}

let before = Promise.resolve();

// One run at a time: the program's files are those of its own message.
onmessage = ({ data }) => { before = before.then(() => answer(data)); };
