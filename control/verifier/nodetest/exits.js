// A program that exits while one of its timers fires, and leaves another, has ended: nothing resumes it, as that would throw. The
// program is a stand-in, as it depends on the machine's speed whether the real one does so; what resumes it is wasm_exec.js.

import '../program/wasm_exec.js';
import { run } from '../page/run.js';

const memory = new WebAssembly.Memory({ initial: 1 });
const view = new DataView(memory.buffer);
const sp = 8192;

// timer has Go's runtime schedule an event in so many milliseconds.
function timer(gojs, ms) {
  view.setBigInt64(sp + 8, BigInt(ms), true);
  gojs['runtime.scheduleTimeoutEvent'](sp);
}

WebAssembly.instantiate = async (_, { gojs }) => Object.create(WebAssembly.Instance.prototype, { exports: { value: {
  mem: memory, getsp: () => sp,
  run() {
    timer(gojs, 1);
    timer(gojs, 20);
  },
  resume() {
    view.setInt32(sp + 8, 7, true);
    gojs['runtime.wasmExit'](sp);
  },
} } });

const { status } = await run(null, [], new Map());
await new Promise((resolve) => { setTimeout(resolve, 60); });
console.log(JSON.stringify({ status }));
