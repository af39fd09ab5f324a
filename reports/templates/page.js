// page.js: buttons, keys, pointer, filters, links, printing: everything that the reader does.

function start() {
  for (const button of document.querySelectorAll("button.copy")) copyButton(button);
  for (const link of document.querySelectorAll("a.to-log")) link.addEventListener("click", () => { openTarget(link.hash); });
  openTarget(location.hash);
  window.addEventListener("beforeprint", () => toPaper(true));
  window.addEventListener("afterprint", () => toPaper(false));
  if (!OPS.n && !D.faults.length && !D.roles.some((spans) => spans.length)) {
    $("nothing").hidden = false;
    for (const link of document.querySelectorAll("a.jump")) link.hidden = true;
    return;
  }
  $("stage").hidden = false;
  choose();
  colours();
  layout();
  filters();
  legend();
  tools();
  for (const link of document.querySelectorAll("a.jump")) link.addEventListener("click", (event) => jump(link, event));
  startTable();
  new ResizeObserver(() => { if (!document.documentElement.hasAttribute("data-print")) again(); }).observe(plot);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  showAll();
  readAll();
}

// The ops come after the first picture, which is of coarse counts when they are many.
async function readAll() {
  $("loading").hidden = false;
  try {
    if (D.ops.overview) {
      coarse = await readOverview();
      chooseAgain();
    }
    if (document.readyState === "loading") await new Promise((done) => document.addEventListener("DOMContentLoaded", done));
    await readBlocks();
  } catch (error) {
    $("loading").textContent = `the ops cannot be read: ${error.message}`;
    return;
  }
  chooseAgain();
  $("loading").hidden = true;
  document.documentElement.setAttribute("data-ready", "");
  for (const wish of wishes.splice(0)) wish();
}
const wishes = []; // what has to wait for the ops

function chooseAgain() {
  choose();
  layout();
  draw();
}

function again() {
  colours();
  layout();
  legend();
  draw();
}

let opened = [];
function toPaper(on) {
  document.documentElement.toggleAttribute("data-print", on);
  if (on) opened = [...document.querySelectorAll("details:not([open])")];
  for (const one of opened) one.open = on;
  if (!$("stage").hidden) again();
}

function openTarget(hash) {
  const target = hash.length > 1 ? $(decodeURIComponent(hash.slice(1))) : null;
  for (let e = target && target.closest("details"); e; e = e.parentElement.closest("details")) e.open = true;
}

function toggle(group, name, colour, pressed, change) {
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-pressed", String(pressed));
  if (colour) button.append(swatch(colour));
  button.append(name);
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    change(on);
    chooseAgain();
  });
  group.append(button);
}

function swatch(colour) {
  const box = document.createElement("span");
  box.className = "swatch";
  box.dataset.colour = colour;
  box.style.background = `var(--${colour})`;
  return box;
}

function filters() {
  OUTCOMES.forEach((name, at) => toggle($("outcomes"), name, name, true, (on) => { shown.outcomes[at] = on; }));
  NODES.forEach((name) => {
    const at = D.nodes.indexOf(name);
    toggle($("nodes-shown"), name, at < 0 ? "" : "n" + (at % NODE_COLOURS), true, (on) => { shown.nodes[on ? "add" : "delete"](name); });
  });
  if (D.ops.fs.length > 1) for (const f of D.ops.fs.slice(0, 12)) toggle($("fs"), D.ops.texts[f], "", true, (on) => { shown.fs[on ? "add" : "delete"](f); });
  const client = $("client");
  for (let at = 0; at < OPS.lanes; at++) client.append(new Option(String(at), String(at)));
  client.addEventListener("change", () => { shown.client = client.value === "" ? null : Number(client.value); chooseAgain(); });
  $("key").addEventListener("input", (event) => { shown.key = event.target.value; chooseAgain(); });
}

function legend() {
  const entries = [["ok", "ok: full bar, dot"], ["fail", "fail: low bar, cross"], ["info", "info: hollow bar, triangle"]];
  const seen = new Set();
  D.roles.forEach((spans, node) => spans.forEach(([role]) => seen.add(shownRole(node, role))));
  for (const role of ROLE_COLOUR) if (seen.has(role)) entries.push([role, role]);
  const signs = [];
  for (const [type, [sign]] of Object.entries(MARK)) {
    if (type !== "elected" && D.marks.some((marks) => marks.some((mark) => mark[0] === type))) signs.push(`${sign} ${type}`);
  }
  for (const [op, [sign, , words]] of Object.entries(SNAPSHOT)) {
    if (D.snapshots.some((marks) => marks.some((mark) => mark[0] === op))) signs.push(`${sign} snapshot ${words}`);
  }
  if (seen.has("leader")) signs.push("leader: in its node's colour");
  if (D.faults.length) signs.push("grey bands: faults installed", "dashed: skipped or failed");
  $("legend").replaceChildren(...entries.map(([colour, text]) => {
    const entry = document.createElement("span");
    entry.append(swatch(colour), text);
    return entry;
  }), ...signs.map((text) => { const entry = document.createElement("span"); entry.append(text); return entry; }));
}

