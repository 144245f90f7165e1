// What htmx does not do: word of changes by server-sent events, and a log that grows.
"use strict";

const LOG_CHARACTERS = 1_000_000;  // most of a log that the page keeps

function refresh() {
  if (document.hidden) {
    stale = true;
  } else {
    stale = false;
    htmx.trigger(document.body, "changed");
  }
}

let stale = false;
let known = null;

function listen() {
  const events = new EventSource("/v1/events");
  const heard = event => {
    document.body.classList.remove("lost");
    if (known !== null && known !== event.data) refresh();
    known = event.data;
  };
  events.addEventListener("hello", heard);
  events.addEventListener("changed", heard);
  events.addEventListener("error", () => {
    document.body.classList.add("lost");
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
  addEventListener("pagehide", () => events.close(), {once: true});
}

async function follow(place) {
  const decoder = new TextDecoder();
  let response;
  try {
    response = await fetch(place.dataset.log);
  } catch {
    place.textContent = "The log cannot be read now; load the page again.";
    return;
  }
  if (!response.ok) {
    place.textContent = (await response.json()).error;
    return;
  }
  const reader = response.body.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const isAtEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
      place.append(decoder.decode(part.value, {stream: true}));
      if (place.textContent.length > 2 * LOG_CHARACTERS) {
        place.textContent = place.textContent.slice(-LOG_CHARACTERS);
      }
      if (isAtEnd) place.scrollTop = place.scrollHeight;
    }
    place.dataset.whole = "";
  } catch {
    place.append("\n[the connection was lost; load the page again]\n");
  }
}

addEventListener("DOMContentLoaded", () => {
  if (document.getElementById("live")) listen();
  const log = document.querySelector("pre[data-log]");
  if (log) follow(log);
  document.addEventListener("visibilitychange", () => stale && refresh());
});
