// grid.js: ops counted per bin of time, for pictures of more ops than there are pixels.
// A grid has `bins` bins of `by` µs from `t0` on; `lanes` counts by [client][outcome][bin of the
// start], `cloud` by [outcome][row of latency][bin].

const FINEST = 8192; // bins over the whole run
const CELLS_MAX = 6e6;

function countOps(ids, from, to, t0, by, bins) {
  const lanes = new Uint32Array(OPS.lanes * 3 * bins), cloud = new Uint32Array(3 * LATENCY_ROWS * bins);
  const { start, lane, outcome, row } = OPS;
  for (let j = from; j < to; j++) {
    const i = ids[j], at = Math.min(bins - 1, Math.max(0, Math.floor((start[i] - t0) / by)));
    lanes[(lane[i] * 3 + outcome[i]) * bins + at]++;
    if (row[i] !== NO_ROW) cloud[(outcome[i] * LATENCY_ROWS + row[i]) * bins + at]++;
  }
  return { bins, by, t0, lanes, cloud };
}

// The same counts in bins twice as long.
function halved(grid) {
  const pairs = (from) => {
    const out = new Uint32Array(from.length / 2);
    for (let i = 0; i < out.length; i++) out[i] = from[2 * i] + from[2 * i + 1];
    return out;
  };
  return { bins: grid.bins / 2, by: grid.by * 2, t0: grid.t0, lanes: pairs(grid.lanes), cloud: pairs(grid.cloud) };
}

// Grids of the whole run, each half as fine as the one before.
function pyramid() {
  if (!chosen.whole) {
    let bins = FINEST;
    while (bins > 512 && (OPS.lanes + LATENCY_ROWS) * 3 * bins > CELLS_MAX) bins /= 2;
    const finest = OPS.loaded < OPS.n ? coarse : countOps(chosen.ids, 0, chosen.ids.length, 0, END / bins, bins);
    chosen.whole = finest ? [finest] : [];
  }
  return chosen.whole;
}

// Counts for the visible window in bins of 1.5 to 3 pixels: from the pyramid where that is fine
// enough, else of the ops in the window.
function windowGrid() {
  const { t0, t1 } = view, last = chosen.last;
  if (last && last.t0 === t0 && last.t1 === t1 && last.W === W) return last.grid; // two lanes draw it
  chosen.last = { t0, t1, W, grid: makeWindowGrid() };
  return chosen.last.grid;
}

function makeWindowGrid() {
  const levels = pyramid(), us = (view.t1 - view.t0) / (W - LEFT); // per pixel
  if (!levels.length) return null;
  if (levels[0].by <= 3 * us || OPS.loaded < OPS.n) {
    let at = 0;
    while (levels[at].by < 1.5 * us && levels[at].bins > 64) {
      if (!levels[at + 1]) levels.push(halved(levels[at]));
      at++;
    }
    return levels[at];
  }
  const by = 2 * us, t0 = Math.floor(view.t0 / by) * by, bins = Math.ceil((view.t1 - t0) / by) + 1;
  return countOps(chosen.ids, lowerStart(chosen.ids, t0), lowerStart(chosen.ids, t0 + bins * by), t0, by, bins);
}

// ------------------------------------------------------------------ counts as pictures

const sheet = document.createElement("canvas");

// Paints `rows` by the bins of a grid that are in view, with `colour(row, bin)` as 0xAABBGGRR,
// stretched over the plot from `top` on.
function paintCells(grid, rows, top, height, paint) {
  const first = Math.max(0, Math.floor((view.t0 - grid.t0) / grid.by));
  const last = Math.min(grid.bins, Math.ceil((view.t1 - grid.t0) / grid.by));
  if (last <= first) return;
  const wide = last - first, pen = sheet.getContext("2d");
  if (sheet.width < wide || sheet.height < rows) {
    sheet.width = Math.max(sheet.width, wide);
    sheet.height = Math.max(sheet.height, rows);
  }
  const image = new ImageData(wide, rows);
  paint(new Uint32Array(image.data.buffer), wide, first);
  pen.putImageData(image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  const x0 = xOf(grid.t0 + first * grid.by), x1 = xOf(grid.t0 + last * grid.by);
  ctx.drawImage(sheet, 0, 0, wide, rows, x0, top, x1 - x0, height);
}

// A colour as a pixel; alpha from 0 to 1.
function pixel(colour, alpha = 1) {
  const n = parseInt(colour.slice(1), 16);
  return ((Math.round(alpha * 255) << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
}

// Thousands of points: the darker the more; the rarer outcomes lie on top, none of them is hidden.
function paintCloud(track, grid) {
  const { bins, cloud } = grid;
  if (!grid.most) { // of ok
    grid.most = 1;
    for (let at = 0; at < LATENCY_ROWS * bins; at++) if (cloud[at] > grid.most) grid.most = cloud[at];
  }
  const shades = Array.from({ length: 16 }, (_, k) => pixel(C.ok, 0.3 + (0.7 * k) / 15));
  const shade = 15 / Math.log2(1 + grid.most), rare = [pixel(C.fail), pixel(C.info)];
  paintCells(grid, LATENCY_ROWS, track.top + 4, track.height - 8, (pixels, wide, first) => {
    for (let row = 0; row < LATENCY_ROWS; row++) {
      const out = (LATENCY_ROWS - 1 - row) * wide;
      for (let x = 0; x < wide; x++) {
        const at = row * bins + first + x;
        if (cloud[2 * LATENCY_ROWS * bins + at]) pixels[out + x] = rare[1];
        else if (cloud[LATENCY_ROWS * bins + at]) pixels[out + x] = rare[0];
        else if (cloud[at]) pixels[out + x] = shades[Math.round(Math.log2(1 + cloud[at]) * shade)];
      }
    }
  });
}

// Per client and bin the shares of fail (below) and info (above), never thinner than visible.
function paintCrowd(track, grid) {
  const { bins, lanes } = grid, each = track.each, high = Math.max(2, each - (each > 6 ? 3 : 1));
  const colours = [C.ok, C.fail, C.info].map((colour) => pixel(colour));
  paintCells(grid, track.height, track.top, track.height, (pixels, wide, first) => {
    chosen.clients.forEach((client, row) => {
      const base0 = client * 3 * bins + first;
      for (let x = 0; x < wide; x++) {
        const ok = lanes[base0 + x], fail = lanes[base0 + bins + x], info = lanes[base0 + 2 * bins + x], n = ok + fail + info;
        if (!n) continue;
        const f = fail ? Math.max(high / 4, (high * fail) / n) : 0, u = info ? Math.max(high / 4, (high * info) / n) : 0;
        for (let y = 0; y < high; y++) {
          if (y < u) pixels[(row * each + y) * wide + x] = colours[2];
          else if (high - y <= f) pixels[(row * each + y) * wide + x] = colours[1];
          else if (ok) pixels[(row * each + y) * wide + x] = colours[0];
        }
      }
    });
  });
}
