// <regard-heads>: the links of a layer, from the words that look to the words that they look at.

import { RegardElement } from "./base.js";
import { el, many } from "./dom.js";
import { stroke } from "./heads_lines.js";
import { HeadLinks, STEPS } from "./heads_links.js";
import { Rows } from "./heads_rows.js";
import { HEADS_CSS } from "./heads_style.js";
import { Told } from "./heads_told.js";
import { ROW, Words } from "./heads_words.js";
import { onceAFrame, pause } from "./pause.js";
import { headColour } from "./scale.js";
import { headKind } from "./told.js";
import { word } from "./words.js";

/**
 * @import { RunInfo, RunSource } from "./source.js"
 * @import { Line } from "./heads_lines.js"
 * @import { Way } from "./heads_rows.js"
 * @import { Spot } from "./heads_words.js"
 */

/** @extends {RegardElement<RunSource>} */
export class RegardHeads extends RegardElement {
  static css = HEADS_CSS;

  #turn = 0;
  /** @type {RunSource | null} */
  #of = null;
  #read = "";
  /** Of each head, its links. @type {HeadLinks[]} */
  #heads = [];
  /** @type {Rows | null} */
  #rows = null;
  #least = 0.1;
  /** The heads that are shown. @type {number[]} */
  #shown = [];
  /** Whether links to the first word are left out. */
  #without = false;
  /** The head that is pointed at. @type {number | null} */
  #preview = null;
  /** @type {Spot | null} */
  #pointed = null;
  /** Where the arrow keys are. @type {Spot} */
  #cursor = { row: 0, way: "from" };
  #byKeys = false;
  #words;
  #beside = new Told();
  #told = "";

