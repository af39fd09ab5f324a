// table.js: the ops in view as rows; only those that can be seen are in the document.

const ROW = 22, SPACE_MAX = 8e6; // px; a browser draws no box of any height
const COLUMNS = [["op", 6], ["time", 8], ["client", 5], ["process", 6], ["f", 6], ["key", 6], ["value", 12], ["result", 12],
  ["outcome", 6], ["latency", 7], ["error", 14], ["node", 5]];
const rowsScroll = $("rows-scroll"), rowsBody = $("rows-body");
let rowsFirst = 0, rowsCount = 0;

function cells(texts, kind) {
  const row = document.createElement("div");
  row.className = "row " + kind;
  row.setAttribute("role", "row");
  texts.forEach((text, at) => {
    const cell = document.createElement("span");
    cell.textContent = text;
    cell.title = text;
    cell.setAttribute("role", kind === "head" ? "columnheader" : "gridcell");
    cell.style.flex = `${COLUMNS[at][1]} 0 0`;
    row.append(cell);
  });
  return row;
}

function rowOf(i) {
  const value = valueText(OPS.value[i], i), result = valueText(OPS.result[i], i), outcome = OUTCOMES[OPS.outcome[i]];
  if (value === null || result === null) readTexts(i).then(tableSoon);
  const row = cells([String(OPS.index[i]), time(OPS.start[i], 1), String(OPS.lane[i]), OPS.process(i), OPS.f(i), OPS.key(i),
    value ?? "…", result ?? "…", outcome, OPS.open(i) ? "open" : span(OPS.end[i] - OPS.start[i]), OPS.error(i), OPS.node(i)], outcome);
  row.dataset.at = i;
  row.classList.toggle("pinned", Boolean(pinned && pinned.op === i));
  return row;
}

// The rows of the window, of which those at the scroll position are made.
function paintTable() {
  rowsFirst = lowerStart(chosen.ids, view.t0);
  rowsCount = lowerStart(chosen.ids, view.t1) - rowsFirst;
  $("rows-title").textContent = `${number(rowsCount)} of ${number(OPS.n)} ops in view`;
  const space = Math.min(rowsCount * ROW, SPACE_MAX);
  $("rows-space").style.height = space + "px"; // the box is as high as its rows, up to its limit
  const seen = rowsScroll.clientHeight - ROW;
  const fit = Math.ceil(seen / ROW) + 1;
  const share = Math.min(1, rowsScroll.scrollTop / Math.max(1, space - seen));
  const exact = space === rowsCount * ROW ? rowsScroll.scrollTop / ROW : share * Math.max(0, rowsCount - seen / ROW);
  const first = Math.max(0, Math.min(Math.floor(exact), rowsCount - fit));
  rowsBody.style.transform = `translateY(${Math.min(Math.max(0, space - Math.min(fit, rowsCount) * ROW), rowsScroll.scrollTop - (exact - Math.floor(exact)) * ROW)}px)`;
  const rows = [];
  for (let k = first; k < Math.min(first + fit, rowsCount); k++) rows.push(rowOf(chosen.ids[rowsFirst + k]));
  rowsBody.replaceChildren(...rows);
}

let tableAsked = 0;
function tableSoon() { // not in each frame of a drag
  if (tableAsked) return;
  tableAsked = setTimeout(() => { tableAsked = 0; paintTable(); }, 60);
}

function startTable() {
  $("rows-head").replaceChildren(cells(COLUMNS.map(([name]) => name), "head"));
  rowsScroll.addEventListener("scroll", paintTable);
  rowsBody.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) showOp(Number(row.dataset.at));
  });
}

// Pins an op, and moves the window only when it lies outside of it.
function showOp(i) {
  if (OPS.start[i] < view.t0 || OPS.start[i] > view.t1) {
    const wide = view.t1 - view.t0;
    show(OPS.start[i] - wide / 2, OPS.start[i] + wide / 2);
  }
  pin(sayOp(i));
  tableSoon();
}

// The op before or after the pinned one of the same client; the first in view when none is pinned.
function besides(by) {
  if (!pinned || pinned.op === undefined) {
    const first = lowerStart(chosen.ids, view.t0);
    if (first < chosen.ids.length) showOp(chosen.ids[first]);
    return;
  }
  const lane = chosen.lanes[chosen.clients.indexOf(OPS.lane[pinned.op])];
  const next = lane ? lane.ids[lane.ids.indexOf(pinned.op) + by] : undefined;
  if (next !== undefined) showOp(next);
}
