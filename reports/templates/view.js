// view.js: the visible window, where each track lies, colours, and how times are written.

const END = Math.max(D.end, 1);
const NARROWEST = 50; // µs
const plot = document.getElementById("plot");
const base = document.getElementById("base"), over = document.getElementById("over");
const view = { t0: 0, t1: END };
let W = 0, H = 0, LEFT = 0, tracks = [], C = {};

const MARGIN = END * 0.01;
const xOf = (t) => LEFT + ((t - view.t0) / (view.t1 - view.t0)) * (W - LEFT);
const tOf = (x) => view.t0 + ((x - LEFT) / (W - LEFT)) * (view.t1 - view.t0);

function show(t0, t1) {
  const full = END + 2 * MARGIN;
  const width = Math.min(full, Math.max(NARROWEST, t1 - t0));
  const middle = (t0 + t1) / 2;
  const first = Math.min(Math.max(middle - width / 2, -MARGIN), END + MARGIN - width);
  view.t0 = first;
  view.t1 = first + width;
  redraw();
}
const showAll = () => show(-MARGIN, END + MARGIN);
const pan = (share) => { const by = (view.t1 - view.t0) * share; show(view.t0 + by, view.t1 + by); };

// Zooms by `factor` (< 1 is in), keeping the time at `x` where it is.
function zoom(factor, x = (W + LEFT) / 2) {
  const width = view.t1 - view.t0, full = END + 2 * MARGIN;
  const next = Math.min(full, Math.max(NARROWEST, width * factor));
  const at = tOf(Math.max(LEFT, Math.min(W, x)));
  const t0 = at - (at - view.t0) * (next / width);
  show(t0, t0 + next);
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  C = { font: "11px " + getComputedStyle(document.body).fontFamily };
  for (const name of ["bg", "panel", "ink", "dim", "line", "ok", "fail", "info", "bad", "good", "maybe", "band",
    "edge", "hover", "link", "follower", "candidate", "prospective", "unattached", "resigned",
    "observer", "starting", "on-leader", "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"]) {
    C[name] = style.getPropertyValue("--" + name).trim();
  }
  C.outcome = [C.ok, C.fail, C.info];
}
const NODE_COLOURS = 9;
const nodeColour = (node) => C["n" + (node % NODE_COLOURS)];

// Stacks the tracks; every track has a name, a top, a height and (rows) a row height.
function layout() {
  const narrow = plot.clientWidth < 640;
  W = plot.clientWidth;
  LEFT = narrow ? 58 : 92;
  const rows = chosen.rows.length, row = rows > 12 ? 14 : 20;
  const each = chosen.clients.length > 60 ? 4 : chosen.clients.length > 24 ? 7 : chosen.clients.length > 12 ? 11 : 15;
  const wanted = [
    ["axis", 24],
    D.anomalies.length && ["anomalies", 18],
    D.faults.length && ["faults", Math.max(1, FAULT_ROWS) * 16, 16],
    REIGNS.spans.length && ["leader", Math.max(1, REIGNS.rows) * 17, 17],
    D.roles.some((spans) => spans.length) && rows && ["roles", rows * row, row],
    D.hwm.some((line) => line.t.length) && rows && ["hwm", narrow ? 60 : 72],
    D.snapshots.some((marks) => marks.length) && rows && ["snapshots", rows * 11, 11],
    OPS.n && ["rate", narrow ? 56 : 66],
    OPS.n && ["latency", narrow ? 100 : 130],
    OPS.n && ["clients", chosen.clients.length * each, each],
  ].filter(Boolean);
  let top = 0;
  tracks = wanted.map(([name, height, each]) => {
    const track = { name, top, height, each };
    top += height + (name === "axis" ? 2 : 9);
    return track;
  });
  H = top;
  const scale = window.devicePixelRatio || 1;
  for (const canvas of [base, over]) {
    canvas.width = Math.round(W * scale);
    canvas.height = Math.round(H * scale);
    canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
  }
  base.style.height = H + "px";
}
const trackAt = (y) => tracks.find((track) => y >= track.top && y < track.top + track.height);
const trackOf = (name) => tracks.find((track) => track.name === name);

function time(us, step = 1000) {
  const digits = step >= 1e6 ? 0 : step >= 1e5 ? 1 : step >= 1e4 ? 2 : step >= 1000 ? 3 : step >= 10 ? 5 : 6;
  return (us / 1e6).toFixed(digits) + " s";
}
function span(us) {
  if (us >= 1e6) return (us / 1e6).toFixed(us >= 1e7 ? 1 : 2) + " s";
  return us >= 1000 ? (us / 1000).toFixed(us >= 1e5 ? 0 : us >= 1e4 ? 1 : 2) + " ms" : Math.round(us) + " µs";
}
const number = (n) => n.toLocaleString("en-US");

// The smallest of 1, 2, 5 times a power of ten that is >= x.
function nice(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].find((m) => m * power >= x * 0.999) * power;
}

let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}
