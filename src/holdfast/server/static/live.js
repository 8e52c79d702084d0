"use strict";
// Keeps a page fresh: one stream tells that something happened, and the page asks for its parts again.
//
//   data-live="job:ID | queue:NAME | all"   what the page follows
//   data-part="name"                        an element that is asked for again, by the name of its block
//   data-live-toggle, data-live-word        the button, and the word in it
//
// On the body come `holdfast:event` (detail: what happened), `holdfast:refresh` (to be prevented by whoever refreshes the
// page itself) and `holdfast:live` (detail: live, paused, waiting or ended; `data-live-state` says the same).
(() => {
  const wanted = document.querySelector("[data-live]")?.dataset.live;
  if (!wanted) return;
  const body = document.body;
  const GAP_MS = 1000;
  const TYPING_MS = 2000;
  const SILENCE_MS = 40000; // the server pings every 15 s
  const LONGEST_MS = 30000;
  const FINAL = new Set([400, 401, 403, 404, 405, 422]);
  const WORDS = { live: "live", paused: "paused", waiting: "reconnecting", ended: "not live" };

  const address = () => {
    const at = wanted.indexOf(":");
    const [kind, name] = at < 0 ? [wanted, ""] : [wanted.slice(0, at), encodeURIComponent(wanted.slice(at + 1))];
    const path = { job: `jobs/${name}/stream`, jobs: `jobs/${name}/stream`, queue: `queues/${name}/stream` }[kind] || "stream";
    return `${body.dataset.root || "/"}api/v1/${path}?snapshot=false`;
  };

  const tell = (name, detail, options = {}) => body.dispatchEvent(new CustomEvent(name, { detail, ...options }));
  const pause = (ms, signal) => new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
  });

  // ---- the button ----------------------------------------------------------------------------

  const isPaused = () => {
    try { return localStorage.getItem("holdfast-live") === "paused"; } catch { return body.dataset.liveState === "paused"; }
  };
  const keepPaused = (paused) => {
    body.dataset.liveState = paused ? "paused" : "waiting";
    try { localStorage.setItem("holdfast-live", paused ? "paused" : "live"); } catch { /* this page knows it all the same */ }
  };
  const say = (state) => {
    body.dataset.liveState = state;
    for (const button of document.querySelectorAll("[data-live-toggle]")) button.setAttribute("aria-pressed", String(state !== "paused"));
    for (const place of document.querySelectorAll("[data-live-word]")) place.textContent = WORDS[state];
    tell("holdfast:live", state);
  };

  // ---- the parts of the page -----------------------------------------------------------------

  let isStale = false;
  let isRefreshing = false;
  let timer = 0;
  let readyAt = 0;

  // Nothing moves while somebody types, and nothing is swapped under the hands of somebody who is in a field there,
  // selects text or answers a question.
  let typedAt = -Infinity;
  document.addEventListener("input", (event) => { if (event.target.matches("input:not([type=checkbox]), textarea")) typedAt = performance.now(); });
  const isTyping = () => performance.now() - typedAt < TYPING_MS;
  const isBusy = (part) => {
    const active = document.activeElement;
    const isIn = part.contains(active) && active.matches("input:not([type=checkbox]), textarea, select");
    const selection = getSelection();
    return isIn || part.querySelector("dialog[open]") || (!selection.isCollapsed && part.contains(selection.anchorNode));
  };

  // What a person has opened and chosen in a part; the server does not know of it.
  const folds = (part) => [...part.querySelectorAll("details")].map((fold, index) =>
    [fold, fold.id || `${fold.querySelector("summary")?.textContent} ${index}`]);
  const picks = (part) => [...part.querySelectorAll("input[type=checkbox]")].map((pick) => [pick, `${pick.name} ${pick.value}`]);
  const rows = (part) => [...part.querySelectorAll("[data-row]")].map((row) => [row, row.id || row.dataset.row || row.querySelector("a")?.href]);
  const remembered = (part) => {
    const open = new Map(folds(part).map(([fold, key]) => [key, fold.open]));
    const checked = new Map(picks(part).map(([pick, key]) => [key, pick.checked]));
    const current = rows(part).find(([row]) => row.classList.contains("current"))?.[1];
    return (fresh) => {
      for (const [fold, key] of folds(fresh)) if (open.has(key)) fold.open = open.get(key);
      for (const [pick, key] of picks(fresh)) pick.checked = checked.get(key) ?? pick.defaultChecked;
      for (const [row, key] of rows(fresh)) if (current && key === current) row.classList.add("current");
    };
  };

  const swap = async (part, fresh) => {
    const found = `[data-part="${CSS.escape(part.dataset.part)}"]`;
    const restore = remembered(part);
    if (window.htmx) await window.htmx.swap({ sourceElement: part, target: part, text: fresh.outerHTML, swap: "outerMorph" });
    else part.replaceWith(document.importNode(fresh, true));
    restore(document.querySelector(found) ?? part);
  };

  const refresh = async () => {
    if (!tell("holdfast:refresh", null, { cancelable: true })) return;
    const parts = [...document.querySelectorAll("[data-part]")].filter((part) => !part.parentElement.closest("[data-part]"));
    const free = parts.filter((part) => !isBusy(part));
    if (free.length < parts.length) isStale = true;
    if (!free.length) return;
    // One part comes alone; several come with one page. Rows cannot be read without their table.
    const isAlone = parts.length === 1 && !["TBODY", "TR", "TD"].includes(parts[0].tagName);
    const headers = isAlone ? { "x-part": parts[0].dataset.part } : {};
    const response = await fetch(location.href, { headers, credentials: "same-origin", cache: "no-store" });
    if (!response.ok || response.redirected) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of free) {
      const fresh = page.querySelector(`[data-part="${CSS.escape(part.dataset.part)}"]`);
      if (fresh && part.isConnected) await swap(part, fresh);
    }
  };

  // At most once a second, and less often when the server takes long.
  const refreshSoon = () => {
    isStale = true;
    if (timer || isRefreshing || document.hidden || isPaused()) return;
    timer = setTimeout(async () => {
      timer = 0;
      if (isTyping()) { readyAt = typedAt + TYPING_MS; refreshSoon(); return; }
      isStale = false;
      isRefreshing = true;
      const begun = performance.now();
      let isAnswered = true;
      try { await refresh(); } catch { isAnswered = false; }
      isRefreshing = false;
      readyAt = performance.now() + Math.max(GAP_MS, 4 * (performance.now() - begun));
      if (!isAnswered) isStale = true; // until the stream is back
      else if (isStale) refreshSoon();
    }, Math.max(0, readyAt - performance.now()));
  };

  // ---- the stream ----------------------------------------------------------------------------

  let lastId = "";
  let retryMs = GAP_MS;

  const take = (frame) => {
    const fields = {};
    for (const line of frame.split("\n")) {
      const at = line.indexOf(": ");
      if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
    }
    if (fields.retry) retryMs = Number(fields.retry) || GAP_MS;
    if (fields.id) lastId = fields.id;
    if (!fields.event) return;
    if (fields.event.includes(":")) tell("holdfast:event", JSON.parse(fields.data));
    refreshSoon(); // at a ping too: waits grow, and workers fall silent, without anything having happened
  };

  const read = async (response, heard) => {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      const frames = (text + value).split("\n\n");
      text = frames.pop();
      frames.forEach(take);
    }
  };

  const connect = async (signal, opened) => {
    const connection = new AbortController();
    const leave = () => connection.abort();
    let silence = 0;
    const heard = () => { clearTimeout(silence); silence = setTimeout(leave, SILENCE_MS); };
    signal.addEventListener("abort", leave, { once: true });
    heard();
    try {
      const headers = { accept: "text/event-stream", ...(lastId && { "last-event-id": lastId }) };
      const response = await fetch(address(), { headers, credentials: "same-origin", cache: "no-store", signal: connection.signal });
      if (FINAL.has(response.status)) return true;
      if (response.ok) {
        opened();
        await read(response, heard);
      }
    } catch { /* it was cut off: that is what the next one is for */ } finally {
      clearTimeout(silence);
      signal.removeEventListener("abort", leave);
      connection.abort();
    }
    return false;
  };

  const follow = async (signal) => {
    let failures = 0;
    const opened = () => {
      failures = 0;
      retryMs = GAP_MS;
      say("live");
      if (!lastId || isStale) refreshSoon(); // what happened since the page was made is not known
    };
    while (!signal.aborted) {
      const isOver = await connect(signal, opened);
      if (signal.aborted) return;
      if (isOver) { say("ended"); return; }
      say("waiting");
      const most = Math.min(retryMs * 2 ** failures, LONGEST_MS);
      failures += 1;
      await pause(most * (0.5 + Math.random() / 2), signal);
    }
  };

  let following = null;
  const update = () => {
    const isOn = !document.hidden && !isPaused();
    if (isOn && !following) {
      following = new AbortController();
      say("waiting");
      follow(following.signal);
      if (isStale) refreshSoon();
    } else if (!isOn && following) {
      following.abort();
      following = null;
    }
    if (isPaused()) say("paused");
  };

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-live-toggle]")) return;
    keepPaused(!isPaused());
    update();
  });
  document.addEventListener("visibilitychange", update);
  addEventListener("pagehide", () => { following?.abort(); following = null; });
  addEventListener("pageshow", update);
  addEventListener("storage", (event) => { if (event.key === "holdfast-live") update(); }); // another tab was paused
  update();
})();
