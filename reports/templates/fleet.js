// fleet.js: the table of runs (filter by verdict and words, sort, a page at a time), and tables
// that are in the document and only have to be sorted.

const PAGE = matchMedia("(max-width: 640px)").matches ? 25 : 200; // cards are long
const MARK = { valid: "✓", invalid: "✗", unknown: "?", broken: "!", unjudged: "·" };
const WORST = Object.fromEntries(["invalid", "broken", "unknown", "unjudged", "valid"].map((word, n) => [word, n]));
const D = JSON.parse($("data").textContent);
const BEGAN = 0, VERDICT = 1, RUN_OF = 2, OPS = 5, LINK = D.columns.length - 1, NUMBERS = new Set([3, OPS]);
const words = D.rows.map((row) => [D.said[row[VERDICT]], ...row.slice(0, LINK)].join(" ").toLowerCase());
const shown = new Set(D.rows.map((row) => row[VERDICT]));
let found = [], at = 0, sort = [BEGAN, -1]; // the latest first, as they come

const order = (x, y) => typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });

function cell(row, column) {
  const td = document.createElement("td");
  td.dataset.label = D.columns[column];
  if (column === LINK) {
    const a = document.createElement("a");
    a.href = row[LINK];
    a.textContent = "report";
    td.append(a);
  } else if (column === VERDICT) {
    const span = document.createElement("span");
    span.className = `verdict ${row[VERDICT]}`;
    span.textContent = `${MARK[row[VERDICT]]} ${D.said[row[VERDICT]]}`;
    td.append(span);
  } else {
    td.textContent = typeof row[column] === "number" && column === OPS ? row[column].toLocaleString("en") : row[column];
    if (NUMBERS.has(column)) td.className = "num";
    if (column === RUN_OF) td.className = "name";
  }
  return td;
}

function more() {
  const body = $("table").tBodies[0];
  for (const index of found.slice(at, at + PAGE)) {
    const tr = document.createElement("tr");
    for (let column = 0; column <= LINK; column++) tr.append(cell(D.rows[index], column));
    body.append(tr);
  }
  at = Math.min(at + PAGE, found.length);
  $("more").hidden = at >= found.length;
  $("window").textContent = `${at.toLocaleString("en")} of ${found.length.toLocaleString("en")} shown`;
}

function compare(a, b) {
  const [column, sign] = sort, value = (n) => column === VERDICT ? WORST[D.rows[n][VERDICT]] : D.rows[n][column];
  return sign * order(value(a), value(b)) || a - b;
}

function again() {
  const wanted = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  found = [];
  for (let n = 0; n < D.rows.length; n++) {
    if (shown.has(D.rows[n][VERDICT]) && wanted.every((word) => words[n].includes(word))) found.push(n);
  }
  found.sort(compare);
  $("table").tBodies[0].replaceChildren();
  at = 0;
  more();
}

function showSort(row, column, sign) {
  for (const th of row.cells) th.removeAttribute("aria-sort");
  row.cells[column].setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
}

// A heading becomes a button: Tab finds it, Enter, Space and a click sort by its column.
function sortButton(th, change) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...th.childNodes);
  th.append(button);
  button.addEventListener("click", () => {
    const sign = th.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    showSort(th.parentElement, th.cellIndex, sign);
    change(th.cellIndex, sign);
  });
}

function head() {
  const row = $("table").tHead.rows[0], choice = $("sort-by");
  D.columns.forEach((name, column) => {
    const th = document.createElement("th");
    if (NUMBERS.has(column)) th.className = "num";
    row.append(th);
    if (column === LINK) return;
    th.textContent = name;
    sortButton(th, (...by) => {
      sort = by;
      choice.value = by.join();
      again();
    });
    for (const [sign, how] of [[1, "up"], [-1, "down"]]) choice.append(new Option(`${name}, ${how}`, `${column},${sign}`));
  });
  choice.value = sort.join();
  choice.addEventListener("change", () => {
    sort = choice.value.split(",").map(Number);
    showSort(row, ...sort);
    again();
  });
  showSort(row, ...sort);
}

function sortable(table) {
  const body = table.tBodies[0], rows = [...body.rows];
  const value = (row, column) => {
    const td = row.cells[column];
    return td.dataset.sort === undefined ? td.textContent : Number(td.dataset.sort);
  };
  for (const th of table.tHead.rows[0].cells) {
    sortButton(th, (column, sign) => {
      rows.sort((a, b) => sign * order(value(a, column), value(b, column)));
      body.append(...rows);
    });
  }
}

for (const button of document.querySelectorAll("button.copy")) copyButton(button);
for (const table of document.querySelectorAll("table.sortable")) sortable(table);
for (const button of document.querySelectorAll("#by-verdict button")) {
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    if (on) shown.add(button.dataset.verdict); else shown.delete(button.dataset.verdict);
    again();
  });
}
if (D.rows.length) {
  $("find").addEventListener("input", again);
  $("more").addEventListener("click", more);
  document.querySelector("#runs .tools").hidden = false;
  $("table").hidden = false;
  head();
  again();
}
