"use strict";
// The page's side: shows parts that the server sends, sends what the user does, and says so when the
// server has gone.
window.explorer = (() => {
  const root = document.documentElement;
  const preferred = () => {
    const chosen = localStorage.getItem("nmfmerge-theme");
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  let dark = preferred();
  root.dataset.theme = dark ? "dark" : "light";

  let shown = null; // the model that is shared with the server
  let count = 0;
  const parts = ["heading", "status", "buttons", "cards", "tools", "slider", "ranks", "fits", "pairs", "tree",
    "missing", "files", "caption"];

  function send(action, args = [], fields = {}) {
    if (shown) shown.action = JSON.stringify({ n: ++count, action, args, fields });
  }

  function show(part, value) {
    if (part === "other") return value && location.reload();
    if (part === "rank") {
      const slider = document.getElementById("rank");
      if (slider && document.activeElement !== slider) slider.value = value;
      if (slider && Number(slider.value) === value) slider.dataset.sent = value;
      const label = document.getElementById("rank-shown");
      if (label) label.textContent = value;
      return;
    }
    if (part === "selected") return select(value);
    const place = document.getElementById(part);
    const focus = document.activeElement;
    const inside = place.contains(focus) && focus.id ? focus : null;
    const typed = inside && inside.matches("input:not([type=range]), select") && inside.dataset.typed
      ? inside.value : null;
    const scroll = place.parentElement.scrollTop;
    const action = place.contains(focus) && focus.dataset ? focus.dataset.action : null;
    const given = action ? focus.dataset.args : null;
    place.innerHTML = value;
    place.parentElement.scrollTop = scroll;
    if (inside) {
      const again = document.getElementById(inside.id);
      if (again) {
        if (typed !== null) { again.value = typed; again.dataset.typed = "yes"; }
        again.focus({ preventScroll: true });
      }
    } else if (action) {
      const again = [...place.querySelectorAll(`[data-action="${action}"]`)]
        .find((element) => element.dataset.args === given);
      if (again) again.focus({ preventScroll: true });
    }
    if (part === "files" && place.querySelector(".question")) tab("files");
    if (part === "slider" && shown) show("rank", shown.rank);
    if (part === "cards" && shown) select(shown.selected);
  }

  function select(i) {
    for (const card of document.querySelectorAll(".card")) {
      const chosen = card.dataset.args === `[${i}]`;
      card.classList.toggle("selected", chosen);
      card.setAttribute("aria-pressed", chosen);
      if (chosen) reveal(card);
    }
  }

  // Scroll the list of components to one of them: never the page, where they are a strip.
  function reveal(card) {
    const list = document.getElementById("cards");
    if (getComputedStyle(list).display === "flex") {
      list.scrollLeft = card.offsetLeft - (list.clientWidth - card.offsetWidth) / 2;
    } else card.scrollIntoView({ block: "nearest" });
  }

  function tab(name) {
    for (const button of document.querySelectorAll("[data-tab]")) {
      button.setAttribute("aria-selected", button.dataset.tab === name);
    }
    for (const panel of document.querySelectorAll("[data-panel]")) {
      panel.hidden = panel.dataset.panel !== name;
    }
  }

  document.addEventListener("click", (event) => {
    const tabbed = event.target.closest("[data-tab]");
    if (tabbed) return tab(tabbed.dataset.tab);
    const target = event.target.closest("button[data-action], rect[data-action]");
    if (target) send(target.dataset.action, JSON.parse(target.dataset.args || "[]"));
  });
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-action]");
    if (!form) return;
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(form));
    for (const input of form.elements) delete input.dataset.typed;
    if (document.activeElement) document.activeElement.blur();
    send(form.dataset.action, JSON.parse(form.dataset.args || "[]"), fields);
  });
  document.addEventListener("change", (event) => {
    const { choose } = event.target.dataset;
    if (!choose) return;
    event.target.blur(); // so that keys work again
    send(choose, [event.target.value]);
  });
  document.addEventListener("input", (event) => {
    const target = event.target;
    target.dataset.typed = "yes";
    if (target.dataset.input === "rank" && target.dataset.sent !== target.value) {
      target.dataset.sent = target.value;
      document.getElementById("rank-shown").textContent = target.value;
      send("rank", [Number(target.value)]);
    }
  });

  const keys = {
    ArrowDown: ["next"], ArrowUp: ["previous"], ArrowLeft: ["rank-by", [-1]], ArrowRight: ["rank-by", [1]],
    m: ["merge"], a: ["add"], s: ["split"], Delete: ["remove"], h: ["hold"], p: ["polish"], Escape: ["cancel"],
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (document.querySelector("dialog[open]") || event.altKey) return;
    if (event.ctrlKey || event.metaKey) {
      if (key === "s") send("save");
      else if (typing && event.target.type !== "range") return;
      else if (key === "z") send(event.shiftKey ? "redo" : "undo");
      else if (key === "y") send("redo");
      else return;
      event.preventDefault();
      return;
    }
    if (typing && key !== "Escape") return;
    if (key === "?") document.getElementById("key-list").showModal();
    else if (key === "r") {
      const name = document.getElementById("name");
      if (name) { name.focus(); name.select(); }
    } else if (keys[key]) {
      if (key === "m") tab("merge");
      if (key === "Escape" && document.activeElement) document.activeElement.blur();
      send(...keys[key]);
    } else return;
    event.preventDefault();
  });

  // A server that is gone, or a connection that broke while the server went on.
  let lost = false;
  async function look() {
    let alive = false;
    try {
      alive = (await fetch("alive", { cache: "no-store" })).ok;
    } catch { /* not there */ }
    if (alive && lost) return location.reload();
    if (alive && shown) {
      if (shown.heard < shown.beat - 3) return location.reload(); // the server goes on without this tab
      shown.beat += 1;
    }
    if (!alive && !lost) {
      lost = true;
      const { edits, file } = document.body.dataset;
      const kept = edits ? `Your edits are kept in ${edits}. ` : "";
      const again = file ? `Start it again with: nmfmerge explore ${file}` : "Start it again where you began.";
      document.getElementById("lost-text").textContent =
        `The server of this page does not answer. ${kept}${again}`;
      document.getElementById("lost").hidden = false;
    }
  }

  function paint() {
    root.dataset.theme = dark ? "dark" : "light";
    if (shown) shown.dark = dark;
  }

  // A finger that moves over a figure scrolls the page; two fingers zoom.
  function touch() {
    if (!matchMedia("(pointer: coarse)").matches) return;
    for (const plot of Bokeh.documents[0].roots()) {
      for (const tool of plot.toolbar.tools) {
        if (tool.active && tool.event_types.includes("pan")) tool.active = false;
      }
    }
  }

  function ready(model) {
    shown = model;
    touch();
    for (const part of parts) show(part, shown[part]);
    show("rank", shown.rank);
    paint();
    root.dataset.ready = "yes";
    look();
  }

  document.addEventListener("DOMContentLoaded", () => {
    tab("ranks");
    setInterval(look, 2000);
    document.getElementById("again").onclick = look;
    document.getElementById("keys").onclick = () => document.getElementById("key-list").showModal();
    document.getElementById("theme").onclick = () => {
      dark = !dark;
      localStorage.setItem("nmfmerge-theme", dark ? "dark" : "light");
      paint();
    };
    const wait = setInterval(() => {
      const model = window.Bokeh?.documents?.[0]?.get_model_by_name("shown");
      if (model) { clearInterval(wait); ready(model); }
    }, 20);
  });
  return { show, send };
})();
