// choice.js: the selection that the filters leave.

const RATE_STEP = D.ops.rateStep, RATE_BINS = Math.floor(D.end / RATE_STEP) + 1;
const opNodes = (() => {
  const seen = new Set(D.nodes), out = [];
  return (ats) => {
    for (const at of ats) {
      const name = D.ops.texts[at];
      if (name !== "" && !seen.has(name)) { seen.add(name); out.push(name); }
    }
    return out.sort();
  };
})();
const NODES = [...new Set([...D.nodes, ...opNodes(D.ops.nodes)])];
const shown = { outcomes: [true, true, true], nodes: new Set(NODES), fs: new Set(D.ops.fs), client: null, key: "" };

const noOps = () => ({ ids: new Int32Array(0), fails: new Int32Array(1), infos: new Int32Array(1) });

// What the filters leave: ops by start, the same per client with running counts, completions per
// bin of RATE_STEP. `counts` are the coarse counts while the ops themselves are not there yet.
let chosen = null;
let coarse = null;

function choose() {
  const rows = D.nodes.map((_, at) => at).filter((at) => shown.nodes.has(D.nodes[at]));
  const clients = shown.client === null ? Array.from({ length: OPS.lanes }, (_, at) => at) : [shown.client];
  if (OPS.loaded < OPS.n) {
    chosen = { ids: new Int32Array(0), lanes: clients.map(noOps), clients, rows, rate: coarse ? coarse.rate : new Uint32Array(3 * RATE_BINS), whole: null };
    return;
  }
  const ids = chooseOps();
  chosen = { ids, lanes: byLane(ids, clients), clients, rows, rate: completions(ids), whole: null };
}

function chooseOps() {
  const { n, outcome, nodeAt, fAt, keyAt, lane } = OPS;
  const known = new Set(NODES), key = shown.key.toLowerCase();
  const nodeOk = Uint8Array.from(D.ops.texts, (name) => !known.has(name) || shown.nodes.has(name));
  const keyOk = Uint8Array.from(D.ops.texts, (text) => key === "" || text.toLowerCase().includes(key));
  const fOk = Uint8Array.from(D.ops.texts, (_, at) => shown.fs.has(at));
  const outcomeOk = Uint8Array.from(shown.outcomes, Number);
  const client = shown.client === null ? -1 : shown.client, out = new Int32Array(n);
  let count = 0;
  for (let i = 0; i < n; i++) {
    if (outcomeOk[outcome[i]] && nodeOk[nodeAt[i]] && fOk[fAt[i]] && keyOk[keyAt[i]] && (client < 0 || lane[i] === client)) out[count++] = i;
  }
  return out.slice(0, count);
}

function byLane(ids, clients) {
  const sizes = new Int32Array(OPS.lanes), fill = new Array(OPS.lanes);
  for (let j = 0; j < ids.length; j++) sizes[OPS.lane[ids[j]]]++;
  const all = Array.from(sizes, (n, at) => {
    fill[at] = 0;
    return { ids: new Int32Array(n), fails: new Int32Array(n + 1), infos: new Int32Array(n + 1) };
  });
  for (let j = 0; j < ids.length; j++) {
    const i = ids[j], at = OPS.lane[i], lane = all[at], k = fill[at]++;
    lane.ids[k] = i;
    lane.fails[k + 1] = lane.fails[k] + (OPS.outcome[i] === FAIL ? 1 : 0);
    lane.infos[k + 1] = lane.infos[k] + (OPS.outcome[i] === INFO ? 1 : 0);
  }
  return clients.map((at) => all[at]);
}

function completions(ids) {
  const out = new Uint32Array(3 * RATE_BINS);
  for (let j = 0; j < ids.length; j++) {
    const i = ids[j];
    if (OPS.row[i] !== NO_ROW) out[OPS.outcome[i] * RATE_BINS + Math.min(RATE_BINS - 1, Math.floor(OPS.end[i] / RATE_STEP))]++;
  }
  return out;
}
