// data.js: the head of the data, the columns of all ops (filled in by blocks.js), reigns and faults.
// Times are microseconds since the start of the run.

const D = JSON.parse(document.getElementById("data").textContent);
const OUTCOMES = ["ok", "fail", "info"];
const OK = 0, FAIL = 1, INFO = 2;
const NOTHING = 0, NUMBER = 1, SAME = 2; // tags of values, in their lowest two bits; 3 is a text

const OPS = (() => {
  const n = D.ops.n, numbers = () => new Float64Array(n), places = () => new Int32Array(n);
  return {
    n, loaded: 0,
    start: numbers(), end: numbers(), index: numbers(), ended: numbers(), value: numbers(), result: numbers(),
    outcome: new Uint8Array(n), row: new Uint8Array(n), // row: of the latency cloud; NO_ROW while open
    processAt: places(), lane: places(), fAt: places(), keyAt: places(), nodeAt: places(), errorAt: places(),
    lanes: D.ops.lanes.reduce((most, lane) => Math.max(most, lane + 1), 0),
    open: (i) => OPS.row[i] === NO_ROW,
    process: (i) => D.ops.processes[OPS.processAt[i]],
    f: (i) => D.ops.texts[OPS.fAt[i]], key: (i) => D.ops.texts[OPS.keyAt[i]],
    node: (i) => D.ops.texts[OPS.nodeAt[i]], error: (i) => D.ops.texts[OPS.errorAt[i]],
  };
})();
const NO_ROW = 255, LATENCY_ROWS = 64;
const LATENCY = D.ops.latency;
const LATENCY_SCALE = LATENCY_ROWS / Math.log(LATENCY[1] / LATENCY[0]);
const latencyRow = (us) => Math.min(LATENCY_ROWS - 1, Math.floor(Math.log(Math.max(LATENCY[0], us) / LATENCY[0]) * LATENCY_SCALE));

// First position in `count` values, got by `at` and rising, that is >= x.
function lowerOf(count, at, x) {
  let lo = 0, hi = count;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (at(mid) < x) lo = mid + 1; else hi = mid;
  }
  return lo;
}
const lower = (values, x) => lowerOf(values.length, (i) => values[i], x);
// As lower, over the starts of ops.
const lowerStart = (ids, x) => lowerOf(ids.length, (j) => OPS.start[ids[j]], x);
const lowerEnd = (ids, x) => lowerOf(ids.length, (j) => OPS.end[ids[j]], x);

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
const FAULT_ROWS = inRows(D.faults, 40); // each of those that overlap in a lane of its own

// Gives each span (t0, t1) the first free row, at most `most` rows, and the start of the next one
// in it; returns how many it took.
function inRows(spans, most) {
  spans.sort((a, b) => a.t0 - b.t0);
  const free = [], last = [];
  for (const span of spans) {
    let row = free.findIndex((at) => at <= span.t0);
    if (row < 0) row = free.length < most ? free.length : free.indexOf(Math.min(...free));
    span.row = row;
    span.next = Infinity;
    if (last[row]) last[row].next = span.t0;
    last[row] = span;
    free[row] = Math.max(free[row] || 0, span.t1);
  }
  return free.length;
}
