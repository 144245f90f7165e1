// What htmx does not do: word of changes by server-sent events, and a log that grows.
"use strict";

const LOG_CHARACTERS = 1_000_000;  // most of a log that the page keeps
const HIDDEN_MS = 30_000;  // a browser has six connections for all tabs: a hidden one gives its own back

let known = null;  // count of changes when the page was last renewed
let stops = [];  // what ends the connections of this page
let pause = null;

function listen() {
  const events = new EventSource("/v1/events");
  stops.push(() => events.close());
  const heard = event => {
    document.body.classList.remove("lost");
    if (known !== null && known !== event.data) htmx.trigger(document.body, "changed");
    known = event.data;
  };
  events.addEventListener("hello", heard);
  events.addEventListener("changed", heard);
  events.addEventListener("error", () => {
    document.body.classList.add("lost");
    if (events.readyState === EventSource.CLOSED) setTimeout(restart, 5000);
  });
}

async function follow(place) {
  const abort = new AbortController();
  stops.push(() => abort.abort());
  const say = text => abort.signal.aborted || place.append(text);
  try {
    const response = await fetch(place.dataset.log, {signal: abort.signal});
    place.textContent = "";
    if (!response.ok) {
      say((await response.json()).error);
      return;
    }
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const isAtEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
      say(decoder.decode(part.value, {stream: true}));
      if (place.textContent.length > 2 * LOG_CHARACTERS) {
        place.textContent = place.textContent.slice(-LOG_CHARACTERS);
      }
      if (isAtEnd) place.scrollTop = place.scrollHeight;
    }
    place.dataset.whole = "";
  } catch {
    say("\n[the connection was lost; load the page again]\n");
  }
}

function start() {
  if (document.getElementById("live")) listen();
  const log = document.querySelector("pre[data-log]:not([data-whole])");
  if (log) follow(log);
}

function stop() {
  for (const one of stops) one();
  stops = [];
}

function restart() {
  stop();
  if (!document.hidden) start();
}

addEventListener("DOMContentLoaded", () => {
  start();
  addEventListener("pagehide", stop);
  addEventListener("pageshow", event => event.persisted && restart());
  document.addEventListener("visibilitychange", () => {
    clearTimeout(pause);
    if (document.hidden) pause = setTimeout(stop, HIDDEN_MS);
    else if (!stops.length) start();
  });
});
