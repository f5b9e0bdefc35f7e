// A reporter for `node --test` that tells what the runner decided over the evidence channel and
// prints nothing. It runs in the runner's process; every test file has a process of its own.
// Node 18.15 or newer. The protocol is that of channel.py.
import { readSync, writeSync } from 'node:fs';
import { relative } from 'node:path';

const fd = Number(process.env.SPIKE_EVENTS);
delete process.env.SPIKE_EVENTS;

function readNonce() {
  const bytes = [];
  const one = Buffer.alloc(1);
  while (readSync(fd, one, 0, 1, null) === 1 && one[0] !== 10) bytes.push(one[0]);
  return Buffer.from(bytes).toString('ascii');
}

const nonce = readNonce();
let seq = 0;

function send(kind, fields) {
  let data = Buffer.from(nonce + ascii(JSON.stringify({ ...fields, kind, seq })) + '\n');
  seq += 1;
  try {
    while (data.length) data = data.subarray(writeSync(fd, data));
  } catch {
    // Lost evidence: the run can't pass then.
  }
}

function ascii(text) {
  return text.replace(/[^\x00-\x7f]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

function isFile(data) {
  // Node reports each file as a test of its own, named by its path.
  return data.nesting === 0 && data.file !== undefined &&
    (data.name === data.file || data.name === relative(process.cwd(), data.file));
}

export default async function* spike(source) {
  const names = new Map(); // file -> names of the open tests by nesting
  const seen = new Set();
  let failed = 0;
  const idOf = (data) => {
    const path = names.get(data.file) ?? [];
    path.length = data.nesting + 1;
    path[data.nesting] = data.name;
    names.set(data.file, path);
    const file = data.file === undefined ? '' : relative(process.cwd(), data.file);
    return [file, ...path.map(String)].join('::');
  };
  const report = (data, outcome) => {
    const id = idOf(data);
    const kind = data.details?.error?.failureType;
    const fields = { id, when: kind === 'hookFailed' ? 'setup' : 'call', outcome };
    if (data.skip !== undefined) fields.outcome = 'skipped';
    if (data.todo !== undefined) Object.assign(fields, { outcome: 'skipped', xfail: true });
    if (fields.outcome === 'failed') failed += 1;
    if (!seen.has(id)) {
      seen.add(id);
      send('collected', { ids: [id] });
    }
    send('report', fields);
  };
  send('start', { version: process.version });
  for await (const { type, data } of source) {
    if (type === 'test:start') idOf(data);
    else if (type === 'test:pass' && !isFile(data)) report(data, 'passed');
    else if (type === 'test:fail' && !isFile(data)) report(data, 'failed');
    else if (type === 'test:fail' && data.details?.error?.failureType !== 'subtestsFailed') {
      send('collect_error', { id: relative(process.cwd(), data.file), text: 'the file failed' });
    }
  }
  send('finish', { status: failed ? 1 : 0 });
}
