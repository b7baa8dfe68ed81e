// Compare: two runs side by side at the same place, and what changed from one to the other.

import { start } from "./base.js";
import { el } from "./dom.js";
import { address, read, views, within } from "./page.js";
import { css, heat } from "./scale.js";
import { ask } from "./asking.js";
import { ServedRun } from "./served.js";
import { summary } from "./run-page.js";
import { why } from "./told.js";
import { word } from "./words.js";

/** @typedef {import("./base.js").State} State @typedef {(number[] | null)[]} Moved */

const NOTHING = 1e-6; // a share that is only rounding
const MOST = 5; // heads that are named

/** @param {HTMLElement} main @param {State} state @param {AbortSignal} until */
export async function showCompare(main, state, until) {
  const ids = [String(state.run ?? ""), String(state.other ?? "")];
  const [sources, abouts] = await Promise.all([
    Promise.all(ids.map((id) => ServedRun.open(id))),
    Promise.all(ids.map(summary)),
  ]);
  if (until.aborted) return;
  const tabs = el("div", { role: "tablist", "aria-label": word("page.views") });
  const pair = el("div", { class: "pair" });
  const choices = el("div", { class: "bar" });
  const [cut, weights, effect] = [0, 1, 2].map(() => el("div", {}));
  const here = el("p", { "aria-live": "polite" });
  /** Of each layer, of each head, which share of its weight is elsewhere. @type {Moved} */
  let moved = [];
  const all = views().filter(([name]) => name !== "shift");
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
      picker(word("page.layer"), now.layer, sources[0].info.layers.length, (layer) => change({ layer })),
      picker(word("page.head"), now.head, sources[0].info.layers[now.layer].heads, (head) => change({ head }), true),
    );
    if (shown !== current[2]) {
      shown = current[2];
      elements = sources.map((source) => Object.assign(document.createElement(current[2]), { source }));
      pair.replaceChildren(...elements.map((element, n) => el("section", {}, el("h2", {}, abouts[n].name), element)));
    }
    here.textContent = moved[now.layer] ? hereMoved(now, moved) : "";
    elements.forEach((element, n) => {
      element.state = within(now, sources[n].info);
    });
  };
  pair.addEventListener("regard-change", (event) => change(/** @type {CustomEvent} */ (event).detail));
  addEventListener("popstate", draw, { signal: until });
  addEventListener("hashchange", draw, { signal: until });
  main.append(
    el("h1", {}, word("compare.title")), choices, cut, el("div", { class: "tabs" }, tabs), here, pair,
    el("h2", {}, word("compare.weights")), weights);
  draw();
  if (readOthers(sources[0].info, sources[1].info)) {
    weights.replaceChildren(el("p", {}, word("compare.other_tokens")));
    return;
  }
  main.append(el("h2", {}, word("compare.vectors")), effect);
  const both = String(new URLSearchParams({ run: ids[0], other: ids[1] }));
  const fill = async (/** @type {HTMLElement} */ place, /** @type {() => Promise<Node>} */ make) => {
    place.replaceChildren(el("p", { class: "faint" }, word("progress.waiting")));
    try {
      place.replaceChildren(await make());
    } catch (error) {
      if (!until.aborted) place.replaceChildren(el("p", { class: "faint" }, why(error)));
    }
  };
  await Promise.all([
    fill(weights, async () => {
      moved = (await ask(`/api/moved?${both}`)).layers;
      cut.replaceChildren(...aboutCut(sources, moved, change));
      draw();
      return weightChanges(moved, change);
    }),
    fill(effect, async () => changes(await ask(`/api/effect?${both}`), sources[0])),
  ]);
}

/** Whether two runs are known to have read other tokens. @param {import("./source.js").RunInfo} info
 * @param {import("./source.js").RunInfo} other */
function readOthers(info, other) {
  const [one, two] = [info, other].map(({ sequences }) => sequences.map(({ tokens }) => tokens?.map(({ text }) => text) ?? null));
  return [...one, ...two].every((tokens) => tokens !== null) && JSON.stringify(one) !== JSON.stringify(two);
}

/** @param {string} title @param {number | null} now @param {number} count @param {(n: any) => void} chosen
 * @param {boolean} [all] */
function picker(title, now, count, chosen, all = false) {
  return el("label", {}, title, el("select", {
    onchange: (event) => {
      const { value } = /** @type {HTMLSelectElement} */ (event.target);
      chosen(value === "" ? null : Number(value));
    },
  }, all && el("option", { value: "", selected: now === null }, word("page.all")),
  ...Array.from({ length: count }, (_, n) => el("option", { value: n, selected: n === now }, n))));
}

