// draw.js: one picture: bands, axis, faults, leaders, roles and clients (plots are in plots.js).

const ctx = base.getContext("2d");
const PAINT = { axis: paintAxis, anomalies: paintAnomalies, faults: paintFaults, leader: paintLeaders,
  roles: paintRoles, hwm: paintHwm, snapshots: paintSnapshots, rate: paintRate, latency: paintLatency, clients: paintClients };
const LABEL = { faults: "faults", leader: "leader", hwm: "high wm", rate: "ops/s", latency: "latency", clients: "clients",
  snapshots: "snapshots", anomalies: "anomalies" };

function draw() {
  if (W <= LEFT) return; // not laid out yet, or in a window of no width
  ctx.clearRect(0, 0, W, H);
  ctx.fillStyle = C.bg;
  ctx.fillRect(0, 0, W, H);
  ctx.font = C.font;
  ctx.textBaseline = "middle";
  inPlot(paintBands);
  for (const track of tracks) {
    ctx.fillStyle = C.dim;
    if (LABEL[track.name]) clipped(LABEL[track.name], 6, track.top + Math.min(track.height, 16) / 2, LEFT - 10);
    PAINT[track.name](track);
    ctx.fillStyle = C.line;
    ctx.fillRect(0, track.top + track.height + (track.name === "axis" ? 0 : 4), W, 1);
  }
  inPlot(paintAnomalyLines);
  document.getElementById("window").textContent =
    `${time(Math.max(0, view.t0), step())} – ${time(Math.min(END, view.t1), step())} (${span(view.t1 - view.t0)})`;
  drawOver();
  tableSoon();
}

function inPlot(paint, top = 0, height = H) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(LEFT, top, W - LEFT, height);
  ctx.clip();
  paint();
  ctx.restore();
}

// Text cut with an ellipsis to `width`; nothing when not even that fits.
function clipped(text, x, y, width) {
  if (ctx.measureText(text).width <= width) { ctx.fillText(text, x, y); return; }
  let keep = Math.floor(text.length * width / Math.max(1, ctx.measureText(text).width)) - 1;
  while (keep > 0 && ctx.measureText(text.slice(0, keep) + "…").width > width) keep--;
  if (keep > 0) ctx.fillText(text.slice(0, keep) + "…", x, y);
}

// The label of a bar: inside it, else right of it while it fits before `limit`.
function barLabel(text, x0, x1, y, limit, inside, beside) {
  const left = Math.max(x0, LEFT) + 4, width = ctx.measureText(text).width;
  if (Math.min(x1, W) - left >= Math.min(width, 34)) {
    ctx.fillStyle = inside;
    clipped(text, left, y, Math.min(x1, W) - left - 2);
  } else if (x1 >= LEFT && x1 + 4 + width <= Math.min(limit, W)) {
    ctx.fillStyle = beside;
    ctx.fillText(text, x1 + 4, y);
  }
}

const step = () => nice((view.t1 - view.t0) / Math.max(2, Math.floor((W - LEFT) / 90)));

function paintAxis(track) {
  const by = step(), y = track.top + track.height / 2 + 2;
  for (let t = Math.ceil(Math.max(0, view.t0) / by) * by; t <= Math.min(view.t1, END + MARGIN); t += by) {
    const x = xOf(t);
    ctx.fillStyle = C.line;
    ctx.fillRect(Math.round(x), track.height - 4, 1, H);
    const label = time(t, by), width = ctx.measureText(label).width;
    ctx.fillStyle = C.dim;
    if (x - width / 2 >= LEFT - 6) ctx.fillText(label, Math.min(x - width / 2, W - width - 3), y);
  }
  const full = END + 2 * MARGIN, wide = W - LEFT; // which part of the run this is
  ctx.fillStyle = C.panel;
  ctx.fillRect(LEFT, 0, wide, 4);
  ctx.fillStyle = C.edge;
  ctx.fillRect(LEFT + ((view.t0 + MARGIN) / full) * wide, 0, Math.max(3, ((view.t1 - view.t0) / full) * wide), 4);
}

function paintBands() {
  const top = (trackOf("faults") || trackOf("axis")).top;
  for (const fault of D.faults) {
    if (fault.outcome !== "installed" || fault.t1 < view.t0 || fault.t0 > view.t1) continue;
    const x0 = xOf(fault.t0), x1 = Math.max(xOf(fault.t1), x0 + 1);
    ctx.fillStyle = C.band;
    ctx.fillRect(x0, top, x1 - x0, H);
  }
}