  constructor() {
    super();
    this.chips = el("span", { class: "chips", role: "group", "aria-label": word("heads.heads") });
    this.slider = el("input", { type: "range", min: 0, max: STEPS.length - 1, "aria-label": word("heads.least") });
    this.number = el("output", {});
    this.first = el("input", { type: "checkbox" });
    this.firstName = el("span", {});
    this.count = el("span", { class: "faint count", role: "status" });
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.window = el("div", { class: "window", role: "none" }, this.canvas);
    this.#words = new Words(this.window);
    this.tall = el("div", { role: "none" }, this.window);
    const label = word("heads.stage");
    this.stage = el("div", { class: "stage", role: "listbox", tabindex: 0, "aria-label": label }, this.tall);
    this.titles = el("div", { class: "titles faint" },
      el("span", {}, word("heads.from")), el("span", {}, word("heads.to")));
    this.nothing = el("p", { class: "nothing faint" });
    this.root.append(
      el("div", { class: "bar" }, el("span", { class: "faint" }, word("heads.heads")), this.chips),
      el("div", { class: "bar" },
        el("label", { class: "slider" }, word("heads.at_least"), this.slider, this.number),
        el("label", {}, this.first, this.firstName),
        this.count),
      el("div", { class: "both" },
        el("div", { class: "picture" }, this.titles, this.stage),
        this.#beside.element),
      this.#beside.spoken,
    );
    this.slider.addEventListener("input", () => this.say({ least: String(STEPS[Number(this.slider.value)]) }));
    this.first.addEventListener("change", () => this.say({ first: this.first.checked ? "without" : null }));
    this.stage.addEventListener("scroll", () => this.#plan());
    this.stage.addEventListener("pointermove", (event) => this.#point(this.#spotOf(event)));
    this.stage.addEventListener("pointerleave", () => this.#point(null));
    this.stage.addEventListener("pointerdown", () => (this.#byKeys = false));
    this.stage.addEventListener("click", (event) => this.#keep(this.#spotOf(event)));
    this.stage.addEventListener("keydown", (event) => this.#key(event));
    this.stage.addEventListener("focus", () => this.#useKeys(this.stage.matches(":focus-visible")));
    this.stage.addEventListener("blur", () => this.#useKeys(false));
    new ResizeObserver(() => this.#plan()).observe(this.stage);
  }

  /** @param {RunSource} source */
  async update(source) {
    const turn = ++this.#turn;
    const wanted = () => turn === this.#turn && this.isConnected;
    const { info } = source;
    const { sequence, layer, head } = this.state;
    if (!info.whole && info.top === 0) {
      this.root.replaceChildren(
        el("p", {}, word("heads.no_links")));
      return;
    }
    if (source !== this.#of) [this.#of, this.#read] = [source, ""];
    const read = [sequence, layer].join();
    if (read !== this.#read) {
      this.#read = "";
      const heads = await this.#load(source, wanted);
      if (heads === null) return;
      this.#lay(heads, new Rows(info, sequence, layer));
      this.#read = read;
    }
    const only = this.said("only", "all").split(",");
    const every = Array.from(this.#heads.keys());
    this.#shown = head !== null ? [head] : only[0] === "all" ? every : every.filter((n) => only.includes(String(n)));
    this.#without = this.said("first", "") === "without";
    const said = Number(this.said("least", "none"));
    this.#least = said >= 0 && said <= 1 ? said : this.#usualLeast();
    this.#drawChips(info);
    this.#drawBar();
    this.#told = "";
    this.#draw();
  }

  // ── what is shown ─────────────────────────────────────────────────────────────────────────

  /** The links of all heads, or null if they are not wanted any more.
   * @param {RunSource} source @param {() => boolean} wanted */
  async #load(source, wanted) {
    const { sequence, layer } = this.state;
    const { heads, keys, cross, position, real } = source.info.layers[layer];
    const isReal = real[sequence] ?? null;
    const counts = (/** @type {number} */ query) => cross || isReal === null || isReal[query + position];
    /** @type {HeadLinks[]} */
    const found = [];
    for (let head = 0; head < heads; head++) {
      this.count.textContent = word("heads.reading", { head: head + 1, heads });
      const links = await source.links(sequence, layer, head);
      await pause();
      if (!wanted()) return null;
      found.push(new HeadLinks(links, keys, counts));
    }
    return found;
  }

  /** Begin with other links. @param {HeadLinks[]} heads @param {Rows} rows */
  #lay(heads, rows) {
    this.#heads = heads;
    this.#rows = rows;
    this.#cursor = { row: 0, way: "from" };
    this.#pointed = null;
    this.tall.style.height = `${rows.count * ROW}px`;
    this.stage.style.height = `min(${rows.count * ROW + 2}px, max(240px, min(60vh, 100vh - 340px)))`;
    this.#words.forget();
    const kept = this.#kept();
    if (kept === null) this.stage.scrollTop = 0;
    else this.#reveal(kept.row);
  }

  /** How many links of these heads are as strong, without those that are left out.
   * @param {number[]} heads @param {number} least */
  #countOf(heads, least) {
    const key = this.#without ? (this.#rows?.keyOf[0] ?? -1) : -1;
    let sum = 0;
    for (const each of heads.map((n) => this.#heads[n])) {
      sum += each.atLeast(least);
      if (key >= 0) for (const link of each.ofKey(key)) if (each.weights[link] >= least) sum--;
    }
    return sum;
  }

  /** A weight that leaves three links a row, 0.2 at most. */
  #usualLeast() {
    const heads = this.state.head === null ? Array.from(this.#heads.keys()) : [this.state.head];
    const enough = 3 * (this.#rows?.count ?? 0);
    return STEPS.findLast((least) => least <= 0.2 && this.#countOf(heads, least) >= enough) ?? 0;
  }

  /** @param {RunInfo} info */
  #drawChips(info) {
    const every = Array.from(this.#heads.keys());
    const say = (/** @type {number[]} */ list) =>
      this.say({ head: null, only: list.length === every.length ? null : list.join() || "none" });
    if (this.chips.children.length !== every.length + 2) {
      this.chips.replaceChildren(
        ...every.map((n) => el("button", {
          onclick: () => say(every.filter((each) => this.#shown.includes(each) !== (each === n))),
          onpointerenter: () => this.#only(n),
          onpointerleave: () => this.#only(null),
          onfocus: () => this.#only(this.chips.children[n].matches(":focus-visible") ? n : null),
          onblur: () => this.#only(null),
        }, el("span", { class: "dot" }), String(n))),
        el("button", { onclick: () => say(every) }, word("heads.all")),
        el("button", { onclick: () => say([]) }, word("heads.none")),
      );
    }
    for (const { layer, head, kind } of info.heads) {
      if (layer !== this.state.layer) continue;
      const chip = /** @type {HTMLElement} */ (this.chips.children[head]);
      chip.title = word("heads.chip", { head, kind: headKind(kind) });
      chip.setAttribute("aria-label", word("heads.chip_name", { head, kind: headKind(kind) }));
    }
    for (const head of every) {
      const chip = /** @type {HTMLElement} */ (this.chips.children[head]);
      chip.setAttribute("aria-pressed", String(this.#shown.includes(head)));
      /** @type {HTMLElement} */ (chip.firstChild).style.background = headColour(head);
    }
  }

  #drawBar() {
    this.slider.value = String(STEPS.findLastIndex((step) => step <= this.#least));
    this.slider.setAttribute("aria-valuetext", String(this.#least));
    this.number.textContent = String(this.#least);
    this.first.checked = this.#without;
    this.firstName.textContent = word("heads.without_first", { word: this.#rows?.name(0, "to") ?? "" });
    const known = this.#heads.reduce((sum, each) => sum + each.order.length, 0);
    const shown = this.#countOf(this.#shown, this.#least);
    this.count.textContent = word("heads.count", { shown: many(shown), known: many(known) });
    this.count.title = word("heads.known", { count: this.#heads[0]?.count ?? 0 });
    const label = word("heads.lines", { shown, least: this.#least, heads: this.#shown.length });
    this.stage.setAttribute("aria-description", label);
    this.nothing.textContent = this.#shown.length === 0 ? word("heads.no_head")
      : shown === 0 ? word("heads.too_strong", { least: this.#least }) : "";
    if (this.nothing.textContent === "") this.nothing.remove();
    else this.window.append(this.nothing);
  }

  /** Show one head alone. @param {number | null} head */
  #only(head) {
    this.#preview = head;
    this.#plan();
  }

  /** The word whose links are shown alone: pointed at, gone to by keys, or kept by a click.
   * @returns {Spot | null} */
  #focused() {
    return this.#pointed ?? (this.#byKeys ? this.#cursor : this.#kept());
  }

  /** @returns {Spot | null} */
  #kept() {
    const { token } = this.state;
    if (token === null || this.#rows === null) return null;
    const way = this.said("way", "from") === "to" ? "to" : "from";
    const row = this.#rows.at(token, way);
    return row < 0 ? null : { row, way };
  }

  // ── the picture ───────────────────────────────────────────────────────────────────────────

  #plan = onceAFrame(() => {
    if (this.isConnected && this.#read !== "") this.#draw();
  });

  #draw() {
    const rows = this.#rows;
    if (rows === null) return;
    const [height, top] = [this.stage.clientHeight, this.stage.scrollTop];
    const [first, end] = [Math.floor(top / ROW), Math.min(rows.count, Math.ceil((top + height) / ROW))];
    this.window.style.height = `${height}px`;
    const focus = this.#focused();
    const heads = this.#preview === null ? this.#shown : [this.#preview];
    const lines = this.#lines(rows, heads, focus, first, end);
    stroke(this.canvas, lines, this.#heads.length, { height, top, row: ROW });
    const marks = { focus, kept: this.#kept(), cursor: this.#byKeys ? this.#cursor : null };
    const active = this.#words.place(rows, { first, end, top }, marks, lines.sort(byWeight));
    if (active === null) this.stage.removeAttribute("aria-activedescendant");
    else this.stage.setAttribute("aria-activedescendant", active);
    this.#tell(rows, heads, focus);
  }

  /** The lines of one word, or all lines with an end in these rows. Those to a key that come from above,
   * or from below, run together at the edge: of each head the strongest is drawn.
   * @param {Rows} rows @param {number[]} heads @param {Spot | null} focus @param {number} first
   * @param {number} end @returns {Line[]} */
  #lines(rows, heads, focus, first, end) {
    /** @type {Line[]} */
    const lines = [];
    const inSight = rows.queryOf.subarray(first, end).filter((query) => query >= 0);
    const [low, high] = [inSight[0] ?? 0, (inSight.at(-1) ?? -1) + 1];
    const isFocus = (/** @type {number} */ row, /** @type {Way} */ way) => focus?.row === row && focus.way === way;
    const [from, to] = focus === null ? [first, end] : [focus.row, focus.row + 1];
    for (let row = from; row < to; row++) {
      const [query, key] = [rows.queryOf[row], rows.keyOf[row]];
      for (const head of heads) {
        const links = this.#heads[head];
        if (query >= 0 && (focus === null || isFocus(row, "from"))) {
          for (const link of links.ofQuery(query)) this.#add(lines, rows, head, link);
        }
        if (key >= 0 && (focus === null || isFocus(row, "to"))) {
          const { before, within, behind } = links.around(key, low, high);
          for (const link of [before, behind]) if (link >= 0) this.#add(lines, rows, head, link);
          if (focus !== null) for (const link of within) this.#add(lines, rows, head, link);
        }
      }
    }
    return lines;
  }

  /** @param {Line[]} lines @param {Rows} rows @param {number} head @param {number} link */
  #add(lines, rows, head, link) {
    const links = this.#heads[head];
    const weight = links.weights[link];
    const [from, to] = [rows.ofQuery[links.query(link)], rows.ofKey[links.keys[link]]];
    if (weight < this.#least || from < 0 || to < 0 || (this.#without && to === 0)) return;
    lines.push({ head, weight, from, to });
  }

  /** Say what is seen, beside the picture. @param {Rows} rows @param {number[]} heads @param {Spot | null} focus */
  #tell(rows, heads, focus) {
    const told = JSON.stringify([heads, focus]);
    if (told === this.#told) return;
    this.#told = told;
    if (focus === null) this.#beside.help(rows);
    else {
      const lines = this.#strongest(rows, heads, focus);
      this.#beside.tell(rows, focus, lines, this.#least, (row) => this.#reveal(row));
    }
  }

  /** All links of a word that are shown, strongest first. @param {Rows} rows @param {number[]} heads
   * @param {Spot} focus @returns {Line[]} */
  #strongest(rows, heads, { row, way }) {
    /** @type {Line[]} */
    const lines = [];
    const place = way === "from" ? rows.queryOf[row] : rows.keyOf[row];
    for (const head of place < 0 ? [] : heads) {
      const links = this.#heads[head];
      for (const link of way === "from" ? links.ofQuery(place) : links.ofKey(place)) this.#add(lines, rows, head, link);
    }
    return lines.sort(byWeight);
  }

  // ── the reader ────────────────────────────────────────────────────────────────────────────

  /** @param {Event} event @returns {Spot | null} */
  #spotOf(event) {
    const side = /** @type {HTMLElement} */ (event.target).closest?.(".side");
    if (!(side instanceof HTMLElement)) return null;
    return { row: Number(side.dataset.row), way: side.dataset.way === "to" ? "to" : "from" };
  }

  /** @param {Spot | null} spot */
  #point(spot) {
    if (spot?.row === this.#pointed?.row && spot?.way === this.#pointed?.way) return;
    this.#pointed = spot;
    this.#plan();
  }

  /** Keep the links of a word in sight, or no longer. @param {Spot | null} spot */
  #keep(spot) {
    if (spot === null || this.#rows === null) return;
    this.#cursor = spot;
    const kept = this.#kept();
    const place = this.#rows.place(spot.row, spot.way);
    if (kept !== null && kept.row === spot.row && kept.way === spot.way) this.say({ token: null });
    else if (place >= 0) this.say({ token: place, way: spot.way === "to" ? "to" : null });
  }

  /** Scroll until a row can be seen. @param {number} row */
  #reveal(row) {
    const [top, height] = [this.stage.scrollTop, this.stage.clientHeight];
    if (row * ROW >= top && (row + 1) * ROW <= top + height) return;
    this.stage.scrollTop = row * ROW - height / 2;
  }

  /** @param {boolean} use */
  #useKeys(use) {
    this.#byKeys = use;
    this.#plan();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.#rows === null) return;
    const { row, way } = this.#cursor;
    const last = this.#rows.count - 1;
    const page = Math.max(1, Math.floor(this.stage.clientHeight / ROW) - 1);
    const rows = /** @type {Record<string, number>} */ ({
      ArrowDown: row + 1, ArrowUp: row - 1, PageDown: row + page, PageUp: row - page, Home: 0, End: last,
    });
    const ways = /** @type {Record<string, Way>} */ ({ ArrowLeft: "from", ArrowRight: "to" });
    if (event.key === "Enter" || event.key === " ") this.#keep(this.#cursor);
    else if (event.key === "Escape") this.say({ token: null });
    else if (event.key in rows || event.key in ways) {
      this.#cursor = { row: Math.min(last, Math.max(0, rows[event.key] ?? row)), way: ways[event.key] ?? way };
      this.#reveal(this.#cursor.row);
    } else return;
    this.#pointed = null;
    this.#useKeys(event.key !== "Escape");
    event.preventDefault();
  }
}
customElements.define("regard-heads", RegardHeads);

/** @param {Line} a @param {Line} b */
function byWeight(a, b) {
  return b.weight - a.weight;
}
