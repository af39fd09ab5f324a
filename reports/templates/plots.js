// plots.js: high watermark, throughput and latency over the same window.

function gutter(text, y) {
  ctx.fillStyle = C.dim;
  ctx.textAlign = "right";
  ctx.fillText(text, LEFT - 5, y);
  ctx.textAlign = "left";
}

// Value of a step line at time t; null before its first point.
function stepAt(line, t) {
  const at = lower(line.t, t + 0.001) - 1;
  return at < 0 ? null : line.v[at];
}

function hwmRange() {
  let low = Infinity, high = -Infinity;
  for (const node of chosen.rows) {
    const line = D.hwm[node];
    const first = Math.max(0, lower(line.t, view.t0) - 1), last = Math.min(line.t.length, lower(line.t, view.t1));
    for (let i = first; i < last; i++) { low = Math.min(low, line.v[i]); high = Math.max(high, line.v[i]); }
  }
  if (low === Infinity) return null;
  return high > low ? [low, high] : [low - 1, high + 1];
}

function paintHwm(track) {
  const range = hwmRange();
  if (!range) return;
  const [low, high] = range, top = track.top + 4, tall = track.height - 8;
  const yOf = (v) => top + tall - ((v - low) / (high - low)) * tall;
  gutter(number(high), top + 22);
  gutter(number(low), top + tall - 3);
  inPlot(() => chosen.rows.forEach((node) => {
    const line = D.hwm[node];
    if (!line.t.length) return;
    ctx.strokeStyle = nodeColour(node);
    ctx.lineWidth = 1.25;
    ctx.setLineDash(D.observers[node] ? [4, 3] : []);
    ctx.beginPath();
    const first = Math.max(0, lower(line.t, view.t0) - 1);
    ctx.moveTo(xOf(line.t[first]), yOf(line.v[first]));
    for (let i = first + 1; i < line.t.length; i++) {
      ctx.lineTo(xOf(line.t[i]), yOf(line.v[i - 1]));
      ctx.lineTo(xOf(line.t[i]), yOf(line.v[i]));
      if (line.t[i] > view.t1) break;
    }
    ctx.stroke();
  }), track.top, track.height);
  ctx.setLineDash([]);
  ctx.lineWidth = 1;
}

// Bins of at least 100 ms: in shorter ones a rate is a matter of luck.
const rateStep = () => Math.max(100000, nice((view.t1 - view.t0) / ((W - LEFT) / 5)));

// Completions per bin and outcome, in the visible window.
function rateBins() {
  const by = rateStep(), first = Math.floor(view.t0 / by), n = Math.ceil(view.t1 / by) - first + 1;
  const counts = [new Float64Array(n), new Float64Array(n), new Float64Array(n)];
  for (let j = lower(chosen.ends, first * by); j < chosen.done.length && chosen.ends[j] < (first + n) * by; j++) {
    counts[OPS.outcome[chosen.done[j]]][Math.floor(chosen.ends[j] / by) - first]++;
  }
  let most = 0;
  for (let b = 0; b < n; b++) most = Math.max(most, counts[0][b] + counts[1][b] + counts[2][b]);
  return { by, first, n, counts, most };
}

function paintRate(track) {
  const { by, first, n, counts, most } = rateBins();
  if (!most) return;
  const top = track.top + 4, tall = track.height - 6, perS = (k) => (k * 1e6) / by;
  gutter(number(Math.round(perS(most))), top + 22);
  gutter("0", top + tall - 3);
  inPlot(() => {
    for (let b = 0; b < n; b++) {
      const x0 = xOf((first + b) * by), wide = Math.max(1, xOf((first + b + 1) * by) - x0 - 0.5);
      let y = top + tall;
      for (const outcome of [OK, FAIL, INFO]) {
        const high = (counts[outcome][b] / most) * tall;
        ctx.fillStyle = C.outcome[outcome];
        if (high) ctx.fillRect(x0, y - high, wide, high);
        y -= high;
      }
    }
  }, track.top, track.height);
}

