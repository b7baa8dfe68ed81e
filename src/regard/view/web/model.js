// <regard-model>: every head of every layer as a small map, in its place or sorted by what it does.

import { RegardElement } from "./base.js";
import { el, field, refill, toggle } from "./dom.js";
import { Card, KINDS, colourOf, short, spoken } from "./model_card.js";
import { CSS, SIDE } from "./model_style.js";
import { pacer } from "./pause.js";
import { legend, paint } from "./scale.js";
import { compact } from "./source.js";
import { isDark } from "./theme.js";
import { headKind } from "./told.js";
import { word } from "./words.js";

/**
 * @import { HeadInfo, RunSource } from "./source.js"
 * @typedef {"entropy" | "distance" | "first" | "previous" | "self" | "induction"} Measure
 * @typedef {{ head: HeadInfo, button: HTMLButtonElement, canvas: HTMLCanvasElement, number: HTMLElement }} Cell
 */

/** @type {Record<string, [string, string]>} in the list of choices; in words */
const SORTS = {
  place: [word("model.by_place"), ""],
  kind: [word("model.by_kind"), ""],
  entropy: [word("model.by_entropy"), word("model.by_entropy_about")],
  distance: [word("model.by_distance"), word("model.by_distance_about")],
  first: [word("model.by_first"), word("model.by_first_about")],
  previous: [word("model.by_previous"), word("model.by_previous_about")],
  self: [word("model.by_self"), word("model.by_self_about")],
  induction: [word("model.by_induction"), word("model.by_induction_about")],
};

const SMALLEST = 1e-3; // where logarithmic colours begin, of a row's weight
const HIGH = 860; // pixels that all layers should fit in, if their pictures stay legible
const LEGIBLE = 56; // pixels of a picture

/** @param {HeadInfo} head */
function nameOf({ layer, head }) {
  return `${layer}.${head}`;
}

/** @extends {RegardElement<RunSource>} */
export class RegardModel extends RegardElement {
  static css = CSS;

  /** @type {RunSource | null} */
  #asked = null;
  /** @type {Map<string, Cell>} */
  #cells = new Map();
  /** @type {Cell[]} those that are there, in the order that they stand in */
  #order = [];
  /** @type {Cell | null} */
  #shown = null;
  #laid = "";
  #look = "";
  /** @type {Set<Cell>} in sight, or nearly */
  #near = new Set();
  /** @type {Set<Cell>} */
  #due = new Set();
  #working = false;
  #missing = false;
  #seen = new IntersectionObserver((entries) => this.#sighted(entries), { rootMargin: "300px" });

  #about = el("p", { class: "about faint" });
  #bar = el("div", { class: "bar" });
  #heads = el("div", { class: "heads", role: "group" });
  #both = el("div", { class: "both" });
  #card = new Card();
  #kinds = el("div", { class: "kinds", role: "group", "aria-label": word("model.kinds") });
  #scale = el("div");
  #note = el("p", { class: "faint", role: "note" });

  resized() {
    this.changed();
  }