/** How far the weights that are shown differ. @param {State} state @param {Moved} moved */
function hereMoved({ layer, head }, moved) {
  const shares = moved[layer] ?? [];
  const share = head === null ? mean(shares) : shares[head];
  const place = head === null ? word("compare.all_heads", { layer }) : word("compare.head", { head, layer });
  return word(share <= NOTHING ? "compare.same" : "compare.differ", { place, share: percent(share) });
}

/** The heads whose weights changed most. @param {Moved} moved @returns {{ layer: number, head: number, share: number }[]} */
function mostMoved(moved) {
  const all = moved.flatMap((shares, layer) => (shares ?? []).map((share, head) => ({ layer, head, share })));
  return all.filter(({ share }) => share > NOTHING).sort((a, b) => b.share - a.share).slice(0, MOST);
}

/** What was cut on the right, and what follows from it. @param {ServedRun[]} sources @param {Moved} moved
 * @param {(changed: Partial<State>) => void} change @returns {HTMLElement[]} */
function aboutCut([{ info }, other], moved, change) {
  const before = new Set(info.ablated.map(String));
  const heads = other.info.ablated.filter((pair) => !before.has(String(pair)));
  if (heads.length === 0) return [];
  const names = heads.map(([layer, head]) => word("compare.head", { layer, head })).join(word("compare.and"));
  const most = mostMoved(moved);
  const buttons = most.map(({ layer, head, share }) => el("button", {
    type: "button", onclick: () => change({ layer, head }),
  }, word("compare.most_head", { layer, head, share: percent(share) })));
  return [
    el("p", {}, word(heads.length === 1 ? "compare.cut" : "compare.cut_several", { heads: names })),
    most.length === 0
      ? el("p", { class: "faint" }, word("compare.no_weights"))
      : el("div", { class: "bar" }, word("compare.most"), ...buttons),
  ];
}

/** How far the weights of each layer moved. @param {Moved} moved @param {(changed: Partial<State>) => void} change */
function weightChanges(moved, change) {
  const rows = moved.map((shares, layer) => {
    if (shares === null) return el("tr", {}, el("td", {}, layer), el("td", { colspan: 3, class: "faint" }, word("compare.unknown")));
    const most = Math.max(0, ...shares);
    const head = shares.indexOf(most);
    return el("tr", {}, el("td", {}, layer), shaded(mean(shares)), el("td", { class: "number" }, percent(most)),
      el("td", {}, most > NOTHING && el("button", { type: "button", onclick: () => change({ layer, head }) }, word("compare.in_head", { head }))));
  });
  return el("div", { class: "scroll" },
    table([word("compare.layer"), word("compare.mean_heads"), word("compare.largest"), word("compare.in")], rows),
    el("p", { class: "faint" }, word("compare.share")));
}

/** @param {number[]} numbers */
function mean(numbers) {
  return numbers.reduce((a, b) => a + b, 0) / Math.max(1, numbers.length);
}

/** @param {number} share */
function shaded(share) {
  const cell = el("td", { class: "number" }, percent(share));
  cell.style.boxShadow = `inset 4px 0 ${css(heat(Math.min(1, share)))}`;
  return cell;
}

/** A table whose second and third columns are numbers. @param {string[]} titles @param {HTMLElement[]} rows */
function table(titles, rows) {
  return el("table", { class: "fit" },
    el("thead", {}, el("tr", {}, ...titles.map((title, n) => el("th", { scope: "col", class: (n === 1 || n === 2) && "number" }, title)))),
    el("tbody", {}, ...rows));
}

/** How much each token's vector changed, block by block. @param {{ blocks: any[] }} found @param {ServedRun} source */
function changes({ blocks }, source) {
  const tokens = source.info.sequences[0]?.tokens ?? [];
  const rows = blocks.map(({ name, relative }) => {
    const numbers = relative.filter((/** @type {any} */ x) => typeof x === "number");
    const most = Math.max(0, ...numbers);
    const at = relative.indexOf(most);
    return el("tr", {}, el("td", {}, name), shaded(mean(numbers)), el("td", { class: "number" }, percent(most)),
      el("td", {}, most > 0 ? (tokens[at]?.text ?? String(at)) : ""));
  });
  return el("div", { class: "scroll" },
    table([word("compare.after"), word("compare.mean"), word("compare.largest"), word("compare.at")], rows),
    el("p", { class: "faint" }, word("compare.change")));
}

/** @param {number} share */
function percent(share) {
  return `${(share * 100).toFixed(2)} %`;
}
