// hover.js: what lies under the pointer, said in words; the crosshair; the pinned box.
// Foreign text only ever goes into textContent.

const tip = document.getElementById("tip"), pinnedBox = document.getElementById("pinned");
const overCtx = over.getContext("2d");
let pointer = null, hovered = null, pinned = null, selected = null;

const FIND = { anomalies: findAnomaly, faults: findFault, leader: findReign, roles: findRole, hwm: findHwm, snapshots: findSnapshot,
  rate: findRate, latency: findLatency, clients: findClient };

// { title, rows: [[name, text]], op?: id, t0, t1 } or null.
function find(x, y) {
  const track = trackAt(y);
  return track && x >= LEFT && FIND[track.name] ? FIND[track.name](track, x, y) : null;
}

function sayOp(i) {
  const open = OPS.open(i), outcome = OUTCOMES[OPS.outcome[i]];
  const value = valueText(OPS.value[i], i), result = valueText(OPS.result[i], i), wait = "…";
  if (value === null || result === null) readTexts(i).then(() => sayAgain(i));
  const rows = [
    ["process", OPS.process(i)], ["key", OPS.key(i)], ["value", value ?? wait],
    ["result", result === value ? "" : result ?? wait],
    ["error", OPS.error(i)], ["node", OPS.node(i)],
    ["invoked", `${time(OPS.start[i], 1)}, op ${OPS.index[i]}`],
    ["ended", open ? "still open at the end" : `${time(OPS.end[i], 1)}, op ${OPS.ended[i]}`],
    ["latency", open ? "" : span(OPS.end[i] - OPS.start[i])],
  ];
  return { title: `${OPS.f(i)} → ${outcome}`, rows, op: i, t0: OPS.start[i], t1: OPS.end[i] };
}

// The values of an op were read meanwhile.
function sayAgain(i) {
  if (hovered && hovered.op === i) { hovered = sayOp(i); fill(tip, "b", hovered); }
  if (pinned && pinned.op === i) { pinned = sayOp(i); fill(pinnedBox, "h3", pinned); }
}

function findAnomaly(track, x) {
  let best = null;
  for (const one of D.anomalies) {
    const off = Math.abs(xOf(one[2]) - x);
    if (off < 12 && (!best || off < best.off)) best = { off, one };
  }
  return best && sayAnomaly(best.one);
}

function sayAnomaly([count, invariant, t]) {
  const title = document.querySelector(`#anomaly-${count} .what b`);
  return { title: `anomaly ${count}: ${invariant}`, t0: t, t1: t, anomaly: count,
    rows: [["at", time(t, 1)], ["what", title ? title.textContent : ""]] };
}

function findFault(track, x, y) {
  const row = Math.floor((y - track.top) / track.each);
  const near = (f) => f.row === row && x >= xOf(f.t0) - 3 && x <= Math.max(xOf(f.t1), xOf(f.t0) + 3) + 3;
  const fault = D.faults.find(near);
  return fault ? sayFault(fault) : null;
}

function sayFault(fault) {
  return { fault: fault.id, title: `fault ${fault.id}: ${fault.nemesis}, ${fault.outcome}`, t0: fault.t0, t1: fault.t1, rows: [
    ["targets", fault.targets.join(", ")], ["params", fault.params], ["reason", fault.reason],
    ["from", time(fault.t0)], ["to", fault.healed || fault.outcome !== "installed" ? time(fault.t1) : "never healed"],
    ["for", span(fault.t1 - fault.t0)]] };
}

function findReign(track, x, y) {
  const row = Math.floor((y - track.top) / track.each), t = tOf(x), slack = tOf(x + 2) - t;
  const reign = REIGNS.spans.find((r) => r.row === row && t >= r.t0 - slack && t <= r.t1 + slack);
  return reign ? saySpan(reign.node, "leader", reign.epoch, reign.t0, reign.t1) : null;
}

function findRole(track, x, y) {
  const node = chosen.rows[Math.floor((y - track.top) / track.each)], t = tOf(x), slack = tOf(x + 5) - t;
  const mark = node === undefined ? null : D.marks[node].find(([, at]) => Math.abs(at - t) < slack);
  if (mark) return { title: `${D.nodes[node]}: ${mark[0]}`, t0: mark[1], t1: mark[1], rows: [["at", time(mark[1], 1)], ["fields", mark[2]]] };
  const spans = node === undefined ? [] : D.roles[node];
  const found = spans.findLast(([, , t0, t1]) => t >= t0 && t <= t1);
  return found ? saySpan(node, found[0], found[1], found[2], found[3]) : null;
}

function saySpan(node, role, epoch, t0, t1) {
  return { title: `${D.nodes[node]}: ${role} in epoch ${epoch ?? "?"}`, t0, t1,
    rows: [["from", time(t0, 1)], ["to", time(t1, 1)], ["for", span(t1 - t0)]] };
}

function findHwm(track, x) {
  const t = tOf(x);
  const rows = chosen.rows.map((node) => [D.nodes[node], stepAt(D.hwm[node], t), stepAt(D.logStarts[node], t)]).filter(([, v]) => v !== null);
  if (!rows.length) return null;
  return { title: `high watermark at ${time(t)}`, rows: rows.map(([name, v, from]) => [name, number(v) + (from ? `, log from ${number(from)}` : "")]), t0: t, t1: t };
}

