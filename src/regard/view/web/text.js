// <regard-text>: the text itself; click a word, and the others are shaded by how much it attends to them.

import { RegardElement } from "./base.js";
import { el, figure } from "./dom.js";
import { inPieces } from "./pause.js";
import { css, heat, inkOn, legend, share } from "./scale.js";
import { tokensOf, whyNumbers } from "./source.js";
import { NEXT, Next } from "./text_next.js";
import { DIMMED, PLACES, Places } from "./text_places.js";
import { stripsOf } from "./text_strips.js";
import { alike, headsOf, reasonAgainst, strongest, weigh } from "./text_weights.js";
import { isDark } from "./theme.js";
import { word, wordParts } from "./words.js";

/**
 * @import { LayerInfo, RunInfo, RunSource } from "./source.js"
 * @import { Answer, Choice } from "./text_weights.js"
 * @import { Range } from "./scale.js"
 */

const STRONGEST = 5;
const SWITCHES = [
  { name: "way", title: word("text.way"), choices: ["from", "to"] },
  { name: "of", title: word("text.of"), choices: ["head", "layer", "all", "rollout"] },
  { name: "shades", title: word("text.shades"), choices: ["linear", "log"] },
  { name: "next", title: word("text.next"), choices: ["on", "off"] },
];

/** @extends {RegardElement<RunSource>} */
export class RegardText extends RegardElement {
  static css = `${PLACES}${NEXT}
    .switch { display: inline-flex; flex-wrap: wrap; gap: 2px 6px; align-items: center; }
    [hidden] { display: none !important; }
    .switch button { white-space: nowrap; }
    .said { display: flex; flex-wrap: wrap; gap: 2px 18px; align-items: baseline; margin: 0 0 8px; }
    .said p { margin: 0; }
    .said .readout { flex: 1 1 220px; font-weight: 600; }
    .said button { padding: 0 8px; margin-left: 8px; font-size: 13px; }
    .below { display: flex; flex-wrap: wrap; gap: 6px 32px; align-items: flex-start; margin-top: 10px; }
    .below section { flex: 1 1 340px; max-width: 560px; }
    .below h2 { font-size: 14px; margin: 0 0 2px; }
    .notes { flex: 1 1 260px; font-size: 13px; } .notes p { margin: 4px 0; } .notes button { padding: 0 6px; }
    .list button { grid-template-columns: minmax(60px, 150px) 3.5em 1fr 5.5em; }
    li .length { height: 10px; border-radius: 3px; background: var(--hot); min-width: 1px; }
    li .place { font-size: 12px; color: var(--faint); text-align: right; }
  `;

  #turn = 0;
  /** @type {RunSource | null} */
  #of = null;
  #made = "";
  #dark = false;
  #cross = 0;
  /** @type {number | null} */
  #pointed = null;
  /** The head that was chosen last. @type {number | null} */
  #head = null;
  #places = new Places();
  #next = new Next();
  /** @type {Answer | null} */
  #answer = null;
  #asked = "";
  /** @type {Choice} */
  #choice = { of: "layer", way: "from", log: false };