function jump(link, event) {
  let t0 = Number(link.dataset.t0) / 1000, t1 = Number(link.dataset.t1) / 1000, found = null;
  if (link.dataset.op !== undefined) {
    if (OPS.loaded < OPS.n) { wishes.push(() => jump(link, event)); return; }
    const index = Number(link.dataset.op);
    for (let i = 0; i < OPS.n && !found; i++) if (OPS.index[i] === index || OPS.ended[i] === index) found = sayOp(i);
    if (!found) { event.preventDefault(); return; }
    [t0, t1] = [found.t0, found.t1];
  }
  if (link.dataset.anomaly !== undefined) {
    const one = D.anomalies.find(([count]) => count === Number(link.dataset.anomaly));
    if (one) found = sayAnomaly(one);
  }
  const room = Math.max((t1 - t0) * 0.5, link.dataset.op !== undefined ? 20000 : 500000);
  show(t0 - room, t1 + room);
  pin(found);
}

function tools() {
  const actions = { in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.25), right: () => pan(0.25), all: showAll };
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", actions[button.dataset.do]);
  const keys = { "+": actions.in, "=": actions.in, "-": actions.out, "_": actions.out, ArrowLeft: actions.left,
    ArrowRight: actions.right, 0: showAll, Home: showAll, Escape: () => pin(null), n: () => besides(1), p: () => besides(-1),
    f: nextFault };
  base.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  $("unpin").addEventListener("click", () => pin(null));
  base.addEventListener("wheel", wheel, { passive: false });
  dragging();
}

// The next fault after the pinned one, or after the left edge; from the last on to the first.
function nextFault() {
  const all = [...D.faults].sort((a, b) => a.t0 - b.t0), from = pinned && pinned.fault !== undefined ? pinned.t0 : view.t0;
  const fault = all.find((one) => one.t0 > from) || all[0];
  if (!fault) return;
  const room = Math.max((fault.t1 - fault.t0) * 0.5, 500000);
  show(fault.t0 - room, fault.t1 + room);
  pin(sayFault(fault));
}

let hintOff = 0;
function wheel(event) {
  if (event.ctrlKey || event.metaKey || document.activeElement === base) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1500);
    else zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) / 300), event.offsetX);
    return;
  }
  $("hint").hidden = false; // a page that scrolls past a picture must not get stuck in it
  clearTimeout(hintOff);
  hintOff = setTimeout(() => { $("hint").hidden = true; }, 1200);
}

function dragging() {
  let from = null;
  base.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = { x: event.offsetX, t0: view.t0, t1: view.t1, moved: false, pans: event.shiftKey || event.pointerType === "touch" };
    base.setPointerCapture(event.pointerId);
    $("hint").hidden = true;
  });
  base.addEventListener("pointermove", (event) => {
    if (!from) { hover(event.offsetX, event.offsetY); return; }
    if (Math.abs(event.offsetX - from.x) > 3) from.moved = true;
    if (!from.moved) return;
    if (!from.pans) { select(from.x, event.offsetX); return; }
    base.classList.add("dragging");
    const by = ((from.x - event.offsetX) / (W - LEFT)) * (from.t1 - from.t0);
    leave();
    show(from.t0 + by, from.t1 + by);
  });
  const done = (event) => {
    if (from && !from.moved && event.type === "pointerup") click(event);
    else if (from && !from.pans && event.type === "pointerup") showBetween(from.x, event.offsetX);
    select(null);
    from = null;
    base.classList.remove("dragging");
  };
  base.addEventListener("pointerup", done);
  base.addEventListener("pointercancel", done);
  base.addEventListener("pointerleave", () => { if (!from) leave(); });
}

// The span of time that was dragged over, at least a few pixels of it.
function showBetween(x0, x1) {
  const [first, last] = [Math.max(LEFT, Math.min(x0, x1)), Math.min(W, Math.max(x0, x1))];
  if (last - first > 3) show(tOf(first), tOf(last));
}

function click(event) {
  base.focus({ preventScroll: true });
  const found = find(event.offsetX, event.offsetY);
  pin(found);
  if (found && found.anomaly) open($("anomaly-" + found.anomaly));
}

function open(details) {
  for (let at = details; at; at = at.parentElement.closest("details")) at.open = true;
}

start();
