// Heads over many texts: a grid coloured by a statistic, how it is distributed, and the texts that show it most.

import { RegardElement } from "./base.js";
import { el, field, many, refill, svg, toggle, visible } from "./dom.js";
import { short } from "./model_card.js";
import { css, heat, inkOn, legend } from "./scale.js";
import { IN_ENGLISH, headKind } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {"entropy" | "spread" | "distance" | "first" | "self" | "previous" | "induction"} Statistic
 * What is known of a statistic of a head over the tokens of all texts.
 * @typedef {{ mean: number, least: number, q05: number, q25: number, median: number, q75: number, q95: number, most: number }} Numbers
 * By statistic, layer and head: numbers, the share of the tokens in each bar, and texts: id, value, place of the link.
 * @typedef {{
 *   name: string, model: string, finished: boolean, done: number, units: number, texts: Record<string, [string, number, number, string]>,
 *   counted: number, read: number, tokens: number, layers: { name: string, heads: number }[], notes: string[],
 *   reasons: Record<string, number>, min_weight: number, n: number, statistics: Statistic[], kinds: string[][],
 *   scale: Record<Statistic, number>, grids: Record<Statistic, (Numbers | null)[][]>, bars: Record<Statistic, (number[] | null)[][]>,
 *   most: Record<Statistic, [number, number, number][][][]>, links: [string | null, string | null, number][],
 * }} CorpusDocument
 */

const WIDE = 420;
const TALL = 130;

/**
 * Shows a corpus. The state `by` is the statistic that heads are coloured by; `layer` and `head` are
 * the head that is told of, unless set the one that has most of it.
 * @extends {RegardElement<CorpusDocument>}
 */
class RegardCorpus extends RegardElement {
  static css = `
    p { margin: 2px 0 8px; max-width: 60em; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 0 0 4px; overflow-wrap: anywhere; } h3 { font-size: 15px; margin: 16px 0 4px; }
    .both { display: flex; flex-wrap: wrap; gap: 20px 32px; align-items: flex-start; }
    .wide { overflow-x: auto; max-width: 100%; min-width: 0; padding: 3px; box-sizing: border-box; }
    .side { flex: 1 1 420px; min-width: 0; }
    .bar .field, .bar .group { flex-wrap: wrap; max-width: 100%; }
    table { border-collapse: separate; border-spacing: 2px; font-variant-numeric: tabular-nums; }
    th { font-weight: 400; font-size: 12px; color: var(--faint); padding: 0 4px; }
    td { padding: 0; } td button { width: 46px; height: 30px; padding: 0; border-radius: 3px; border-color: transparent; font-size: 12.5px; }
    td button:disabled { cursor: default; background: none; }
    td button[aria-pressed="true"] { outline: 3px solid var(--ink); outline-offset: 1px; color: inherit; }
    td button:focus-visible { outline: 3px solid var(--accent); outline-offset: 1px; }
    figure { margin: 6px 0; max-width: ${WIDE}px; } figure svg { display: block; width: 100%; height: auto; }
    figure text { font: 12px var(--sans); fill: var(--faint); }
    ol { list-style: none; margin: 0; padding: 0; }
    ol li { display: grid; grid-template-columns: 58px 1fr; gap: 0 10px; padding: 6px 0; border-top: 1px solid var(--edge); }
    ol b { text-align: right; font-variant-numeric: tabular-nums; font-weight: 600; } ol div { min-width: 0; overflow-wrap: anywhere; }
    .link { font-family: var(--mono); font-size: 13px; } .where { font-size: 13px; }
  `;

  #about = el("div");
  #bar = el("div", { class: "bar" });
  #tip = el("p", { class: "faint" });
  #grid = el("div", { class: "wide" });
  #legend = el("p");
  #side = el("section", { class: "side", "aria-live": "polite" });