function paintFaults(track) {
  inPlot(() => D.faults.forEach((fault) => {
    const x0 = xOf(fault.t0), x1 = Math.max(xOf(fault.t1), x0 + 3);
    const limit = Math.min(W, xOf(fault.next) - 2);
    if (Math.max(x1, limit) < LEFT || x0 > W) return;
    const y = track.top + fault.row * track.each, installed = fault.outcome === "installed";
    ctx.fillStyle = installed ? C.edge : "transparent";
    ctx.strokeStyle = installed ? C.edge : C.maybe;
    ctx.fillRect(x0, y + 1, x1 - x0, track.each - 3);
    ctx.setLineDash(installed ? [] : [2, 2]);
    ctx.strokeRect(x0 + 0.5, y + 1.5, x1 - x0 - 1, track.each - 4);
    ctx.setLineDash([]);
    const where = fault.targets.length ? " " + fault.targets.join(",") : "";
    const text = fault.nemesis + where + (installed ? "" : " (" + fault.outcome + ")");
    barLabel(text, x0, x1, y + track.each / 2, limit, C.ink, installed ? C.ink : C.maybe);
  }), track.top, track.height);
}

function paintLeaders(track) {
  inPlot(() => REIGNS.spans.forEach((reign) => {
    const x0 = xOf(reign.t0), x1 = Math.max(xOf(reign.t1), x0 + 2);
    const limit = Math.min(W, xOf(reign.next) - 2);
    if (Math.max(x1, limit) < LEFT || x0 > W) return;
    const y = track.top + reign.row * track.each;
    ctx.fillStyle = nodeColour(reign.node);
    ctx.fillRect(x0, y + 1, x1 - x0, track.each - 3);
    if (reign.twice) {
      ctx.strokeStyle = C.bad;
      ctx.lineWidth = 2;
      ctx.strokeRect(x0 + 1, y + 2, x1 - x0 - 2, track.each - 5);
      ctx.lineWidth = 1;
    }
    const text = `${D.nodes[reign.node]} e${reign.epoch ?? "?"}${reign.twice ? " twice!" : ""}`;
    barLabel(text, x0, x1, y + track.each / 2, limit, C["on-leader"], C.dim);
  }), track.top, track.height);
}

// A leader has the colour of its node, as in the lane of leaders.
const ROLE_COLOUR = ["follower", "candidate", "prospective", "unattached", "resigned", "observer", "starting"];

function shownRole(node, role) {
  return D.observers[node] && (role === "follower" || role === "unattached") ? "observer" : role;
}

function paintRoles(track) {
  chosen.rows.forEach((node, at) => {
    const y = track.top + at * track.each, high = track.each - 3;
    ctx.fillStyle = C.ink;
    clipped(D.nodes[node], 6, y + track.each / 2, LEFT - 10);
    inPlot(() => {
      ctx.fillStyle = C.line; // nothing heard: a thin line where no role lies on it
      ctx.fillRect(xOf(0), y + high / 2, xOf(END) - xOf(0), 1);
      let edge = -1;
      for (const [role, epoch, t0, t1] of D.roles[node]) {
        if (t1 < view.t0 || t0 > view.t1) continue;
        const x0 = xOf(t0), x1 = Math.max(xOf(t1), x0 + 1), name = shownRole(node, role);
        if (x1 - edge < 0.5) continue; // hundreds in one pixel
        edge = x1;
        ctx.fillStyle = name === "leader" ? nodeColour(node) : ROLE_COLOUR.includes(name) ? C[name] : C.bad;
        ctx.fillRect(x0, y, x1 - x0, high);
        const left = Math.max(x0, LEFT) + 4, room = Math.min(x1, W) - left - 2;
        const label = [`${name} e${epoch ?? "?"}`, `e${epoch ?? "?"}`].find((text) => ctx.measureText(text).width <= room);
        if (label && track.each > 12) {
          ctx.fillStyle = name === "leader" ? C["on-leader"] : C.ink;
          ctx.fillText(label, left, y + high / 2 + 0.5);
        }
      }
      paintMarks(node, y, high);
    }, track.top, track.height);
  });
}

const MARK = { start: ["▲", "good"], stop: ["■", "dim"], trunc: ["✕", "bad"], elected: ["★", "ink"] };

function paintMarks(node, y, high) {
  let last = -9;
  for (const [type, t] of D.marks[node]) {
    if (t < view.t0 || t > view.t1 || type === "elected") continue; // the reign's begin shows it
    const x = xOf(t);
    if (x - last < 7) continue;
    last = x;
    ctx.fillStyle = C[MARK[type][1]];
    ctx.fillText(MARK[type][0], x - 4, y + high / 2 + 0.5);
  }
}

function paintAnomalies(track) {
  let free = LEFT;
  for (const [, invariant, t] of [...D.anomalies].sort((a, b) => a[2] - b[2])) {
    if (t < view.t0 || t > view.t1) continue;
    const x = xOf(t), y = track.top + track.height / 2;
    ctx.fillStyle = C.bad;
    ctx.beginPath();
    ctx.moveTo(x - 4, y - 5); ctx.lineTo(x + 4, y - 5); ctx.lineTo(x, y + 4);
    ctx.fill();
    const width = ctx.measureText(invariant).width;
    if (x - 4 < free) continue;
    const right = x + 7 + width < W;
    ctx.fillText(invariant, right ? x + 7 : x - 7 - width, y);
    free = right ? x + 11 + width : x + 8;
  }
}