// The decades that all latencies of the run lie in, so that panning does not move the scale.
const LATENCY = (() => {
  let low = Infinity, high = 0;
  for (let i = 0; i < OPS.n; i++) {
    if (OPS.open(i)) continue;
    const us = Math.max(1, OPS.end[i] - OPS.start[i]);
    low = Math.min(low, us);
    high = Math.max(high, us);
  }
  if (!high) return [1, 10];
  const from = 10 ** Math.floor(Math.log10(low)), to = 10 ** Math.ceil(Math.log10(high));
  return [from, to > from ? to : from * 10];
})();

function latencyY(track, us) {
  const top = track.top + 4, tall = track.height - 8, [low, high] = LATENCY;
  return top + tall - (Math.log(Math.max(low, us) / low) / Math.log(high / low)) * tall;
}

function paintLatency(track) {
  let above = -99;
  for (let us = LATENCY[0]; us <= LATENCY[1] * 1.01; us *= 10) {
    const y = latencyY(track, us);
    ctx.fillStyle = C.line;
    ctx.fillRect(LEFT, Math.round(y), W - LEFT, 1);
    if (y - track.top > 20 && Math.abs(y - above) > 12) {
      gutter(us >= 1e6 ? us / 1e6 + " s" : us >= 1000 ? us / 1000 + " ms" : us + " µs", Math.min(y, track.top + track.height - 6));
      above = y;
    }
  }
  const first = lower(chosen.starts, view.t0), last = lower(chosen.starts, view.t1);
  inPlot(() => (last - first > 6000 ? paintCloud : paintPoints)(track, first, last), track.top, track.height);
}

// ok is a dot, fail a cross, info a triangle.
function paintPoints(track, first, last) {
  const size = last - first > 1500 ? 1.5 : 2.2;
  for (let j = first; j < last; j++) {
    const i = chosen.ids[j];
    if (OPS.open(i)) continue;
    const x = xOf(OPS.start[i]), y = latencyY(track, OPS.end[i] - OPS.start[i]);
    ctx.fillStyle = ctx.strokeStyle = C.outcome[OPS.outcome[i]];
    if (OPS.outcome[i] === OK) ctx.fillRect(x - size / 2, y - size / 2, size, size);
    else if (OPS.outcome[i] === FAIL) {
      ctx.beginPath();
      ctx.moveTo(x - 2.5, y - 2.5); ctx.lineTo(x + 2.5, y + 2.5);
      ctx.moveTo(x - 2.5, y + 2.5); ctx.lineTo(x + 2.5, y - 2.5);
      ctx.stroke();
    } else {
      ctx.beginPath();
      ctx.moveTo(x, y - 3); ctx.lineTo(x + 3, y + 2.5); ctx.lineTo(x - 3, y + 2.5);
      ctx.fill();
    }
  }
}

// Thousands of points: counted per cell of 2 by 2 pixels, the darker the more; the rarer
// outcomes are painted last so that none of them is hidden.
function paintCloud(track, first, last) {
  const cols = Math.ceil((W - LEFT) / 2) + 1, rows = Math.ceil(track.height / 2) + 1;
  const cells = [OK, FAIL, INFO].map(() => new Uint32Array(cols * rows));
  for (let j = first; j < last; j++) {
    const i = chosen.ids[j];
    if (OPS.open(i)) continue;
    const col = Math.max(0, Math.floor((xOf(OPS.start[i]) - LEFT) / 2));
    const row = Math.max(0, Math.floor((latencyY(track, OPS.end[i] - OPS.start[i]) - track.top) / 2));
    cells[OPS.outcome[i]][row * cols + Math.min(col, cols - 1)]++;
  }
  for (const outcome of [OK, FAIL, INFO]) {
    ctx.fillStyle = C.outcome[outcome];
    const grid = cells[outcome];
    for (let at = 0; at < grid.length; at++) {
      if (!grid[at]) continue;
      ctx.globalAlpha = outcome === OK ? Math.min(1, 0.35 + 0.15 * grid[at]) : 1;
      ctx.fillRect(LEFT + (at % cols) * 2, track.top + Math.floor(at / cols) * 2, 2, 2);
    }
  }
  ctx.globalAlpha = 1;
}
