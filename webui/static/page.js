// The script of the live page. The page works without it, as a snapshot. The script follows a stream, on which the
// server sends the content again and again. In between, the script lets durations go on.

const body = document.body;
const main = document.getElementById("main");
const pulse = document.getElementById("pulse");
const stale = document.getElementById("stale");

const silence = 6500; // milliseconds without news, after which the page is stale: three beats of the server
const again = 2000; // until the next attempt
const mostRows = 300; // of events

let source = null; // the stream
let retry = 0; // a timer
let heard = performance.now(); // when the stream said something
let arrived = performance.now(); // when the content came
let opened = false; // a stream has said something
let fault = ""; // what the server says is wrong

// Contents.

const key = (node) => node.dataset?.key ?? node.id ?? "";

// morph changes a node into another one. It leaves alone what is the same. So the focus stays, and what somebody types.
function morph(from, to) {
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(name === "open" && from.nodeName === "DETAILS")) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  morphChildren(from, to);
}

function morphChildren(from, to) {
  const wanted = new Set([...to.childNodes].map(key).filter(Boolean));
  const known = new Map();
  for (const child of [...from.childNodes]) {
    const k = key(child);
    if (k && !wanted.has(k)) child.remove();
    else if (k) known.set(k, child);
  }
  let at = from.firstChild;
  for (const want of [...to.childNodes]) {
    const k = key(want);
    let have = null;
    if (k) have = known.get(k);
    else if (at && !key(at)) have = at;
    if (have && (have.nodeType !== want.nodeType || have.nodeName !== want.nodeName)) have = null;
    if (!have) {
      from.insertBefore(want, at);
      continue;
    }
    if (have === at) at = at.nextSibling;
    else from.insertBefore(have, at);
    morph(have, want);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function show(html) {
  const next = new DOMParser().parseFromString(`<main>${html}</main>`, "text/html").querySelector("main");
  arrived = performance.now();
  morphChildren(main, next);
  arm();
}

// Figures that count.

function span(ms) {
  const s = Math.floor(ms / 1000);
  const two = (n) => String(n).padStart(2, "0");
  if (ms < 0) return "0 s";
  if (s >= 86400) return `${Math.floor(s / 86400)} d ${two(Math.floor(s / 3600) % 24)} h`;
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} m`;
  if (s >= 60) return `${Math.floor(s / 60)} m ${two(s % 60)} s`;
  return s > 0 ? `${s} s` : "< 1 s";
}

function count() {
  const passed = performance.now() - arrived;
  for (const e of main.querySelectorAll("[data-age]")) {
    const text = span(Number(e.dataset.age) + passed);
    e.firstChild.data = "brief" in e.dataset ? text.replace(/^(\d+ \w) \d.*/, "$1") : text;
  }
  for (const e of main.querySelectorAll("[data-left]")) {
    const left = Number(e.dataset.left) - passed;
    if (e.nodeName === "METER") e.value = Math.max(0, left);
    else e.firstChild.data = span(left);
  }
}

// The stream.

function connect() {
  clearTimeout(retry);
  if (!body.dataset.stream || source || document.hidden) return;
  const url = new URL(body.dataset.stream, location.href);
  const rows = document.getElementById("events");
  if (rows) url.searchParams.set("after", rows.dataset.position);
  source = new EventSource(url);
  source.addEventListener("content", (e) => {
    news();
    show(JSON.parse(e.data));
  });
  source.addEventListener("events", (e) => {
    news();
    if (Number(e.lastEventId) > 0) document.getElementById("events").dataset.position = e.lastEventId;
    arrive(JSON.parse(e.data));
  });
  source.addEventListener("fault", (e) => {
    const { title, text } = JSON.parse(e.data);
    fault = `${title}: ${text}`;
    look();
  });
  source.onerror = () => {
    disconnect();
    retry = setTimeout(connect, again);
  };
}

function disconnect() {
  source?.close();
  source = null;
}

function news() {
  heard = performance.now();
  opened = true;
  fault = "";
  look();
}

// look says whether the page is live.
function look() {
  if (!body.dataset.stream || document.hidden) return;
  const silent = performance.now() - heard > silence;
  const mood = fault || silent ? "stale" : opened ? "live" : "still";
  if (pulse.dataset.mood !== mood) {
    pulse.dataset.mood = mood;
    if (mood === "live") pulse.textContent = "Live";
    if (mood === "stale") pulse.textContent = "Stale";
  }
  const since = new Date(Date.now() - (performance.now() - heard));
  const text = fault || `The daemon says nothing since ${
    since.toLocaleTimeString(undefined, { timeZoneName: "short" })}. What you see may be over.`;
  body.classList.toggle("is-stale", mood === "stale");
  if (mood !== "stale") stale.hidden = true;
  else if (stale.hidden || fault) {
    if (stale.textContent !== text) stale.textContent = text;
    stale.hidden = false;
  }
}

// The filter: the page of what was typed takes the place of this one.

let typed = 0; // a timer
let asked = null; // ends the request before

async function filter(form) {
  asked?.abort();
  asked = new AbortController();
  const url = new URL(form.action);
  url.search = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  try {
    const answer = await fetch(url, { signal: asked.signal });
    form.querySelector("[type=search]").setAttribute("aria-invalid", !answer.ok);
    if (!answer.ok) return; // a pattern that is not complete yet
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    history.replaceState(null, "", url);
    body.dataset.stream = next.body.dataset.stream;
    disconnect();
    held = [];
    show(next.querySelector("main").innerHTML);
    connect();
  } catch {
    // The request was ended by the next one, or the daemon is gone, and the stream says so.
  }
}

main.addEventListener("input", (e) => {
  if (e.target.type !== "search") return;
  clearTimeout(typed);
  typed = setTimeout(filter, 200, e.target.form);
});

// Copies.

if (navigator.clipboard) body.classList.add("can-copy"); // a browser has one for pages that it trusts
main.addEventListener("click", async (e) => {
  const copy = e.target.closest("[data-copy]");
  if (!copy) return;
  await navigator.clipboard.writeText(copy.dataset.copy);
  copy.textContent = "copied";
});

// Events.

const pause = document.getElementById("pause");
let held = []; // what came while the list pauses

function arrive({ rows, more }) {
  if (!rows && !more) return;
  if (pause?.getAttribute("aria-pressed") === "true") {
    held.push({ rows, more });
    if (held.length > mostRows) held.shift();
    pause.textContent = "Go on with what is new";
    return;
  }
  const list = document.getElementById("events");
  const table = new DOMParser().parseFromString(`<table><tbody>${rows}</tbody></table>`, "text/html");
  const fresh = [...table.querySelectorAll("tr")];
  for (const row of fresh) row.className = "new";
  if (more) {
    const row = list.ownerDocument.createElement("tr");
    const cell = row.insertCell();
    cell.colSpan = 6;
    cell.className = "none";
    cell.textContent = `${more} more events came at once and are left out`;
    fresh.unshift(row);
  }
  list.prepend(...fresh);
  while (list.rows.length > mostRows) list.lastElementChild.remove();
  document.getElementById("quiet").hidden = list.rows.length > 0;
}

pause?.addEventListener("click", () => {
  const on = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(on));
  pause.textContent = on ? "Go on" : "Pause";
  if (!on) for (const h of held.splice(0)) arrive(h);
});

// The form that breaks a lock: its button waits for the name.

function arm() {
  if (pause) pause.hidden = false;
  for (const input of main.querySelectorAll("[data-confirm]")) {
    input.form.querySelector("button").disabled = input.value !== input.dataset.confirm;
  }
}
main.addEventListener("input", arm);

// Keys.

function move(step) {
  const links = [...main.querySelectorAll("tbody a.name")];
  const row = document.activeElement?.closest("tr");
  const at = links.findIndex((a) => a.closest("tr") === row);
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step];
  next?.focus();
}

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.target.closest("input, textarea, select")) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  const match = document.getElementById("match");
  switch (e.key) {
    case "/":
      if (!match) return;
      match.focus();
      match.select();
      break;
    case "j":
      move(1);
      break;
    case "k":
      move(-1);
      break;
    case "p":
      if (!pause) return;
      pause.click();
      break;
    default:
      return;
  }
  e.preventDefault();
});

// A page that nobody sees has no stream: a browser has few connections to one host.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    clearTimeout(retry);
    disconnect();
  } else {
    heard = performance.now();
    connect();
  }
});
addEventListener("pagehide", disconnect);
addEventListener("pageshow", connect);
setInterval(() => {
  count();
  look();
}, 500);
arm();
connect();