function paintAnomalyLines() {
  const top = trackOf("anomalies");
  if (!top) return;
  ctx.fillStyle = C.bad;
  ctx.globalAlpha = 0.55;
  for (const [, , t] of D.anomalies) ctx.fillRect(xOf(t), top.top + top.height / 2, 1, H);
  ctx.globalAlpha = 1;
}

const FEW = 6000; // ops in view that are drawn one by one, rather than counted

const inView = () => lowerStart(chosen.ids, view.t1) - lowerStart(chosen.ids, view.t0);

function paintClients(track) {
  const grid = inView() > FEW || OPS.loaded < OPS.n ? windowGrid() : null;
  inPlot(() => {
    if (grid) paintCrowd(track, grid);
    else chosen.lanes.forEach((lane, at) => {
      const y = track.top + at * track.each, high = Math.max(2, track.each - (track.each > 6 ? 3 : 1));
      const first = lowerEnd(lane.ids, view.t0), last = lowerStart(lane.ids, view.t1);
      if (last - first > (W - LEFT) / 3) paintDense(lane, y, high);
      else for (let j = first; j < last; j++) paintOp(lane.ids[j], y, high);
    });
  }, track.top, track.height);
  if (track.each > 6 && chosen.clients.length > 1) for (let at = 2; at < chosen.clients.length; at += 5) gutter(String(chosen.clients[at]), track.top + at * track.each + track.each / 2 - 1);
}

// Snapshots: made by the node, installed from the leader, refused, deleted; a row for each node.
const SNAPSHOT = { freeze: ["◆", "link", "made"], install: ["▼", "good", "installed"], reject: ["✕", "bad", "refused"], delete: ["◇", "dim", "deleted"] };

function paintSnapshots(track) {
  inPlot(() => chosen.rows.forEach((node, at) => {
    const y = track.top + at * track.each + track.each / 2;
    ctx.fillStyle = C.line;
    ctx.fillRect(xOf(0), Math.round(y), xOf(END) - xOf(0), 1);
    let last = -9;
    for (const [op, t] of D.snapshots[node]) {
      const x = xOf(t);
      if (x < LEFT || x > W || x - last < 5) continue;
      last = x;
      const [sign, colour] = SNAPSHOT[op] || ["?", "bad"];
      ctx.fillStyle = colour === "link" ? nodeColour(node) : C[colour];
      ctx.fillText(sign, x - 4, y);
    }
  }), track.top, track.height);
}

// ok fills the height, fail the lower two thirds, info is hollow: told apart without colour.
function paintOp(i, y, high) {
  const x0 = xOf(OPS.start[i]), wide = Math.max(1.5, xOf(OPS.end[i]) - x0), outcome = OPS.outcome[i];
  ctx.fillStyle = C.outcome[outcome];
  if (outcome === INFO && wide > 4 && high > 4) {
    ctx.globalAlpha = 0.25;
    ctx.fillRect(x0, y, wide, high);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = C.info;
    ctx.strokeRect(x0 + 0.5, y + 0.5, wide - 1, high - 1);
  } else {
    const cut = outcome === FAIL && high > 4 ? Math.round(high / 3) : 0;
    ctx.fillRect(x0, y + cut, wide > 4 ? wide - 0.75 : wide, high - cut);
  }
  if (wide > 26 && high > 9) paintValue(i, x0, wide, y + high / 2 + (outcome === FAIL ? high / 6 : 0.5));
}

// What a wide bar did: the key, what was written, what came back.
function paintValue(i, x0, wide, y) {
  const value = valueText(OPS.value[i], i), result = valueText(OPS.result[i], i);
  if (value === null || result === null) { readTexts(i).then(redraw); return; }
  const answer = result === value || result === "" ? "" : ` → ${result}`;
  const left = Math.max(x0, LEFT) + 3, room = Math.min(x0 + wide, W) - left - 3;
  const text = [`${OPS.f(i)} ${OPS.key(i)} ${value}${answer}`, `${value}${answer}`].find((each) => ctx.measureText(each).width <= room);
  if (!text || !text.trim()) return;
  ctx.fillStyle = OPS.outcome[i] === INFO ? C.ink : C["on-leader"];
  ctx.fillText(text.replace(/  +/g, " "), left, y);
}

// More ops than pixels: per two pixels the shares of fail and info, never thinner than visible.
function paintDense(lane, y, high) {
  let from = lowerStart(lane.ids, view.t0);
  for (let x = LEFT; x < W; x += 2) {
    const to = lowerStart(lane.ids, tOf(x + 2)), n = to - from;
    if (n > 0) {
      const fails = lane.fails[to] - lane.fails[from], infos = lane.infos[to] - lane.infos[from];
      const part = (k) => (k ? Math.max(high / 4, (high * k) / n) : 0);
      const f = part(fails), u = part(infos);
      ctx.fillStyle = C.ok;
      if (fails + infos < n) ctx.fillRect(x, y, 2, high);
      ctx.fillStyle = C.fail;
      if (f) ctx.fillRect(x, y + high - f, 2, f);
      ctx.fillStyle = C.info;
      if (u) ctx.fillRect(x, y, 2, u);
    }
    from = to;
  }
}
