// data.js: the embedded columns as typed arrays, and the selection that the filters leave.
// Times are microseconds since the start of the run.

const D = JSON.parse(document.getElementById("data").textContent);
const OUTCOMES = ["ok", "fail", "info"];
const OK = 0, FAIL = 1, INFO = 2;

function accumulate(differences) {
  const out = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < out.length; i++) out[i] = sum += differences[i];
  return out;
}

const OPS = (() => {
  const raw = D.ops, start = accumulate(raw.t), index = accumulate(raw.i), n = start.length;
  const end = new Float64Array(n), outcome = new Uint8Array(n), lane = new Int32Array(n);
  for (let i = 0; i < n; i++) {
    end[i] = raw.d[i] < 0 ? Math.max(D.end, start[i]) : start[i] + raw.d[i];
    outcome[i] = raw.o.charCodeAt(i) - 48;
    lane[i] = raw.lanes[raw.p[i]];
  }
  const text = (column) => (i) => raw.texts[raw[column][i]];
  return {
    n, start, end, index, outcome, lane,
    lanes: n ? Math.max(...new Set(raw.lanes)) + 1 : 0,
    open: (i) => raw.d[i] < 0,
    process: (i) => raw.processes[raw.p[i]],
    completion: (i) => index[i] + raw.c[i],
    f: text("f"), key: text("k"), node: text("n"), value: text("v"), result: text("r"), error: text("e"),
    nodeText: raw.n,
  };
})();

// First position in sorted `values` whose value is >= x.
function lower(values, x) {
  let lo = 0, hi = values.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (values[mid] < x) lo = mid + 1; else hi = mid;
  }
  return lo;
}

const opNodes = [...new Set(OPS.nodeText)].map((at) => D.ops.texts[at]).filter((name) => name !== "");
const NODES = [...new Set([...D.nodes, ...opNodes.sort()])];
const shown = { outcomes: [true, true, true], nodes: new Set(NODES) };

// What the filters leave: all ops by start, the same by end, and per lane with running counts.
let chosen = null;

function choose() {
  const nodeOk = D.ops.texts.map((name) => name === "" || !NODES.includes(name) || shown.nodes.has(name));
  const ids = [];
  for (let i = 0; i < OPS.n; i++) {
    if (shown.outcomes[OPS.outcome[i]] && nodeOk[OPS.nodeText[i]]) ids.push(i);
  }
  const lanes = Array.from({ length: OPS.lanes }, () => []);
  for (const i of ids) lanes[OPS.lane[i]].push(i);
  const done = ids.filter((i) => !OPS.open(i)).sort((a, b) => OPS.end[a] - OPS.end[b]);
  chosen = {
    ids: Int32Array.from(ids), starts: Float64Array.from(ids, (i) => OPS.start[i]),
    done: Int32Array.from(done), ends: Float64Array.from(done, (i) => OPS.end[i]),
    longest: ids.reduce((most, i) => (OPS.open(i) ? most : Math.max(most, OPS.end[i] - OPS.start[i])), 0),
    lanes: lanes.map(lane),
    rows: D.nodes.map((_, at) => at).filter((at) => shown.nodes.has(D.nodes[at])),
  };
}

function lane(ids) {
  const fails = new Int32Array(ids.length + 1), infos = new Int32Array(ids.length + 1);
  ids.forEach((i, at) => {
    fails[at + 1] = fails[at] + (OPS.outcome[i] === FAIL);
    infos[at + 1] = infos[at] + (OPS.outcome[i] === INFO);
  });
  return {
    ids, fails, infos,
    starts: Float64Array.from(ids, (i) => OPS.start[i]),
    ends: Float64Array.from(ids, (i) => OPS.end[i]),
  };
}

// Who led when: the leader spans of all nodes, by start; overlapping ones get rows of their own.
const REIGNS = (() => {
  const out = [];
  D.roles.forEach((spans, node) => spans.forEach(([role, epoch, t0, t1]) => {
    if (role === "leader") out.push({ node, epoch, t0, t1 });
  }));
  const rows = inRows(out, 3);
  const holders = new Map();
  for (const reign of out) {
    if (reign.epoch === null) continue;
    if (!holders.has(reign.epoch)) holders.set(reign.epoch, new Set());
    holders.get(reign.epoch).add(reign.node);
  }
  for (const reign of out) reign.twice = (holders.get(reign.epoch) || []).size > 1;
  return { spans: out, rows };
})();
const FAULT_ROWS = inRows(D.faults, 8);

// Gives each span (t0, t1) the first free row, at most `most` rows; returns how many it took.
function inRows(spans, most) {
  spans.sort((a, b) => a.t0 - b.t0);
  const free = [];
  for (const span of spans) {
    let row = free.findIndex((at) => at <= span.t0);
    if (row < 0) row = free.length < most ? free.length : free.indexOf(Math.min(...free));
    span.row = row;
    free[row] = Math.max(free[row] || 0, span.t1);
  }
  return free.length;
}
