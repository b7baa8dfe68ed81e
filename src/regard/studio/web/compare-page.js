// Compare: two runs side by side at the same place, and what changed from one to the other.

import { start } from "./base.js";
import { el } from "./dom.js";
import { address, read, views, within } from "./page.js";
import { css, heat } from "./scale.js";
import { ask } from "./asking.js";
import { ServedRun } from "./served.js";
import { summary } from "./run-page.js";

/** @typedef {import("./base.js").State} State */

/** @param {HTMLElement} main @param {State} state @param {AbortSignal} until */
export async function showCompare(main, state, until) {
  const ids = [String(state.run ?? ""), String(state.other ?? "")];
  const [sources, abouts] = await Promise.all([
    Promise.all(ids.map((id) => ServedRun.open(id))),
    Promise.all(ids.map(summary)),
  ]);
  if (until.aborted) return;
  const tabs = el("div", { role: "tablist", "aria-label": "Views" });
  const pair = el("div", { class: "pair" });
  const choices = el("div", { class: "bar" });
  const all = views(sources[0].info).filter(([name]) => name !== "shift");
  let shown = "";
  /** @type {any[]} */
  let elements = [];

  const change = (/** @type {Partial<State>} */ changed) => {
    const next = { ...read(location.hash, start()), ...changed };
    history.pushState(null, "", address(/** @type {State} */ (next)));
    draw();
  };
  const draw = () => {
    const now = within(read(location.hash, start()), sources[0].info);
    const current = all.find(([name]) => name === now.view) ?? all[0];
    tabs.replaceChildren(...all.map(([name, title]) => el("button", {
      role: "tab", "aria-selected": String(name === current[0]), onclick: () => change({ view: name }),
    }, title)));
    choices.replaceChildren(
      picker("Layer", now.layer, sources[0].info.layers.length, (layer) => change({ layer })),
      picker("Head", now.head, sources[0].info.layers[now.layer].heads, (head) => change({ head }), true),
    );
    if (shown !== current[2]) {
      shown = current[2];
      elements = sources.map((source) => Object.assign(document.createElement(current[2]), { source }));
      pair.replaceChildren(...elements.map((element, n) => el("section", {}, el("h2", {}, abouts[n].name), element)));
    }
    elements.forEach((element, n) => {
      element.state = within(now, sources[n].info);
    });
  };
  pair.addEventListener("regard-change", (event) => change(/** @type {CustomEvent} */ (event).detail));
  addEventListener("popstate", draw, { signal: until });
  addEventListener("hashchange", draw, { signal: until });
  const effect = el("div", {});
  main.append(el("h1", {}, "Two runs side by side"), choices, el("div", { class: "tabs" }, tabs), pair, el("h2", {}, "What changed"), effect);
  draw();
  try {
    effect.append(changes(await ask(`/api/effect?${new URLSearchParams({ run: ids[0], other: ids[1] })}`), sources[0]));
  } catch (error) {
    effect.append(el("p", { class: "faint" }, /** @type {Error} */ (error).message));
  }
}

/** @param {string} title @param {number | null} now @param {number} count @param {(n: any) => void} chosen
 * @param {boolean} [all] */
function picker(title, now, count, chosen, all = false) {
  return el("label", {}, title, el("select", {
    onchange: (event) => {
      const { value } = /** @type {HTMLSelectElement} */ (event.target);
      chosen(value === "" ? null : Number(value));
    },
  }, all && el("option", { value: "", selected: now === null }, "all"),
  ...Array.from({ length: count }, (_, n) => el("option", { value: n, selected: n === now }, n))));
}

/** How much each token's vector changed, block by block. @param {{ blocks: any[] }} found @param {ServedRun} source */
function changes({ blocks }, source) {
  const tokens = source.info.sequences[0]?.tokens ?? [];
  return el("div", { class: "scroll" }, el("table", { class: "fit" },
    el("thead", {}, el("tr", {}, ...["After", "Mean change", "Largest", "At"].map((name, n) =>
      el("th", { scope: "col", class: (n === 1 || n === 2) && "number" }, name)))),
    el("tbody", {}, ...blocks.map(({ name, relative }) => {
      const numbers = relative.filter((/** @type {any} */ x) => typeof x === "number");
      const mean = numbers.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0) / Math.max(1, numbers.length);
      const most = Math.max(0, ...numbers);
      const at = relative.indexOf(most);
      const cell = el("td", { class: "number" }, percent(mean));
      cell.style.boxShadow = `inset 4px 0 ${css(heat(Math.min(1, mean)))}`;
      return el("tr", {}, el("td", {}, name), cell, el("td", { class: "number" }, percent(most)),
        el("td", {}, most > 0 ? (tokens[at]?.text ?? String(at)) : ""));
    }))),
  el("p", { class: "faint" }, "Change: the length of the difference, as a share of the vector's own."));
}

/** @param {number} share */
function percent(share) {
  return `${(share * 100).toFixed(2)} %`;
}