function findSnapshot(track, x, y) {
  const node = chosen.rows[Math.floor((y - track.top) / track.each)], t = tOf(x), slack = tOf(x + 6) - t;
  const near = node === undefined ? [] : D.snapshots[node].filter(([, at]) => Math.abs(at - t) < slack);
  const found = near.sort((a, b) => Math.abs(a[1] - t) - Math.abs(b[1] - t))[0];
  if (!found) return null;
  const [op, at, offset, fields] = found, words = SNAPSHOT[op] ? SNAPSHOT[op][2] : op;
  return { title: `${D.nodes[node]}: snapshot ${words}`, t0: at, t1: at,
    rows: [["at", time(at, 1)], ["up to", offset === null ? "" : number(offset)], ["fields", fields]] };
}

function findRate(track, x) {
  const { by, first, n, counts } = rateBins(), bin = Math.floor(tOf(x) / by) - first;
  if (bin < 0 || bin >= n) return null;
  const t0 = (first + bin) * by;
  return { title: `completions from ${time(t0, by)} for ${span(by)}`, t0, t1: t0 + by,
    rows: OUTCOMES.map((name, o) => [name, `${number(counts[o][bin])} (${number(Math.round((counts[o][bin] * 1e6) / by))}/s)`]) };
}

function findLatency(track, x, y) {
  let best = null, least = 64;
  for (let j = lowerStart(chosen.ids, tOf(x - 8)), end = lowerStart(chosen.ids, tOf(x + 8)); j < end; j++) {
    const i = chosen.ids[j];
    if (OPS.open(i)) continue;
    const off = (xOf(OPS.start[i]) - x) ** 2 + (latencyY(track, OPS.end[i] - OPS.start[i]) - y) ** 2;
    if (off < least) { least = off; best = i; }
  }
  return best === null ? null : sayOp(best);
}

function findClient(track, x, y) {
  const row = chosen.lanes[Math.floor((y - track.top) / track.each)];
  if (!row || !row.ids.length) return null;
  const after = lowerStart(row.ids, tOf(x)); // the last to start before x, and the first after
  let best = null, least = 4;
  for (const j of [after - 1, after]) {
    if (j < 0 || j >= row.ids.length) continue;
    const i = row.ids[j], off = Math.max(xOf(OPS.start[i]) - x, x - Math.max(xOf(OPS.end[i]), xOf(OPS.start[i]) + 1.5), 0);
    if (off < least) { least = off; best = i; }
  }
  return best === null ? null : sayOp(best);
}

function fill(box, heading, found) {
  box.querySelector(heading).textContent = found.title;
  box.querySelector("dl").replaceChildren(...found.rows.filter(([, text]) => text !== "").flatMap(([name, text]) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = text;
    return [dt, dd];
  }));
}

function hover(x, y) {
  pointer = { x, y };
  hovered = find(x, y);
  tip.hidden = !hovered;
  if (hovered) {
    if (!tip.firstChild) tip.append(document.createElement("b"), document.createElement("dl"));
    fill(tip, "b", hovered);
    const wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = Math.max(2, x + 14 + wide > W ? x - wide - 12 : x + 14) + "px";
    tip.style.top = Math.max(2, Math.min(y + 14, H - high - 4)) + "px";
  }
  drawOver();
}

function leave() {
  pointer = hovered = null;
  tip.hidden = true;
  drawOver();
}

function select(x0, x1) {
  selected = x0 === null ? null : [Math.max(LEFT, Math.min(x0, x1)), Math.max(x0, x1)];
  tip.hidden = true;
  drawOver();
}

function pin(found) {
  pinned = found;
  pinnedBox.hidden = !found;
  if (found) fill(pinnedBox, "h3", found);
  drawOver();
}

function drawOver() {
  overCtx.clearRect(0, 0, W, H);
  overCtx.save();
  overCtx.beginPath();
  overCtx.rect(LEFT, 0, W - LEFT, H);
  overCtx.clip();
  if (selected) {
    overCtx.fillStyle = C.link;
    overCtx.globalAlpha = 0.18;
    overCtx.fillRect(selected[0], 0, selected[1] - selected[0], H);
    overCtx.globalAlpha = 1;
    for (const x of selected) overCtx.fillRect(Math.round(x), 0, 1, H);
  }
  if (pointer && pointer.x >= LEFT) {
    overCtx.fillStyle = C.edge;
    overCtx.fillRect(Math.round(pointer.x), 0, 1, H);
  }
  for (const [found, wide] of [[hovered, 1], [pinned, 2]]) if (found) outline(found, wide);
  overCtx.restore();
}

function outline(found, wide) {
  const x0 = xOf(found.t0), x1 = Math.max(xOf(found.t1), x0 + 2);
  overCtx.strokeStyle = C.hover;
  overCtx.lineWidth = wide;
  if (found.op === undefined) {
    overCtx.fillStyle = C.hover; // a pinned time or span: its edges over all tracks
    overCtx.globalAlpha = 0.6;
    if (wide > 1) for (const x of x1 - x0 > 3 ? [x0, x1] : [x0]) overCtx.fillRect(Math.round(x), 0, 1, H);
    overCtx.globalAlpha = 1;
    return;
  }
  const clients = trackOf("clients"), latency = trackOf("latency");
  overCtx.strokeRect(x0 - 1, clients.top + chosen.clients.indexOf(OPS.lane[found.op]) * clients.each - 1.5, x1 - x0 + 2, clients.each);
  if (OPS.open(found.op)) return;
  overCtx.beginPath();
  overCtx.arc(x0, latencyY(latency, found.t1 - found.t0), 5, 0, 7);
  overCtx.stroke();
}
