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
    let drawn = -99;
    for (let i = first + 1; i < line.t.length; i++) {
      const x = xOf(line.t[i]), falls = line.v[i] < line.v[i - 1] || line.v[i + 1] < line.v[i];
      if (x - drawn < 1 && !falls && i + 1 < line.t.length && line.t[i] <= view.t1) continue; // more than pixels
      drawn = x;
      ctx.lineTo(xOf(line.t[i]), yOf(line.v[i - 1]));
      ctx.lineTo(xOf(line.t[i]), yOf(line.v[i]));
      if (line.t[i] > view.t1) break;
    }
    ctx.stroke();
  }), track.top, track.height);
  ctx.setLineDash([]);
  ctx.lineWidth = 1;
}

const rateStep = () => Math.max(RATE_STEP, nice((view.t1 - view.t0) / ((W - LEFT) / 5)));

// Completions per bin and outcome, in the visible window: sums of the finest bins.
function rateBins() {
  const by = rateStep(), first = Math.floor(view.t0 / by), n = Math.ceil(view.t1 / by) - first + 1;
  const counts = [new Float64Array(n), new Float64Array(n), new Float64Array(n)], each = Math.round(by / RATE_STEP);
  const last = Math.min(RATE_BINS, (first + n) * each);
  for (let at = Math.max(0, first * each); at < last; at++) {
    const b = Math.floor(at / each) - first;
    for (let o = 0; o < 3; o++) counts[o][b] += chosen.rate[o * RATE_BINS + at];
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
  const grid = inView() > FEW || OPS.loaded < OPS.n ? windowGrid() : null;
  inPlot(() => {
    if (grid) paintCloud(track, grid);
    else paintPoints(track, lowerStart(chosen.ids, view.t0), lowerStart(chosen.ids, view.t1));
  }, track.top, track.height);
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