  constructor() {
    super();
    this.root.append(this.#about, this.#bar, this.#tip,
      el("div", { class: "both" }, el("div", { class: "wide" }, this.#grid, this.#legend), this.#side));
  }

  /** @param {CorpusDocument} corpus */
  update(corpus) {
    const by = corpus.statistics.find((name) => name === this.said("by", "")) ?? "distance";
    const [layer, head] = this.#place(corpus, by);
    this.#about.replaceChildren(...aboutOf(corpus));
    refill(this.#bar, [field(word("corpus.by"), word("corpus.by_about"), ...corpus.statistics.map((name) =>
      toggle(word(`card.${name}`), name === by, word(`card.${name}_tip`), () => this.say({ by: name }))))]);
    this.#tip.textContent = word(`card.${by}_tip`);
    this.#draw(corpus, by, layer, head);
    this.#tell(corpus, by, layer, head);
  }

  /** The head that is told of. @param {CorpusDocument} corpus @param {Statistic} by @returns {[number, number]} */
  #place(corpus, by) {
    const { layer, head } = this.state;
    if (head !== null && corpus.grids[by][layer]?.[head] !== undefined) return [layer, head];
    /** @type {[number, number]} */
    let best = [0, 0];
    corpus.grids[by].forEach((row, n) => row.forEach((each, m) => {
      if ((each?.mean ?? -1) > (corpus.grids[by][best[0]]?.[best[1]]?.mean ?? -1)) best = [n, m];
    }));
    return best;
  }

  /** The grid. @param {CorpusDocument} corpus @param {Statistic} by @param {number} layer @param {number} head */
  #draw(corpus, by, layer, head) {
    const grid = corpus.grids[by];
    const most = Math.max(...grid.flat().map((each) => each?.mean ?? 0)) || 1;
    const widest = Math.max(0, ...grid.map((row) => row.length));
    const cell = (/** @type {Numbers | null} */ numbers, /** @type {number} */ n, /** @type {number} */ m) => {
      const colour = heat((numbers?.mean ?? 0) / most);
      const chosen = n === layer && m === head;
      const mean = numbers === null ? word("corpus.not_measured") : short(numbers.mean);
      return el("td", {}, el("button", {
        type: "button", name: `${n}.${m}`, "aria-pressed": String(chosen), tabindex: chosen ? 0 : -1,
        "aria-label": word("corpus.head", { layer: n, head: m, name: word(`card.${by}`), mean }),
        style: numbers === null ? "" : `background:${css(colour)};color:${inkOn(colour)}`,
        onclick: () => this.say({ layer: n, head: m }),
      }, numbers === null ? "–" : short(numbers.mean)));
    };
    const table = el("table", { "aria-label": word("corpus.grid") },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, word("why.layer_head")), ...Array.from({ length: widest }, (_, m) => el("th", { scope: "col" }, m)))),
      el("tbody", {}, ...grid.map((row, n) => el("tr", {}, el("th", { scope: "row" }, n), ...row.map((each, m) => cell(each, n, m))))));
    table.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      const next = step && [layer + step[0], head + step[1]];
      if (next === undefined || grid[next[0]]?.[next[1]] === undefined) return;
      event.preventDefault();
      this.say({ layer: next[0], head: next[1] });
    });
    refill(this.#grid, [table]);
    this.#focus(`${layer}.${head}`);
    this.#legend.replaceChildren(legend({ log: false, least: 0, most }, word("corpus.mean", { name: word(`card.${by}`) })));
  }

  /** Arrows take the focus along. @param {string} name */
  #focus(name) {
    const now = this.root.activeElement;
    if (!(now instanceof HTMLButtonElement) || now.name === name || !/^\d+\.\d+$/.test(now.name)) return;
    /** @type {HTMLElement | null} */ (this.#grid.querySelector(`button[name="${name}"]`))?.focus();
  }

  /** One head. @param {CorpusDocument} corpus @param {Statistic} by @param {number} layer @param {number} head */
  #tell(corpus, by, layer, head) {
    const numbers = corpus.grids[by][layer]?.[head] ?? null;
    const bars = corpus.bars[by][layer]?.[head] ?? null;
    const kind = corpus.kinds[layer]?.[head] ?? "mixed";
    const title = el("h2", {}, word("card.title", { layer, head, kind: headKind(kind) }));
    if (numbers === null || bars === null) {
      this.#side.replaceChildren(title, el("p", {}, word("corpus.not_measured")));
      return;
    }
    const rows = corpus.most[by][layer][head];
    const told = word("corpus.quantiles", { name: word(`card.${by}`), mean: short(numbers.mean), low: short(numbers.q05), median: short(numbers.median), high: short(numbers.q95) });
    this.#side.replaceChildren(
      title, el("p", {}, told),
      el("figure", {}, histogram(bars, corpus.scale[by], word("corpus.bars", { name: word(`card.${by}`) }))),
      el("h3", {}, word("corpus.most", { name: word(`card.${by}`), count: many(rows.length) })),
      el("ol", {}, ...rows.map((row) => textOf(corpus, row))),
      el("p", { class: "faint" }, word("corpus.error")),
    );
  }
}

