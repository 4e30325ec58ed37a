// Makes a page live, and loads its slow parts. Without it every page works, and shows the state of when it was asked for.
"use strict";

const live = document.getElementById("live");

async function fetched(address) {
  const answer = await fetch(address, { credentials: "same-origin", headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// the parts that take longer than the page
async function load(place) {
  try {
    const part = (await fetched(place.dataset.load)).querySelector("[data-part]");
    if (part) place.replaceChildren(...part.childNodes);
  } catch {
    // the link that is there leads to the part
  }
}

// a search that goes on until it has found something
async function goOn() {
  const place = document.querySelector("[data-continue]");
  if (!place) return;
  try {
    const next = (await fetched(place.dataset.continue)).querySelector("[data-live]");
    const more = next.querySelector("table tbody");
    const table = document.querySelector("[data-live] table tbody");
    if (table && more) {
      table.append(...more.children);
      const further = next.querySelector("[data-continue], p > a[rel=next]");
      place.replaceWith(...(further ? [further.closest("p")] : []));
    } else {
      document.querySelector("[data-live]").replaceChildren(...next.childNodes);
    }
    goOn();
  } catch {
    // the link goes on
  }
}

let due = false;
let busy = false;

async function refresh() {
  const place = document.querySelector("[data-live]");
  const used = place && (place.contains(document.activeElement) || place.querySelector("input:checked"));
  if (!place || busy || document.hidden || used || document.querySelector("[data-continue]")) {
    due = true;
    return;
  }
  due = false;
  busy = true;
  try {
    const next = (await fetched(location.href)).querySelector("[data-live]");
    const loaded = [...place.querySelectorAll("[data-load]")];
    if (next) {
      place.replaceChildren(...next.childNodes);
      // what was loaded stays until it is loaded anew
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

document.querySelectorAll("[data-load]").forEach(load);
goOn();
if (document.querySelector("[data-live]")) {
  const changes = new EventSource("/live");
  changes.addEventListener("changed", refresh);
  changes.addEventListener("error", () => { live.textContent = "not live: the connection is lost"; });
  changes.addEventListener("open", () => { live.textContent = "live"; });
  setInterval(() => { if (due) refresh(); }, 2000);
}
