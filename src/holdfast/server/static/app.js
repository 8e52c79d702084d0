"use strict";
// The dashboard's own script: what pages can do without it, they do without it.
(() => {
  const root = document.documentElement;
  const home = document.body.dataset.root || "/";
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  const kept = {
    get(name) {
      try { return localStorage.getItem(`holdfast-${name}`); } catch { return null; }
    },
    set(name, value) {
      try { localStorage.setItem(`holdfast-${name}`, value); } catch { /* the page forgets it, and works */ }
    },
  };

  const following = (list, now) => list[(list.indexOf(now) + 1) % list.length];

  // ---- theme ---------------------------------------------------------------------------------

  const themeButton = find("[data-theme-button]");
  const showTheme = () => { if (themeButton) themeButton.textContent = root.dataset.theme; };
  const nextTheme = () => {
    root.dataset.theme = following(["auto", "light", "dark"], root.dataset.theme);
    kept.set("theme", root.dataset.theme);
    showTheme();
    drawCharts();
  };

  // ---- times ---------------------------------------------------------------------------------

  const timesButton = find("[data-times]");
  let times = kept.get("times") || "relative";
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const relative = (at) => {
    const seconds = (Date.now() - at.getTime()) / 1000;
    const size = Math.abs(seconds);
    if (size < 1) return "now";
    const [unit, length] = units.find(([, length]) => size >= length);
    const count = Math.floor(size / length);
    return seconds > 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`;
  };
  const pad = (number) => String(number).padStart(2, "0");
  const local = (at) =>
    `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ` +
    `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  const shown = (at) =>
    times === "relative" ? relative(at) : times === "local" ? local(at) : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
  const showTimes = (within = document) => {
    for (const element of all("time[datetime]", within)) {
      const at = new Date(element.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const text = shown(at);
      if (element.textContent !== text) element.textContent = text;
      element.title = `${local(at)} here, ${at.toISOString()}`;
    }
    if (timesButton) timesButton.textContent = times === "utc" ? "UTC" : times;
  };
  const nextTimes = () => {
    times = following(["relative", "local", "utc"], times);
    kept.set("times", times);
    showTimes();
    drawCharts();
  };

  // ---- messages ------------------------------------------------------------------------------

  const toasts = find("#toasts");
  // A message goes by itself, but not from under somebody's hand.
  const goes = (toast, ms) => setTimeout(() => {
    if (toast.matches(":hover, :focus-within")) goes(toast, 2000); else toast.remove();
  }, ms);
  const tell = (text, isBad = false) => {
    const toast = document.createElement("div");
    toast.className = isBad ? "toast bad" : "toast";
    toast.textContent = text;
    toasts.append(toast);
    goes(toast, 6000);
  };
  all(".toast", toasts).forEach((toast) => goes(toast, find("form", toast) ? 15000 : 8000));

  // ---- copying -------------------------------------------------------------------------------

  const copied = async (text) => {
    if (navigator.clipboard) {
      try { await navigator.clipboard.writeText(text); return true; } catch { /* the older way below */ }
    }
    // There is no clipboard on plain HTTP; a selected field can be copied everywhere.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "hidden";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  };

  // ---- rows ----------------------------------------------------------------------------------

  const rows = () => all("[data-row]");
  const current = () => find("[data-row].current");
  const moveTo = (row) => {
    current()?.classList.remove("current");
    if (!row) return;
    row.classList.add("current");
    row.scrollIntoView({ block: "nearest" });
    find("a", row)?.focus({ preventScroll: true });
  };
  const move = (step) => {
    const list = rows();
    const at = list.indexOf(current());
    moveTo(list[at < 0 ? (step > 0 ? 0 : list.length - 1) : Math.min(Math.max(at + step, 0), list.length - 1)]);
  };

  // ---- choosing ------------------------------------------------------------------------------

  const picks = () => all("input[name=job]");
  const showPicked = () => {
    const count = picks().filter((pick) => pick.checked).length;
    picks().forEach((pick) => pick.closest("[data-row]")?.classList.toggle("picked", pick.checked));
    const text = count ? `${count} selected` : "";
    for (const place of all("[data-picked]")) {
      if (place.textContent !== text) place.textContent = text;
    }
    for (const part of all("[data-needs-picked]")) part.disabled = count === 0;
    for (const box of all("[data-pick-all]")) {
      box.checked = count > 0 && count === picks().length;
      box.indeterminate = count > 0 && count < picks().length;
    }
  };

  // ---- tables --------------------------------------------------------------------------------

  // Every table with a head has columns that can be left out. The first that has a name stays: it says what a row is
  // about, and by it the choice is kept, so that tables of one sort share theirs.
  const tools = find("#table-tools")?.content.firstElementChild.cloneNode(true);
  const spelled = (text) => text.trim().toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const tables = () => all("table.rows").filter((table) => table.tHead).map((table) => {
    const heads = [...table.tHead.rows[0].cells].map((cell) => ({
      cell, title: cell.textContent.trim(), name: cell.dataset.name ?? spelled(cell.textContent),
    }));
    const [first, ...chosen] = heads.filter((head) => head.name);
    return { table, heads, chosen, title: first?.title, key: `columns-${document.body.dataset.page}-${first?.name}` };
  }).filter(({ chosen }) => chosen.length);
  const left = (key, table) => new Set((kept.get(key) ?? table.dataset.hide ?? "").split(" ").filter(Boolean));

  const hide = ({ table, heads, chosen, key }) => {
    const names = left(key, table);
    const isOff = heads.map((head) => chosen.includes(head) && names.has(head.name));
    if (!isOff.includes(true) && !find("[data-off], [data-span]", table)) return;
    for (const row of table.rows) {
      let at = 0;
      for (const cell of row.cells) {
        const span = Number(cell.dataset.span ?? cell.colSpan);
        const shown = isOff.slice(at, at + span).filter((off) => !off).length;
        cell.toggleAttribute("data-off", at + span <= isOff.length && !shown);
        if (span > 1) cell.dataset.span = span;
        if (span > 1 && shown && cell.colSpan !== shown) cell.colSpan = shown;
        at += span;
      }
    }
  };

  const box = (key, { cell, name, title }) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.type = "checkbox";
    input.dataset.column = name;
    input.dataset.key = key;
    if (cell.matches("[data-roomy], .trend")) label.className = "roomy";
    label.append(input, ` ${title}`);
    return label;
  };
  const fill = (menu, sorts) => {
    menu.replaceChildren(...[...sorts].map(([key, { title, columns }]) => {
      const group = document.createElement("fieldset");
      const legend = document.createElement("legend");
      legend.textContent = title;
      group.append(legend, ...[...columns.values()].map((column) => box(key, column)));
      return group;
    }));
  };
  const showColumns = () => {
    if (!tools) return;
    const sorts = new Map();
    for (const one of tables()) {
      hide(one);
      const sort = sorts.get(one.key) ?? { title: one.title, table: one.table, columns: new Map() };
      one.chosen.forEach((head) => sort.columns.set(head.name, head));
      sorts.set(one.key, sort);
    }
    if (tools.hidden !== !sorts.size) tools.hidden = !sorts.size;
    const menu = find("[data-columns]", tools);
    const listed = JSON.stringify([...sorts].map(([key, sort]) => [key, ...sort.columns.keys()]));
    if (menu.dataset.listed !== listed) fill(menu, sorts);
    menu.dataset.listed = listed;
    for (const [key, { table }] of sorts) {
      const names = left(key, table);
      all("[data-column]", menu).filter((input) => input.dataset.key === key)
        .forEach((input) => { input.checked = !names.has(input.dataset.column); });
    }
  };
  // Beside the heading, or where a page has a place for it; no part of a page, so that no refresh takes it away.
  const placeTools = () => {
    const place = find("[data-tools]");
    const head = all("#content .head").find((one) => !one.closest("[data-part]"));
    if (!tools) return;
    if (place) place.append(tools); else if (head) head.firstElementChild.after(tools); else find("#content").prepend(tools);
  };
  const showDensity = () => find("[data-density-button]", tools)?.setAttribute("aria-pressed", String(root.dataset.density === "compact"));
  const nextDensity = () => {
    root.dataset.density = following(["normal", "compact"], root.dataset.density);
    kept.set("density", root.dataset.density);
    showDensity();
  };

  // ---- what is chosen ------------------------------------------------------------------------

  document.addEventListener("change", (event) => {
    const target = event.target;
    if (target.matches("[data-pick-all]")) picks().forEach((pick) => { pick.checked = target.checked; });
    if (target.matches("[data-pick-all], input[name=job]")) showPicked();
    if (target.matches("[data-column]")) {
      const { column, key } = target.dataset;
      const names = left(key, tables().find((one) => one.key === key)?.table ?? target);
      if (target.checked) names.delete(column); else names.add(column);
      kept.set(key, [...names].join(" "));
      showColumns();
    }
    if (target.matches("[data-submit]")) target.form.requestSubmit();
  });

  // ---- charts --------------------------------------------------------------------------------

  const charts = new Map();
  const moment = (tick) => (times === "utc" ? new Date(tick * 1000).toISOString().replace("T", " ") : local(new Date(tick * 1000)));
  const clock = (tick, ticks) => {
    const text = moment(tick);
    return ticks.at(-1) - ticks[0] > 90000 ? text.slice(5, 10) : text.slice(11, 16);
  };
  // What a chart shows lies beside it as a table; it is drawn anew only when that, the theme, the width or the zone has changed.
  const drawCharts = () => {
    if (!window.uPlot) return;
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    for (const place of all("[data-chart]")) {
      const cells = all("[data-part] tbody tr", place).map((row) => [...row.cells].map((cell) => Number(cell.dataset.value)));
      if (cells.length < 2) continue;
      // Those that failed stand in front of all, so that the rest of a bar is what ended well.
      const data = [cells.map(([at]) => at), cells.map(([, well, ill]) => well + ill), cells.map(([, , ill]) => ill)];
      const frame = `${place.clientWidth} ${colour("--ground")} ${times}`;
      const text = JSON.stringify(data);
      const drawn = charts.get(place);
      if (drawn?.frame === frame) {
        if (drawn.text !== text) drawn.chart.setData(data);
        drawn.text = text;
        continue;
      }
      drawn?.chart.destroy();
      const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      const bars = { paths: window.uPlot.paths.bars({ size: [0.7, 24] }), width: 0, points: { show: false } };
      const said = (_, count) => (count == null ? "" : count.toLocaleString("en"));
      place.classList.add("drawn");
      const chart = new window.uPlot({
        width: place.clientWidth,
        height: 140,
        cursor: { y: false, points: { show: false } },
        scales: { y: { range: (_, least, most) => [0, Math.max(most, 4) * 1.1] } },
        axes: [{ ...axis, size: 30, values: (_, ticks) => ticks.map((tick) => clock(tick, ticks)) }, { ...axis, size: 44 }],
        series: [
          { label: "", value: (_, at) => (at == null ? "" : moment(at).slice(0, 16)) },
          { ...bars, label: "finished", fill: colour("--good"), stroke: colour("--good"), value: said },
          { ...bars, label: "failed", fill: colour("--bad"), stroke: colour("--bad"), value: said },
        ],
      }, data, find("[data-chart-canvas]", place));
      charts.set(place, { chart, frame, text });
    }
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);

  // ---- keys and clicks -----------------------------------------------------------------------

  const places = { o: "", j: "jobs", q: "queues", s: "schedules", f: "failures", d: "dead-letters", w: "workers" };
  let isGoing = false;

  // The list that a job was opened from, with its filter, is where one goes back to.
  const remembered = (name, value) => {
    try { return value === undefined ? sessionStorage.getItem(name) : sessionStorage.setItem(name, value); } catch { return null; }
  };
  if (find("#filter")) remembered("holdfast-list", location.search);
  const showUp = () => all("[data-up=list]").forEach((link) => { link.search = remembered("holdfast-list") ?? ""; });
  const back = () => {
    showUp();
    const up = find("[data-up]");
    if (up) location.assign(up.href); else if (history.length > 1) history.back();
  };
  // Menus are plain details: they close by Esc, and by a click elsewhere.
  const closeMenus = (except = null) => {
    const open = all("details[open]:has(> .menu)").filter((menu) => !menu.contains(except));
    open.forEach((menu) => {
      if (menu.contains(document.activeElement)) find("summary", menu).focus();
      menu.open = false;
    });
    return open.length > 0;
  };
  const toggle = (dialog) => { if (dialog.open) dialog.close(); else dialog.showModal(); };

  const keys = {
    "/": () => { const box = find("#filter") ?? find("#search"); box?.focus(); box?.select(); },
    j: () => move(1),
    k: () => move(-1),
    x: () => { const pick = current() && find("input[name=job]", current()); if (pick) pick.click(); },
    r: () => find("[data-live-toggle]")?.click(),
    t: nextTheme,
    z: nextTimes,
    "?": () => { const sheet = find("#shortcuts"); if (sheet) toggle(sheet); },
    g: () => { isGoing = true; setTimeout(() => { isGoing = false; }, 1500); },
    Escape: () => { if (!closeMenus()) { if (current()) moveTo(null); else back(); } },
  };

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (event.key === "Escape" && isTyping) { event.target.blur(); return; }
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
    if (isGoing && event.key in places) { isGoing = false; location.assign(home + places[event.key]); return; }
    if (event.key === "Enter" && current() && !event.target.closest("a, button, input, summary")) {
      find("a", current())?.click();
    } else if (Object.hasOwn(keys, event.key)) {
      event.preventDefault();
      keys[event.key]();
    }
  });

  document.addEventListener("click", async (event) => {
    closeMenus(event.target);
    const target = event.target.closest("[data-copy], [data-copy-of], [data-open], [data-theme-button], [data-times], [data-density-button]");
    if (!target) return;
    if (target.matches("[data-copy], [data-copy-of]")) {
      const text = target.dataset.copy ?? find(target.dataset.copyOf)?.textContent ?? "";
      const done = await copied(text);
      tell(done ? "Copied." : "The browser does not let this page copy: select the text instead.", !done);
    } else if (target.matches("[data-open]")) {
      toggle(find(`#${target.dataset.open}`));
    } else if (target.matches("[data-theme-button]")) {
      nextTheme();
    } else if (target.matches("[data-times]")) {
      nextTimes();
    } else {
      nextDensity();
    }
  });

  // ---- whatever is new on the page -----------------------------------------------------------

  const freshen = () => { showTimes(); showPicked(); showColumns(); showUp(); };
  // At once, before it is painted: what it changes itself it changes once, so this comes to rest.
  new MutationObserver(freshen).observe(find("#content"), {
    childList: true, characterData: true, subtree: true, attributeFilter: ["data-off", "colspan"],
  });

  document.addEventListener("htmx:after:swap", drawCharts);
  document.addEventListener("htmx:response:error", () => tell("The server did not answer as expected; load the page again.", true));
  let resizing = 0;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawCharts, 200); });
  setInterval(() => {
    if (!document.hidden && times === "relative") showTimes();
  }, 1000);
  setInterval(() => {
    if (!document.hidden && document.body.dataset.liveState === "live") document.body.dispatchEvent(new CustomEvent("holdfast:counts"));
  }, 10000);

  showTheme();
  placeTools();
  showDensity();
  freshen();
  drawCharts();
})();