/** What was read. @param {CorpusDocument} corpus @returns {HTMLElement[]} */
function aboutOf(corpus) {
  const about = word("corpus.about", { count: many(corpus.counted), model: corpus.model, read: many(corpus.read), tokens: many(corpus.tokens) });
  const parts = [el("p", {}, about)];
  const reasons = Object.entries(corpus.reasons);
  if (reasons.length > 0) {
    parts.push(el("p", {}, word("corpus.unread"), " ", el("span", IN_ENGLISH, reasons.map(([why, count]) => `${many(count)} ${why}`).join(", "))));
  }
  if (!corpus.finished) parts.push(el("p", {}, word("corpus.unfinished", { done: many(corpus.done), units: many(corpus.units) })));
  parts.push(...corpus.notes.map((note) => el("p", { class: "faint", ...IN_ENGLISH }, note)));
  return parts;
}

/** A text: its value, its beginning, where it stands, the head's strongest link in it.
 * @param {CorpusDocument} corpus @param {[number, number, number]} row */
function textOf(corpus, [id, value, place]) {
  const [source, position, tokens, beginning] = corpus.texts[id];
  const link = corpus.links[place];
  const told = link === undefined
    ? el("span", { class: "faint" }, word("corpus.no_link", { least: corpus.min_weight }))
    : el("span", { class: "link" }, `${visible(link[0] ?? "–")} → ${visible(link[1] ?? "–")} ${link[2].toFixed(2)}`);
  return el("li", {}, el("b", {}, short(value)), el("div", {},
    el("div", {}, beginning),
    el("div", {}, told),
    el("div", { class: "faint where" }, word("corpus.where", { id: many(id), source, position, tokens: many(tokens) }))));
}

/** How tokens are distributed, from 0 to the end of the scale; the last bar has all that is above.
 * @param {number[]} bars @param {number} scale @param {string} told */
function histogram(bars, scale, told) {
  const most = Math.max(...bars) || 1;
  const each = WIDE / bars.length;
  const drawn = bars.map((share, n) => {
    const height = (share / most) * (TALL - 24);
    const [from, to] = [n, n + 1].map((end) => short((end / bars.length) * scale));
    const range = n === bars.length - 1 ? word("corpus.bar_last", { from }) : word("corpus.bar", { from, to });
    const percent = short(share * 100);
    return svg("rect", { x: n * each + 0.5, y: TALL - 18 - height, width: each - 1, height, fill: "var(--hot)" }, svg("title", {}, word("corpus.share", { range, percent })));
  });
  const marks = [0, 0.25, 0.5, 0.75, 1].map((at) => svg("text", {
    x: at * WIDE, y: TALL - 4, "text-anchor": at === 0 ? "start" : at === 1 ? "end" : "middle",
  }, short(at * scale)));
  return svg("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, role: "img", "aria-label": told }, ...drawn, ...marks,
    svg("line", { x1: 0, x2: WIDE, y1: TALL - 18, y2: TALL - 18, stroke: "var(--edge)" }));
}

customElements.define("regard-corpus", RegardCorpus);
