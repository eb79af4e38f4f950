// Running the program: by the root key that the reader gave, or by the keys that this service publishes.

let worker;

// run runs the program once. It rejects if it can't run, and resolves with its report, which it prints for programs.
function run(args, files) {
  worker ??= new Worker('/verify/worker.js', { type: 'module' });
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.failed) reject(new Error(data.failed));
      else resolve(data);
    };
    worker.onerror = (event) => {
      worker = undefined;
      reject(new Error(event.message || 'the program could not be started'));
    };
    worker.postMessage({ args: ['--json', ...args, '--', ...files.map(([name]) => name)], files: [...files, ...anchorsOf(args)] });
  });
}

const anchors = new Map(); // the bytes of key directories, by the names that args have for them
const anchorsOf = (args) => args.filter((arg) => anchors.has(arg.slice('--keys='.length))).map((arg) => [arg.slice('--keys='.length), anchors.get(arg.slice('--keys='.length))]);

// directories are where this service publishes keys: of tenants, and of the sandbox.
const directories = ['/.well-known/muniment/keys.json', '/api/sandbox/runtime-keys'];

async function keysAt(path) {
  const response = await fetch(path);
  if (!response.ok) return false;
  anchors.set(path, new Uint8Array(await response.arrayBuffer()));
  return true;
}

function parsed({ status, printed }) {
  try {
    return { status, ...JSON.parse(printed) };
  } catch {
    throw new Error(printed.trim() || 'the program has printed nothing');
  }
}

// judge returns the report on files, an array of [name, bytes], with anchor: what it rests on.
export async function judge(files, root) {
  if (root !== '') return { anchor: 'root', ...parsed(await run([`--root=${root}`], files)) };
  let report;
  for (const path of directories) {
    if (!await keysAt(path)) continue;
    const now = { anchor: path === directories[0] ? 'service' : 'sandbox', ...parsed(await run([`--keys=${path}`], files)) };
    if (!report || now.verdict !== 'unjudged') report = now;
    if (report.verdict !== 'unjudged') break;
  }
  if (!report) throw new Error('the public keys of this service could not be loaded');
  return report;
}