  constructor() {
    super();
    this.lead = el("p", { class: "lead" });
    this.readout = el("p", { class: "readout", role: "status" });
    this.strongest = el("section", { "aria-label": word("text.strongest") });
    this.notes = el("div", { class: "notes faint" });
    this.clear = el("button", { title: word("text.clear_about"), onclick: () => this.say({ token: null }) }, word("text.clear"));
    this.bar = el("div", { class: "bar" }, ...SWITCHES.map(({ name, title, choices }) =>
      el("span", { class: "switch faint" }, title,
        el("span", { class: "group", role: "group", "aria-label": title }, ...choices.map((value) =>
          el("button", { "data-name": name, "data-value": value, onclick: () => this.#switch(name, value) }))))));
    this.root.append(
      this.bar,
      el("div", { class: "said" }, this.lead, this.readout),
      this.#places.element,
      el("div", { class: "below" }, this.strongest, this.#next.section, this.notes),
    );
    const text = this.#places.element;
    text.addEventListener("click", (event) => this.#choose(this.#places.of(event)));
    text.addEventListener("pointerover", (event) => this.#point(this.#places.of(event)));
    text.addEventListener("pointerleave", () => this.#point(null));
    text.addEventListener("focusin", (event) => this.#point(this.#places.of(event)));
    text.addEventListener("focusout", () => this.#point(null));
    text.addEventListener("keydown", (event) => this.#key(event));
  }

  /** @param {RunSource} source */
  async update(source) {
    const turn = ++this.#turn;
    const wanted = () => turn === this.#turn && this.isConnected;
    const { sequence, layer, head, token } = this.state;
    const { info } = source;
    if (source !== this.#of) [this.#of, this.#made, this.#asked] = [source, "", ""];
    const choice = this.#chosenSwitches(info);
    this.#choice = choice;
    const foretold = this.#next.under(source, this.state, this.said("next", ""), this.changed);
    this.#drawSwitches(source);
    const chosen = token === null ? null : this.#placeOfToken(info.layers[layer], token, choice.way);
    if (!(await this.#build(info, foretold !== null, wanted))) return;
    const moved = chosen !== this.#places.chosen;
    this.#places.choose(chosen);

    const asked = [sequence, layer, head, token, choice.of, choice.way].join();
    if (asked !== this.#asked || this.#answer === null) {
      const reason = token === null ? "" : reasonAgainst(info, layer, token, choice);
      this.#answer = null;
      this.#asked = asked;
      this.#lead(info, reason);
      const tell = (/** @type {string} */ progress) => (this.readout.textContent = progress);
      const isAsked = token !== null && reason === "";
      const answer = isAsked ? await weigh(source, this.state, choice, wanted, tell) : null;
      if (!wanted()) {
        if (this.#asked === asked) this.#asked = "";
        return;
      }
      this.#answer = answer;
      this.#point(this.#pointed);
    }
    this.#foretell();
    const range = this.#range();
    this.#list();
    this.#explain(info, range);
    if (!(await this.#shade(info.layers[layer], range, wanted))) return;
    if (moved && chosen !== null) this.#places.reveal(chosen);
  }

  // ── what is shown ─────────────────────────────────────────────────────────────────────────

  /** @param {RunInfo} info @returns {Choice} */
  #chosenSwitches(info) {
    const { head, layer } = this.state;
    const said = this.said("of", "");
    const { cross } = info.layers[layer];
    const own = head === null || said === "layer" ? "layer" : "head";
    const of = said === "rollout" && info.rollout && !cross ? "rollout" : said === "all" && !cross ? "all" : own;
    const way = this.said("way", "from") === "to" && of !== "rollout" ? "to" : "from";
    return { of, way, log: this.said("shades", "linear") === "log" };
  }

  /** @param {string} name @param {string} value */
  #switch(name, value) {
    if (name === "of" && value === "head") this.say({ of: null, head: this.state.head ?? this.#head ?? 0 });
    else if (name === "of" && value === "layer") {
      this.#head = this.state.head ?? this.#head;
      this.say({ of: null, head: null });
    } else {
      const { info } = /** @type {RunSource} */ (this.source);
      const next = this.#next.isOn(info, "") ? "on" : "off";
      const usual = /** @type {Record<string, string>} */ ({ way: "from", shades: "linear", next })[name];
      this.say({ [name]: value === usual ? null : value });
    }
  }

  /** @param {RunSource} source */
  #drawSwitches(source) {
    const { info } = source;
    const { of, way, log } = this.#choice;
    const next = this.#next.isOn(info, this.said("next", "")) ? "on" : "off";
    const { layer, head } = this.state;
    const { cross, heads } = info.layers[layer];
    const now = /** @type {Record<string, string>} */ ({ of, way, shades: log ? "log" : "linear", next });
    /** @type {Record<string, { text: string, title: string, hidden?: boolean, disabled?: boolean }>} */
    const looks = {
      from: { text: word("text.from"), title: word("text.from_about") },
      to: {
        text: word("text.to"),
        title: word(of === "rollout" ? "text.to_not" : "text.to_about"),
        disabled: of === "rollout",
      },
      head: { text: head === null ? word("text.one_head") : word("text.head", { head }), title: word("text.head_about") },
      layer: { text: word("text.layer", { layer }), title: word("text.layer_about", { heads, layer }) },
      all: {
        text: word("text.all"),
        title: word("text.all_about"), hidden: cross || info.layers.length < 2,
      },
      rollout: {
        text: word("text.rollout"),
        title: word("text.rollout_about"),
        hidden: cross || !info.rollout,
      },
      linear: { text: word("scale.linear"), title: word("text.linear_about") },
      log: { text: word("scale.log"), title: word("text.log_about") },
      on: { text: word("text.next_on"), title: word("text.next_on_about") },
      off: { text: word("text.next_off"), title: word("text.next_off_about") },
    };
    const last = /** @type {HTMLElement} */ (this.bar.lastElementChild);
    last.hidden = !this.#next.isPossible(source, this.state);
    for (const button of this.bar.querySelectorAll("button")) {
      const { name = "", value = "" } = button.dataset;
      const { text, title, hidden = false, disabled = false } = looks[value];
      if (button.textContent !== text) button.textContent = text;
      button.title = title;
      button.hidden = hidden;
      button.disabled = disabled;
      button.setAttribute("aria-pressed", String(now[name] === value));
    }
  }

  /** The first line: what to do, or what this is. @param {RunInfo} info @param {string} reason */
  #lead(info, reason) {
    const { of, way } = this.#choice;
    const { layer, head, token } = this.state;
    if (token === null || this.#places.chosen === null) {
      this.lead.replaceChildren(word(way === "from" ? "text.click_from" : "text.click_to"));
      return;
    }
    const layers = alike(info, layer);
    const whose = {
      head: word("text.whose_head", { head: head ?? 0, layer }),
      layer: word("text.whose_layer", { layer, heads: info.layers[layer].heads }),
      all: word("text.whose_all", { layers: layers.length, heads: headsOf(info, layers) }),
      rollout: word("text.whose_rollout"),
    }[of];
    const name = el("strong", {}, word("text.quoted", { word: this.#places.name(this.#places.chosen) }));
    this.lead.replaceChildren(
      ...(reason !== "" ? [name, ` ${reason}`]
        : wordParts(way === "from" ? "text.lead_from" : "text.lead_to", { word: name, whose })),
      this.clear,
    );
  }

  // ── the text ──────────────────────────────────────────────────────────────────────────────

  /** @param {LayerInfo} layer @param {number} token @param {"from" | "to"} way */
  #placeOfToken({ cross, queries }, token, way) {
    return cross && way === "to" ? queries + token : token;
  }

  /** Make the text, unless it is there. @param {RunInfo} info @param {boolean} foretold whether something stands under its
   * words @param {() => boolean} wanted */
  async #build(info, foretold, wanted) {
    const { sequence, layer } = this.state;
    const { cross, named, causal, queries, keys, real } = info.layers[layer];
    const made = [sequence, cross, named, causal, queries, keys, foretold, JSON.stringify(real[sequence])].join();
    if (made === this.#made) return true;
    this.#made = "";
    const { strips, called } = stripsOf(info, sequence, layer);
    const below = (/** @type {number} */ place) => this.#next.below(place, (n) => called[n]);
    if (!(await this.#places.make(strips, called, wanted, foretold ? below : () => null))) return false;
    this.#cross = cross ? queries : 0;
    this.#made = made;
    this.#asked = "";
    return true;
  }

  // ── weights ───────────────────────────────────────────────────────────────────────────────

  /** From which weight to which the colours go. */
  #range() {
    let most = 0;
    for (const weight of this.#answer?.weights ?? []) most = Math.max(most, weight);
    return { log: this.#choice.log, least: most / 1000, most: most || 1 };
  }

  /** @param {LayerInfo} layer @param {Range} range @param {() => boolean} wanted */
  #shade(layer, range, wanted) {
    const dark = isDark();
    const again = dark !== this.#dark;
    this.#dark = dark;
    const colours = Array.from({ length: 256 }, (_, n) => {
      const colour = heat(n / 255);
      return { back: css(colour), ink: inkOn(colour) };
    });
    const answer = this.#answer;
    const chosen = this.#places.chosen ?? 0;
    const dims = answer !== null && !layer.cross && layer.causal;
    return inPieces(this.#places.count, (place) => {
      const isHidden = dims && (this.#choice.way === "from" ? place > chosen : place < chosen);
      const weight = answer === null ? 0 : answer.weights[place];
      this.#places.wear(place, isHidden ? DIMMED : Math.ceil(share(weight, range) * 255), colours, again);
    }, wanted);
  }

  /** The strongest, with their numbers. */
  #list() {
    const answer = this.#answer;
    this.strongest.hidden = answer === null;
    if (answer === null) return;

    const { weights, least } = answer;
    const best = strongest(weights, STRONGEST, (place) => this.#places.has(place));
    const rows = best.map((place) => el("li", {},
      el("button", { title: word("text.show"), "data-place": place, onclick: () => this.#places.show(place) },
        el("span", { class: "name", dir: "auto" }, this.#places.name(place)),
        el("span", { class: "place" }, this.#cross ? "" : `#${place}`),
        el("span", { class: "length", style: `width:${(100 * weights[place]) / weights[best[0]]}%` }),
        el("span", { class: "number" }, `${least ? "≥ " : ""}${figure(weights[place])}`))));
    this.strongest.replaceChildren(
      el("h2", {}, word(this.#choice.way === "from" ? "text.most_from" : "text.most_to")),
      rows.length === 0 ? el("p", { class: "faint" }, word("text.nothing")) : el("ol", { class: "list" }, ...rows),
    );
  }

  /** The legend, and what one must know. @param {RunInfo} info @param {Range} range */
  #explain(info, range) {
    const { of } = this.#choice;
    const notes = this.#answer === null ? [] : this.#notesOf(info, this.#answer);
    const { cross, real } = info.layers[this.state.layer];
    const { from, to } = tokensOf(info, this.state.sequence, this.state.layer);
    notes.push(...whyNumbers(cross, from !== null && to !== null));
    if ((real[this.state.sequence] ?? []).includes(false)) notes.push(word("text.padding"));
    this.notes.replaceChildren(
      ...(this.#answer === null ? [] : [legend(range, word(of === "rollout" ? "text.share" : "text.weight"))]),
      ...[...notes, this.#next.about].filter(Boolean).map((note) => el("p", {}, note)),
      ...this.#places.odd().map(({ kind, text }) => el("p", {}, ...wordParts(kind === "part" ? "text.part" : "text.unknown", {
        token: el("span", { class: "token part" }, text), word: el("span", { class: "token unknown" }, text),
      }))),
    );
  }

  /** What one must know of these weights. @param {RunInfo} info @param {Answer} answer @returns {(string | Node)[]} */
  #notesOf(info, { weights, rest, least }) {
    const { layer } = this.state;
    const { causal, cross } = info.layers[layer];
    const { way, of, log } = this.#choice;
    /** @type {(string | Node)[]} */
    const notes = [];
    const [first, second] = strongest(weights, 2, (place) => this.#places.has(place));
    if (!log && second !== undefined && weights[first] > 4 * weights[second]) {
      const button = el("button", { onclick: () => this.say({ shades: "log" }) }, word("text.log_shades"));
      notes.push(el("span", {}, ...wordParts("text.one_word", { button })));
    }
    if (rest >= 0.00005) notes.push(word("text.rest", { weight: figure(rest) }));
    if (Number.isNaN(rest)) notes.push(word("text.listed", { top: info.top }));
    if (least) notes.push(word("text.least"));
    if (causal && !cross) notes.push(word(way === "from" ? "text.dimmed_from" : "text.dimmed_to"));
    if (of === "all" && alike(info, layer).length < info.layers.length) notes.push(word("text.not_cross"));
    if (of === "all" || of === "rollout") notes.push(word("text.no_difference"));
    return notes;
  }

  // ── the reader ────────────────────────────────────────────────────────────────────────────

  /** @param {number | null} place */
  #choose(place) {
    if (place === null) return;
    if (this.#cross === 0) this.say({ token: place === this.#places.chosen ? null : place });
    else if (place < this.#cross) this.say({ token: place, way: null });
    else this.say({ token: place - this.#cross, way: "to" });
  }

  /** What is expected where the reader points, or at the chosen word. */
  #foretell() {
    this.#next.list(this.#pointed ?? this.#places.chosen, (place) => this.#places.name(place));
  }

  /** Read out a place. @param {number | null} place */
  #point(place) {
    this.#pointed = place;
    const [answer, chosen] = [this.#answer, this.#places.chosen];
    this.#foretell();
    if (place === null) {
      this.readout.textContent = answer === null ? "" : word("text.point");
      return;
    }
    if (answer === null || chosen === null) {
      this.readout.textContent = this.#cross ? this.#places.name(place)
        : word("text.token", { word: this.#places.name(place), place });
      return;
    }
    const weight = answer.weights[place];
    const [from, to] = this.#choice.way === "from" ? [chosen, place] : [place, chosen];
    if (this.#cross > 0 && place < this.#cross === chosen < this.#cross) {
      this.readout.textContent = this.#places.name(place);
      return;
    }
    const isDimmed = this.#places.isDimmed(place);
    const isKnown = weight > 0 || isDimmed || this.source?.info.whole;
    const number = isKnown ? `${answer.least ? "≥ " : ""}${figure(weight)}` : word("text.not_listed");
    const why = isDimmed ? word("text.not_seen") : "";
    this.readout.textContent = `${this.#places.name(from)} → ${this.#places.name(to)} ${number}${why}`;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = this.#places.to(event.key);
    if (to !== null) this.#places.show(to);
    else if (event.key === "Enter" || event.key === " ") this.#choose(this.#places.focus);
    else if (event.key === "Escape" && this.state.token !== null) this.say({ token: null });
    else return;
    event.preventDefault();
  }
}
customElements.define("regard-text", RegardText);
