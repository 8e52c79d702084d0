"use strict";
// The filter box of the jobs: it completes the term that is typed, and keeps views that a person gave a name, in this browser.
(() => {
  const box = document.querySelector("#filter");
  const place = document.querySelector("[data-views]");
  if (!box || !place) return;
  const home = document.body.dataset.root || "/";
  const KEY = "holdfast-views";
  const MOST = 30;

  // ---- completing ----------------------------------------------------------------------------

  const choices = (box.dataset.choices ?? "").split(" ").filter(Boolean);
  const list = document.querySelector("#choices");
  const complete = () => {
    const [, before, term] = /^(.*?)([^\s"]*)$/s.exec(box.value) ?? [];
    const fitting = term ? choices.filter((choice) => choice.startsWith(term) && choice !== term) : [];
    list.replaceChildren(...fitting.slice(0, 20).map((choice) => {
      const option = document.createElement("option");
      option.value = before + choice;
      option.label = choice;
      return option;
    }));
  };
  box.addEventListener("input", complete);

  // ---- views ---------------------------------------------------------------------------------

  const isView = (view) => typeof view?.name === "string" && typeof view?.query === "string";
  const read = () => {
    try {
      const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
      return Array.isArray(found) ? found.filter(isView).slice(0, MOST) : [];
    } catch { return []; }
  };
  const write = (views) => {
    try { localStorage.setItem(KEY, JSON.stringify(views)); } catch { /* a browser that keeps nothing keeps no views */ }
    show();
  };
  const made = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  const chip = (view) => {
    const whole = made("span", "", { class: "view" });
    const link = made("a", view.name, { href: `${home}jobs?q=${encodeURIComponent(view.query)}`, title: view.query });
    if (view.query === place.dataset.query) link.setAttribute("aria-current", "page");
    const forget = made("button", "×", { type: "button", "aria-label": `Forget the view ${view.name}` });
    forget.addEventListener("click", () => write(read().filter((other) => other.name !== view.name)));
    whole.append(link, forget);
    return whole;
  };

  const saving = () => {
    const form = made("form", "", { class: "view" });
    const name = made("input", "", { "aria-label": "Name of this view", placeholder: "Name of this view", maxlength: "40", required: "" });
    form.append(name, made("button", "Save"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const view = { name: name.value.trim(), query: place.dataset.query };
      if (view.name) write([...read().filter((other) => other.name !== view.name), view].slice(-MOST));
    });
    name.addEventListener("keydown", (event) => { if (event.key === "Escape") show(); });
    return [form, name];
  };

  const show = () => {
    const views = read();
    place.replaceChildren(...views.map(chip));
    if (!place.dataset.query || views.some((view) => view.query === place.dataset.query)) return;
    const save = made("button", "Save this view", { type: "button", class: "copy" });
    save.addEventListener("click", () => {
      const [form, name] = saving();
      save.replaceWith(form);
      name.focus();
    });
    place.append(save);
  };

  addEventListener("storage", (event) => { if (event.key === KEY) show(); });
  show();
})();
