// Running the program: by the root key that the reader gave, or by the keys that this service publishes. Pages that verify
// something of their own import this and report.js when somebody verifies: what is loaded then is some 2.7 MB.

let worker;
let last = 0; // the number of the newest run
const waiting = new Map(); // what to do with the response of a run, by its number

function start() {
  const started = new Worker('/verify/worker.js', { type: 'module' });
  started.onmessage = ({ data }) => {
    const { resolve, reject } = waiting.get(data.run);
    waiting.delete(data.run);
    if (data.failed) reject(new Error(data.failed));
    else resolve(data);
  };
  started.onerror = (event) => {
    worker = undefined;
    for (const { reject } of waiting.values()) reject(new Error(event.message || 'the program could not be started'));
    waiting.clear();
  };
  return started;
}

// run runs the program once, on files, an array of [name, bytes], with further files that args name. It rejects if it
// can't run, and resolves with what it prints for programs.
function run(args, files, further = []) {
  worker ??= start();
  const number = ++last;
  return new Promise((resolve, reject) => {
    waiting.set(number, { resolve, reject });
    worker.postMessage({ run: number, args: ['--json', ...args, '--', ...files.map(([name]) => name)], files: [...files, ...further] });
  });
}

// directories are where this service publishes keys: of tenants, and of the sandbox.
const directories = ['/.well-known/muniment/keys.json', '/api/sandbox/runtime-keys'];

async function published(path) {
  const response = await fetch(path);
  return response.ok ? new Uint8Array(await response.arrayBuffer()) : null;
}

function parsed({ status, printed }) {
  try {
    return { status, ...JSON.parse(printed) };
  } catch {
    throw new Error(printed.trim() || 'the program has printed nothing');
  }
}

// judge returns the report on files, an array of [name, bytes], with anchor: what it rests on, a name in anchors of words.js.
// root is a key, or empty. keysAt loads what this service publishes under a path; it resolves with null if that is nothing.
export async function judge(files, root, keysAt = published) {
  if (root !== '') return judgeUnder(root, files, keysAt);
  let report;
  for (const path of directories) {
    const keys = await keysAt(path);
    if (!keys) continue;
    const now = { anchor: path === directories[0] ? 'service' : 'sandbox', ...parsed(await run([`--keys=${path}`], files, [[path, keys]])) };
    if (!report || now.verdict !== 'unjudged') report = now;
    if (report.verdict !== 'unjudged') break;
  }
  if (!report) throw new Error('the public keys of this service could not be loaded');
  return report;
}

// judgeUnder judges by a root key. This service's newest keys count, too, if they are under it: the files may come with an
// old list, in which a key is not revoked yet.
async function judgeUnder(root, files, keysAt) {
  const path = directories[0];
  const keys = await keysAt(path).catch(() => null);
  let [anchor, report] = ['root', keys && parsed(await run([`--root=${root}`, `--keys=${path}`], files, [[path, keys]]))];
  // Without a file's report the program has refused the keys, or the root key itself.
  if (!report || report.files.length === 0) [anchor, report] = ['alone', parsed(await run([`--root=${root}`], files))];
  const refused = report.files.length === 0 && { // where the program has an option the page has a field
    message: report.message.replace(/^--root: /, ''), next: 'copy the root key whole into its field, as the operator of the service gave it to you',
  };
  return { anchor: report.verdict === 'sound' ? anchor : 'tried', ...report, ...refused };
}