  get #sort() {
    const sort = this.said("sort", "place");
    return sort in SORTS ? sort : "place";
  }

  /** Whether small numbers come first. */
  get #upwards() {
    const order = this.said("order", "");
    return order === "up" || (order === "" && ["place", "entropy"].includes(this.#sort));
  }

  /** @param {RunSource} source */
  update(source) {
    if (!this.root.contains(this.#both)) this.#build();
    if (source !== this.#asked) this.#made(source);
    const log = this.said("model-scale", "log") !== "linear";
    const look = `${this.state.sequence} ${log} ${isDark()}`;
    if (look !== this.#look) {
      this.#look = look;
      for (const cell of this.#cells.values()) cell.button.style.setProperty("--kind", colourOf(cell.head.kind));
      this.#scale.replaceChildren(legend(this.#range, word("model.share")));
      this.#due = new Set(this.#cells.values());
      this.#work();
      this.#enlarge();
    }
    this.#controls(source, log);
    this.#lay(source);
    this.#mark();
  }

  get #range() {
    return { log: this.said("model-scale", "log") !== "linear", least: SMALLEST, most: 1 };
  }

  #build() {
    const side = el("div", { class: "side" }, this.#card.element, this.#kinds, this.#scale, this.#note);
    this.#both.replaceChildren(this.#heads, side);
    this.root.replaceChildren(this.#about, this.#bar, this.#both);
    const cellOf = (/** @type {Event} */ event) => {
      const button = event.target instanceof Element ? event.target.closest(".head") : null;
      return button instanceof HTMLElement ? this.#cells.get(button.dataset.head ?? "") : undefined;
    };
    this.#heads.addEventListener("click", (event) => {
      const cell = cellOf(event);
      if (cell !== undefined) this.say({ layer: cell.head.layer, head: cell.head.head, view: "atlas" });
    });
    for (const name of ["pointerover", "focusin"]) {
      this.#heads.addEventListener(name, (event) => {
        const cell = cellOf(event);
        if (cell !== undefined) this.#show(cell);
      });
    }
    this.#heads.addEventListener("keydown", (event) => {
      const cell = cellOf(event);
      const next = cell === undefined ? undefined : this.#beside(cell, event.key);
      if (next === undefined) return;
      event.preventDefault();
      next.button.focus();
    });
  }

  /** @param {RunSource} source */
  #made(source) {
    this.#asked = source;
    this.#seen.disconnect();
    this.#cells.clear();
    this.#near.clear();
    this.#laid = this.#look = "";
    this.#shown = null;
    this.#missing = false;
    for (const head of source.info.heads) {
      const canvas = el("canvas", { "aria-hidden": "true" });
      const number = el("span", { class: "number" });
      const button = el("button", {
        class: "head", type: "button", tabindex: -1, "data-head": nameOf(head), "aria-label": spoken(head),
      }, canvas, number);
      this.#cells.set(nameOf(head), { head, button, canvas, number });
      this.#seen.observe(button);
    }
  }

  // ── order ─────────────────────────────────────────────────────────────────────────────────────

  /** @param {HeadInfo} head @returns {number | null} */
  #number(head) {
    const sort = this.#sort;
    if (sort === "place") return null;
    return sort === "kind" ? head.score : head[/** @type {Measure} */ (sort)];
  }

  /** @returns {Cell[]} */
  #sorted() {
    const way = this.#upwards ? 1 : -1;
    const kind = this.said("kind", "");
    const place = this.#sort === "place";
    const all = [...this.#cells.values()];
    const cells = all.filter(({ head }) => kind === "" || head.kind === kind);
    if (place) {
      // The others of its layer stay, so that each head stands in its column.
      const layers = new Set(cells.map(({ head }) => head.layer));
      return all.filter(({ head }) => layers.has(head.layer));
    }
    const rank = (/** @type {HeadInfo} */ head) => KINDS.findIndex(([name]) => name === head.kind);
    return cells.sort((a, b) => {
      if (this.#sort === "kind" && rank(a.head) !== rank(b.head)) return rank(a.head) - rank(b.head);
      const [x, y] = [this.#number(a.head), this.#number(b.head)];
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      return (x - y) * way;
    });
  }

  /** Put the heads where they belong, if that has changed. @param {RunSource} source */
  #lay(source) {
    const place = this.#sort === "place";
    const kind = this.said("kind", "");
    const space = this.clientWidth;
    const narrow = space < 720;
    const columns = Math.max(1, ...source.info.layers.map(({ heads }) => heads));
    const room = (narrow ? space : space - SIDE - 20) - 38;
    const across = room / columns - 3;
    const down = Math.max(LEGIBLE, HIGH / Math.max(1, source.info.layers.length)) - 3;
    const size = place ? Math.floor(Math.max(narrow ? 26 : 40, Math.min(96, across, down))) : 60;
    const laid = [this.#sort, this.#upwards, kind, size, narrow].join(" ");
    if (laid === this.#laid) return;
    this.#laid = laid;
    this.#both.classList.toggle("narrow", narrow);
    this.#heads.classList.toggle("place", place);
    this.#order = this.#sorted();
    const focused = this.root.activeElement;
    const layers = [...new Set(this.#order.map(({ head }) => head.layer))];
    for (const cell of this.#cells.values()) {
      const { head, button, canvas, number } = cell;
      canvas.style.width = canvas.style.height = `${size}px`;
      button.style.gridRow = place ? String(layers.indexOf(head.layer) + 2) : "";
      button.style.gridColumn = place ? String(head.head + 2) : "";
      button.classList.toggle("other", place && kind !== "" && head.kind !== kind);
      number.replaceChildren(word("model.short", { layer: head.layer, head: head.head }), el("b", {}, short(this.#number(head))));
    }
    this.#heads.style.gridTemplateColumns = place ? `26px repeat(${columns}, ${size}px)` : "";
    const tags = place ? this.#tags(source, columns, layers) : [];
    const none = this.#order.length === 0 ? [el("p", { class: "faint" }, word("model.no_kind"))] : [];
    this.#heads.replaceChildren(...tags, ...this.#order.map(({ button }) => button), ...none);
    if (focused instanceof HTMLElement && this.#heads.contains(focused)) focused.focus();
  }

  /** Numbers of layers and heads, along the edges. @param {RunSource} source @param {number} columns
   * @param {number[]} layers */
  #tags(source, columns, layers) {
    const tag = (
      /** @type {string} */ text, /** @type {number} */ row, /** @type {number} */ column, /** @type {string} */ title,
    ) =>
      el("span", { class: "tag", style: `grid-row:${row};grid-column:${column}`, title, "aria-hidden": "true" }, text);
    return [
      ...Array.from({ length: columns }, (_, n) => tag(word("model.head_tag", { head: n }), 1, n + 2, word("model.head", { head: n }))),
      ...layers.map((layer, n) => tag(word("model.layer_tag", { layer }), n + 2, 1,
        word("model.layer", { layer, name: source.info.layers[layer].name }))),
    ];
  }

  /** The head that is chosen, and the one that Tab leads to. */
  #mark() {
    const { layer, head } = this.state;
    const chosen = head === null ? undefined : this.#cells.get(`${layer}.${head}`);
    const held = this.#order.find(({ button }) => button === this.root.activeElement);
    const first = this.#order[0];
    const stop = held ?? (chosen !== undefined && this.#order.includes(chosen) ? chosen : first);
    for (const cell of this.#cells.values()) {
      cell.button.classList.toggle("chosen", cell === chosen);
      if (cell === chosen) cell.button.setAttribute("aria-current", "true");
      else cell.button.removeAttribute("aria-current");
      cell.button.tabIndex = cell === stop ? 0 : -1;
    }
    if (this.#shown === null) this.#show(chosen ?? first ?? null);
  }

  /** The head that an arrow leads to. @param {Cell} cell @param {string} key @returns {Cell | undefined} */
  #beside(cell, key) {
    const at = this.#order.indexOf(cell);
    const row = (/** @type {Cell} */ each) => each.button.offsetTop;
    const same = this.#order.filter((each) => row(each) === row(cell));
    if (key === "ArrowRight") return this.#order[at + 1];
    if (key === "ArrowLeft") return this.#order[at - 1];
    if (key === "Home") return same[0];
    if (key === "End") return same[same.length - 1];
    if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
    const way = key === "ArrowDown" ? 1 : -1;
    const beyond = this.#order.filter((each) => (row(each) - row(cell)) * way > 0);
    const next = Math.min(...beyond.map((each) => Math.abs(row(each) - row(cell))));
    const far = (/** @type {Cell} */ each) => Math.abs(each.button.offsetLeft - cell.button.offsetLeft);
    return beyond.filter((each) => Math.abs(row(each) - row(cell)) === next).sort((a, b) => far(a) - far(b))[0];
  }

  // ── pictures ──────────────────────────────────────────────────────────────────────────────────

  /** @param {IntersectionObserverEntry[]} entries */
  #sighted(entries) {
    for (const { target, isIntersecting } of entries) {
      const cell = this.#cells.get(/** @type {HTMLElement} */ (target).dataset.head ?? "");
      if (cell === undefined) continue;
      if (isIntersecting) this.#near.add(cell);
      else this.#near.delete(cell);
    }
    this.#work();
  }

  /** Paint what is due and in sight, a few milliseconds at a time. */
  async #work() {
    if (this.#working) return;
    this.#working = true;
    const breathe = pacer();
    for (;;) {
      const cell = this.#order.find((each) => this.#due.has(each) && this.#near.has(each));
      if (cell === undefined || this.source === null) break;
      const { source } = this;
      const look = this.#look;
      const tile = await this.#picture(source, cell);
      if (source !== this.#asked || look !== this.#look) continue;
      this.#due.delete(cell);
      if (tile === null) this.#lacking();
      else paint(cell.canvas, tile.values, tile.height, tile.width, this.#range);
      await breathe();
    }
    this.#working = false;
    this.drawn();
  }

  /** @param {RunSource} source @param {Cell} cell */
  async #picture(source, { head: { layer, head } }) {
    const { queries, keys } = source.info.layers[layer];
    try {
      return compact(await source.map(this.state.sequence, layer, head), queries, keys);
    } catch {
      return null;
    }
  }

  #lacking() {
    if (this.#missing) return;
    this.#missing = true;
    this.#note.textContent = word("model.lacking");
  }

  // ── the head that is pointed at ───────────────────────────────────────────────────────────────

  /** @param {Cell | null} cell */
  #show(cell) {
    if (cell === null || cell === this.#shown) return;
    this.#shown = cell;
    this.#enlarge();
    this.#card.tell(cell.head);
  }

  async #enlarge() {
    const cell = this.#shown;
    const { source } = this;
    if (cell === null || source === null) return;
    const look = this.#look;
    const tile = await this.#picture(source, cell);
    if (cell !== this.#shown || look !== this.#look || source !== this.#asked) return;
    const { picture } = this.#card;
    if (tile === null) picture.width = picture.height = 1;
    else paint(picture, tile.values, tile.height, tile.width, this.#range);
  }

  // ── controls ──────────────────────────────────────────────────────────────────────────────────

  /** @param {RunSource} source @param {boolean} log */
  #controls(source, log) {
    const { heads, layers } = source.info;
    this.#about.textContent = word("model.about", { heads: heads.length, layers: layers.length });
    const sort = this.#sort;
    const measured = (/** @type {string} */ name) => ["place", "kind"].includes(name) ||
      heads.some((head) => head[/** @type {Measure} */ (name)] !== null);
    const order = this.#upwards ? "down" : "up";
    const drawn = JSON.stringify([sort, order, log, this.said("kind", ""), this.#look]);
    if (this.#bar.dataset.drawn === drawn) return;
    this.#bar.dataset.drawn = drawn;
    const options = Object.entries(SORTS).filter(([name]) => measured(name)).map(([name, [title]]) =>
      el("option", { value: name, selected: name === sort }, title));
    const turn = el("button", { type: "button", name: "turn", onclick: () => this.say({ order }) },
      word(this.#upwards ? "model.up" : "model.down"));
    refill(this.#bar, [
      el("label", {}, word("model.sort"), el("select", {
        name: "sort",
        onchange: (event) => {
          const { value } = /** @type {HTMLSelectElement} */ (event.target);
          this.say({ sort: value === "place" ? null : value, order: null });
        },
      }, ...options)),
      ...(sort === "place" ? [] : [turn]),
      field(word("scale.colours"), word("scale.about"),
        toggle(word("scale.log"), log, word("model.log_about"), () => this.say({ "model-scale": null })),
        toggle(word("scale.linear"), !log, word("model.linear_about"), () => this.say({ "model-scale": "linear" }))),
      el("span", { class: "faint" }, SORTS[sort][1]),
    ]);
    this.#legend(source);
  }

  /** Kinds, how many heads there are of each, and what they are. @param {RunSource} source */
  #legend(source) {
    const now = this.said("kind", "");
    this.#heads.setAttribute("aria-label", word("model.spoken", { count: source.info.heads.length }));
    const kinds = KINDS.map(([name, means]) => {
      const count = source.info.heads.filter(({ kind }) => kind === name).length;
      return el("button", {
        type: "button", name, "data-kind": name, "aria-pressed": String(now === name), disabled: count === 0 && now !== name,
        title: word(now === name ? "model.all_kinds" : "model.only"),
        onclick: () => this.say({ kind: now === name ? null : name }),
      }, el("i", { style: `--kind:${colourOf(name)}` }), el("b", {}, headKind(name)), el("span", {}, count),
      el("small", {}, means));
    });
    refill(this.#kinds, kinds);
  }
}
customElements.define("regard-model", RegardModel);
