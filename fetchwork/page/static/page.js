// Makes a page live, and loads its slow parts. Without it every page works, and shows the state at its request.
"use strict";

const live = document.getElementById("live");

async function fetched(address) {
  const answer = await fetch(address, { credentials: "same-origin", headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// values of a chart under the pointer, and by the arrow keys; they are read from the table of values
function readable(plots) {
  const place = plots.parentElement;
  const readout = place.querySelector("[data-readout]");
  const [head, ...rows] = [...place.querySelectorAll("[data-values] tr")]
    .map((row) => [...row.children].map((cell) => cell.textContent));
  const words = rows.map((row) => [row[0], ...row.slice(1).map((text, n) => text && `${head[n + 1]}: ${text}`)]
    .filter(Boolean).join(" · "));
  const charts = [...plots.querySelectorAll("svg.chart")];
  const cursors = charts.map((chart) => {
    const cursor = document.createElementNS(chart.namespaceURI, "rect");
    for (const [name, value] of [["class", "cursor"], ["y", 0], ["width", 10], ["height", 100]]) {
      cursor.setAttribute(name, value);
    }
    return cursor;
  });
  const show = (wanted) => {
    const at = Math.max(0, Math.min(rows.length - 1, wanted));
    readout.textContent = words[at];
    charts.forEach((chart, n) => {
      cursors[n].setAttribute("x", 10 * at);
      chart.append(cursors[n]);
      chart.setAttribute("aria-valuenow", at);
      chart.setAttribute("aria-valuetext", words[at]);
    });
  };
  readout.textContent = "Point at a chart, or use its arrow keys, for values.";
  for (const chart of charts) {
    const given = { tabindex: 0, role: "slider", "aria-valuemin": 0, "aria-valuemax": rows.length - 1,
      "aria-valuenow": rows.length - 1, "aria-valuetext": words[rows.length - 1] };
    for (const [name, value] of Object.entries(given)) chart.setAttribute(name, value);
    chart.addEventListener("pointermove", (event) => {
      const box = chart.getBoundingClientRect();
      show(Math.floor((rows.length * (event.clientX - box.left)) / box.width));
    });
    chart.addEventListener("keydown", (event) => {
      const now = Number(chart.getAttribute("aria-valuenow"));
      const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: rows.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(to);
    });
  }
}

// the parts that take longer than the page
async function load(place) {
  try {
    const part = (await fetched(place.dataset.load)).querySelector("[data-part]");
    if (part) place.replaceChildren(...part.childNodes);
    place.querySelectorAll("[data-plots]").forEach(readable);
  } catch {
    // the existing link leads to the part
  }
}

// a search goes on until its page is full or the person stops it; results are shown as they come
const FULL = 50;
let stopped = false;

function stopButton(place) {
  const stop = document.createElement("button");
  stop.type = "button";
  stop.textContent = "Stop";
  // already when the mouse is pressed: each piece brings a new button
  for (const sort of ["pointerdown", "click"]) {
    stop.addEventListener(sort, () => { stopped = true; stop.remove(); });
  }
  place.append(" ", stop);
}

async function goOn() {
  const place = document.querySelector("[data-continue]");
  if (!place || stopped) return;
  if (document.querySelectorAll("[data-live] tbody tr").length >= FULL) return;
  stopButton(place);
  try {
    const next = (await fetched(place.dataset.continue)).querySelector("[data-live]");
    if (stopped) return;
    const table = document.querySelector("[data-live] table tbody");
    if (table) {
      table.append(...(next.querySelector("table tbody")?.children ?? []));
      const further = next.querySelector("[data-continue], p > a[rel=next]");
      place.replaceWith(...(further ? [further.closest("p")] : []));
    } else {
      document.querySelector("[data-live]").replaceChildren(...next.childNodes);
    }
    goOn();
  } catch {
    // the link goes on
    place.querySelector("button")?.remove();
  }
}

let due = false;
let busy = false;

function isUsed(place) {
  return place.contains(document.activeElement) || place.querySelector(":checked[name=job], :checked[name=every], .choose[open]");
}

async function refresh() {
  const place = document.querySelector("[data-live]");
  if (!place || busy || document.hidden || isUsed(place) || document.querySelector("[data-continue]")) {
    due = true;
    return;
  }
  due = false;
  busy = true;
  try {
    const next = (await fetched(location.href)).querySelector("[data-live]");
    // the person may have ticked a job in the meantime
    if (isUsed(place)) {
      due = true;
      return;
    }
    const loaded = [...place.querySelectorAll("[data-load]")];
    const groups = new Map([...place.querySelectorAll("[data-group]")].map((group) => [group.dataset.group, group.open]));
    if (next) {
      for (const group of next.querySelectorAll("[data-group]")) {
        group.open = groups.get(group.dataset.group) ?? group.open;
      }
      place.replaceChildren(...next.childNodes);
      // a loaded part stays until it is loaded anew
      place.querySelectorAll("[data-load]").forEach((part, n) => {
        if (loaded[n]) part.replaceChildren(...loaded[n].childNodes);
        load(part);
      });
    }
    live.textContent = `up to date at ${new Date().toLocaleTimeString()}`;
  } catch {
    live.textContent = "the service does not answer";
  } finally {
    busy = false;
  }
}

// a running job's output: requested while the page is visible; the end of it is shown
const SHOWN = 200000;

async function follow(place) {
  const said = place.querySelector("[data-said]");
  let at = {};
  for (;;) {
    if (!document.hidden) {
      try {
        const given = Object.entries(at).filter(([, value]) => value !== null);
        const address = `${place.dataset.follow}?${new URLSearchParams(given)}`;
        const answer = await fetch(address, {
          credentials: "same-origin", headers: { Accept: "application/json" },
        });
        if (answer.status === 404) return;
        if (!answer.ok) throw new Error(`${answer.status}`);
        const output = await answer.json();
        if (output === null) {
          said.textContent = "it does not run now";
          at = {};
        } else {
          for (const [stream, skipped, text] of output.pieces) {
            const shown = place.querySelector(`[data-stream="${stream}"]`);
            const atEnd = shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 4;
            const left = skipped ? `[${skipped} bytes left out]\n` : "";
            shown.textContent = (shown.textContent + left + text).slice(-SHOWN);
            shown.hidden = false;
            if (atEnd) shown.scrollTop = shown.scrollHeight;
          }
          at = { run: output.run, stdout_at: output.stdout_at, stderr_at: output.stderr_at };
          said.textContent = output.problem || (output.running ? "live" : "ended");
          if (!output.running && !output.pieces.length) return;
        }
      } catch {
        said.textContent = "the service does not answer";
      }
    }
    await new Promise((resolve) => { setTimeout(resolve, 1000); });
  }
}

document.querySelectorAll("[data-load]").forEach(load);
document.querySelectorAll("[data-plots]").forEach(readable);
// parts of a page that stays open, unless the person uses them just now
setInterval(() => {
  if (document.hidden) return;
  for (const place of document.querySelectorAll("[data-again]")) {
    if (!place.contains(document.activeElement) && !place.matches(":hover")) load(place);
  }
}, 30000);
document.querySelectorAll("[data-follow]").forEach(follow);
goOn();
if (document.querySelector("[data-live]")) {
  const changes = new EventSource("/live");
  changes.addEventListener("changed", refresh);
  changes.addEventListener("error", () => { live.textContent = "not live: the connection is lost"; });
  changes.addEventListener("open", () => { live.textContent = "live"; });
  setInterval(() => { if (due) refresh(); }, 2000);
}
