// blocks.js: reads the streams of the page: deflated byte planes, as reports/columns.py writes them.

function bytesOf(base64) {
  const text = atob(base64), out = new Uint8Array(text.length);
  for (let i = 0; i < out.length; i++) out[i] = text.charCodeAt(i);
  return out;
}

async function inflate(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The next column of `n` integers: `planes` planes from `at` on.
function unpack(bytes, at, n, planes) {
  const out = new Float64Array(n);
  for (let k = planes - 1; k >= 0; k--) {
    const from = at + k * n;
    for (let i = 0; i < n; i++) out[i] = out[i] * 256 + bytes[from + i];
  }
  return out;
}

const unzigzag = (z) => (z % 2 ? -(z + 1) / 2 : z / 2);

async function readBlock(number, first) {
  const { n, w } = D.ops.blocks[number], bytes = await inflate($("ops-" + number).textContent);
  let at = 0;
  const [t, index, ended, lasts, ...rest] = w.map((planes) => {
    const column = unpack(bytes, at, n, planes);
    at += n * planes;
    return column;
  });
  let start = first ? OPS.start[first - 1] : 0, id = first ? OPS.index[first - 1] : 0;
  for (let j = 0, i = first; j < n; j++, i++) {
    OPS.start[i] = start += t[j];
    OPS.index[i] = id += unzigzag(index[j]);
    OPS.ended[i] = id + unzigzag(ended[j]);
    OPS.end[i] = lasts[j] ? start + lasts[j] - 1 : Math.max(D.end, start);
    OPS.row[i] = lasts[j] ? latencyRow(lasts[j] - 1) : NO_ROW;
    OPS.lane[i] = D.ops.lanes[rest[1][j]];
  }
  [OPS.outcome, OPS.processAt, OPS.fAt, OPS.keyAt, OPS.nodeAt, OPS.errorAt, OPS.value, OPS.result]
    .forEach((column, k) => column.set(rest[k], first));
  OPS.loaded = first + n;
}

// All of them, a block at a time: the page answers in between.
async function readBlocks() {
  let first = 0;
  for (let number = 0; number < D.ops.blocks.length; number++) {
    await readBlock(number, first);
    first = OPS.loaded;
  }
}

// The coarse counts that stand until then.
async function readOverview() {
  const { bins, by, lanes, cloud, rate } = D.ops.overview;
  const counts = async ([planes, base64], n) => Uint32Array.from(unpack(await inflate(base64), 0, n, planes));
  return {
    bins, by, t0: 0,
    lanes: await counts(lanes, OPS.lanes * 3 * bins),
    cloud: await counts(cloud, 3 * LATENCY_ROWS * bins),
    rate: await counts(rate, 3 * RATE_BINS),
  };
}

// ------------------------------------------------------------------ texts of values, when asked for

const TEXTS = new Map(); // block: its texts, or the promise of them
const blockOf = (i) => Math.floor(i / D.ops.blocks[0].n);

// What a value says; null when its text has to be read first.
function valueText(code, i) {
  if (code === NOTHING) return "";
  if (code % 4 === NUMBER) return String((code - 1) / 4);
  if (code === SAME) return valueText(OPS.value[i], i);
  const texts = TEXTS.get(blockOf(i));
  return Array.isArray(texts) ? texts[(code - 3) / 4] : null;
}

// Reads the texts of an op's block; resolves when they are there.
function readTexts(i) {
  const number = blockOf(i);
  if (!TEXTS.has(number)) {
    TEXTS.set(number, inflate($("texts-" + number).textContent).then((bytes) => {
      TEXTS.set(number, JSON.parse(new TextDecoder().decode(bytes)));
    }));
  }
  return Promise.resolve(TEXTS.get(number));
}
