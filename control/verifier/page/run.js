// One run of the program. It takes the Go distribution's class Go from wasm_exec.js, which whoever imports this has loaded.

import { fileSystem } from './files.js';

// run runs the compiled program with a command line on the files that it names, a Map of their bytes, and resolves with its
// exit status and what it printed, in pieces of bytes.
export async function run(program, args, files) {
  const printed = [];
  globalThis.fs = fileSystem(files, (bytes) => printed.push(bytes));
  const go = new globalThis.Go();
  let status = 0;
  go.argv = ['muniment-verify', ...args];
  go.exit = (code) => {
    status = code;
    // A timer that fires after the exit, or in which the program exits, would resume the program once more, which throws.
    for (const timer of go._scheduledTimeouts.values()) clearTimeout(timer);
    go._scheduledTimeouts.clear();
  };
  await go.run(await WebAssembly.instantiate(program, go.importObject));
  return { status, printed };
}
