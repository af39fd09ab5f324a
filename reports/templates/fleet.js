// fleet.js: the table of runs: filter by verdict and words, sort by column, a page at a time.

const PAGE = 200;
const MARK = { valid: "✓", invalid: "✗", unknown: "?", broken: "!", unjudged: "·" };
const D = JSON.parse($("data").textContent);
const LINK = D.columns.length - 1, NUMBERS = new Set([3, 5]);
const words = D.rows.map((row) => row.slice(0, LINK).join(" ").toLowerCase());
const shown = new Set(D.rows.map((row) => row[1]));
let found = [], at = 0, sort = null;

function cell(row, column) {
  const td = document.createElement("td");
  if (column === LINK) {
    const a = document.createElement("a");
    a.href = row[LINK];
    a.textContent = "report";
    td.append(a);
  } else if (column === 1) {
    const span = document.createElement("span");
    span.className = `verdict ${row[1]}`;
    span.textContent = `${MARK[row[1]]} ${row[1]}`;
    td.append(span);
  } else {
    td.textContent = typeof row[column] === "number" && column === 5 ? row[column].toLocaleString("en") : row[column];
    if (NUMBERS.has(column)) td.className = "num";
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
  const [column, sign] = sort, x = D.rows[a][column], y = D.rows[b][column];
  const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
  return sign * order || a - b;
}

function again() {
  const wanted = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  found = [];
  for (let n = 0; n < D.rows.length; n++) {
    if (shown.has(D.rows[n][1]) && wanted.every((word) => words[n].includes(word))) found.push(n);
  }
  if (sort) found.sort(compare);
  $("table").tBodies[0].replaceChildren();
  at = 0;
  more();
}

function head() {
  const row = $("table").tHead.rows[0];
  D.columns.forEach((name, column) => {
    const th = document.createElement("th"), button = document.createElement("button");
    if (NUMBERS.has(column)) th.className = "num";
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => {
      const down = sort && sort[0] === column && sort[1] === 1;
      sort = [column, down ? -1 : 1];
      for (const other of row.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      again();
    });
    if (column === LINK) th.textContent = ""; else th.append(button);
    row.append(th);
  });
}

for (const button of document.querySelectorAll("button.copy")) copyButton(button);
for (const button of document.querySelectorAll("#by-verdict button")) {
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    if (on) shown.add(button.dataset.verdict); else shown.delete(button.dataset.verdict);
    again();
  });
}
$("find").addEventListener("input", again);
$("more").addEventListener("click", more);
if (D.rows.length) {
  document.querySelector("#runs .tools").hidden = false;
  $("table").hidden = false;
  head();
  again();
}
