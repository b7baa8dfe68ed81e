// <regard-shift>: where a word's vector was before attention, and where each layer moved it, among others.

import { RegardElement } from "./base.js";
import { el, field, put } from "./dom.js";
import { principal } from "./pca.js";
import { headColour } from "./scale.js";
import { cosine, growth, moveTo, pointsOf, stagesOf, two } from "./shift_numbers.js";
import { PICTURE_CSS, Picture } from "./shift_picture.js";
import { TABLES_CSS, alike, barsOf, far, keysOf } from "./shift_tables.js";
import { WORDS_CSS, WordChoice } from "./shift_words.js";
import { tokensOf } from "./source.js";
import { names } from "./text_pieces.js";
import { word, wordParts } from "./words.js";

/**
 * @import { RunSource } from "./source.js"
 * @import { Principal } from "./pca.js"
 * @import { Journeys } from "./shift_numbers.js"
 * @typedef {{ sequence: number, layer: number, labels: string[], real: (n: number) => boolean }} Text
 * @typedef {import("./shift_tables.js").Numbers & { found: Principal, directions: boolean, times: number }} Shown
 * @typedef {ReturnType<RegardShift["build"]>} Parts
 */

/** How many words can be followed at once: as many as there are colours. */
const MOST = 12;
const USUAL = 5;
/** Vectors that grow more than this on the way are shown by their directions unless asked for. */
const GROWN = 5;

const CSS = `
[hidden] { display: none !important; }
h2 { font-size: 15px; margin: 0 0 2px; }
p { margin: 0 0 8px; }
.wide { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 390px); gap: 16px 22px; align-items: start; }
@media (max-width: 860px) { .wide { grid-template-columns: minmax(0, 1fr); } }
.bar label.upto { flex: 1 1 260px; flex-wrap: wrap; min-width: 0; }
.upto input { flex: 1 1 140px; max-width: 420px; accent-color: var(--accent); }
.upto output { white-space: nowrap; }
.small { font-size: 13px; }
select { max-width: 180px; padding: 1px 4px; }
${PICTURE_CSS}${TABLES_CSS}${WORDS_CSS}`;

/** @extends {RegardElement<RunSource>} */
export class RegardShift extends RegardElement {
  static css = CSS;

  #turn = 0;
  /** @type {Parts | null} */
  #parts = null;
  /** @type {Shown | null} */
  #shown = null;
  /** What was asked for last, so that nothing is asked twice. @type {Map<string, { key: string, value: any }>} */
  #kept = new Map();
  /** @type {Map<number, number>} */
  #colours = new Map();
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #playing;
  /** @type {RunSource | null} */
  #from = null;
  #wide = 0;
  #resized = new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width !== this.#wide) this.changed();
    this.#wide = contentRect.width;
  });
  #still = matchMedia("(prefers-reduced-motion: reduce)");

  disconnectedCallback() {
    super.disconnectedCallback();
    this.#stop();
  }

  /** @param {RunSource} source */
  async update(source) {
    const turn = ++this.#turn;
    const late = () => turn !== this.#turn;
    const { info } = source;
    if (info.stages === null || info.stages.length === 0) {
      const { no_stages: why = "" } = source.info;
      this.root.replaceChildren(...(why !== "" ? [el("p", {}, word("shift.no_room", { why }))]
        : [el("p", {}, word("shift.none")), el("p", { class: "faint" }, word("shift.none_why"))]));
      return;
    }
    if (this.#from !== source) this.#kept.clear();
    this.#from = source;
    const parts = this.#parts !== null && this.root.contains(this.#parts.lead) ? this.#parts : this.build();
    this.#parts = parts;
    const stages = stagesOf(info.stages);
    const text = this.#text(source);
    const words = this.#asked(text) ?? (await this.#usual(source, text));
    if (late()) return;
    this.#paint(words);
    const colour = (/** @type {number} */ token) => this.#colour(token);
    parts.choice.draw({ labels: text.labels, real: text.real, chosen: words, most: MOST, colour });

    const key = `${text.sequence}:${words}`;
    const journeys = await this.#once("journeys", key, () => this.#journeys(source, text, words));
    if (late()) return;
    const missing = words.filter((word) => !journeys.words.includes(word));
    parts.missing.hidden = missing.length === 0;
    const named = missing.map((n) => word("shift.word", { word: text.labels[n], place: n }));
    parts.missing.textContent = word("shift.missing", { words: named.join(", ") });
    parts.empty.hidden = journeys.words.length > 0;
    parts.below.hidden = parts.bar.hidden = parts.lead.hidden = journeys.words.length === 0;
    if (journeys.words.length === 0) return;

    const times = growth(journeys, stages.length);
    const lengths = this.said("lengths", times > GROWN ? "directions" : "raw");
    const directions = lengths === "directions";
    const found = await this.#once("axes", `${key}:${directions}`, () =>
      principal(pointsOf(journeys, stages.length, directions), journeys.width));
    if (late()) return;
    const asked = this.said("upto", "");
    const upto = /^\d{1,6}$/.test(asked) ? Math.min(Number(asked), stages.length - 1) : stages.length - 1;
    const focus = Math.max(0, journeys.words.indexOf(this.state.token ?? -1));
    const names = namesOf(text.labels, journeys.words);
    this.#shown = { journeys, stages, found, upto, focus, names, directions, times };
    this.#draw(this.#shown, parts);
  }

  // ── what is shown ────────────────────────────────────────────────────────────────────────────

  /** The words of the text. @param {RunSource} source @returns {Text} */
  #text({ info }) {
    const { sequence } = this.state;
    const own = info.layers.findLastIndex((layer) => !layer.cross && layer.named);
    const layer = own >= 0 ? own : Math.max(0, info.layers.findLastIndex((each) => !each.cross));
    const kept = this.#kept.get("text");
    if (kept?.key === String(sequence)) return kept.value;
    const real = info.layers[layer].real[sequence] ?? null;
    const { to } = tokensOf(info, sequence, layer);
    const labels = to === null ? Array.from({ length: info.layers[layer].keys }, (_, n) => String(n)) : names(to);
    const value = { sequence, layer, labels, real: (/** @type {number} */ n) => real === null || real[n] };
    this.#kept.set("text", { key: String(sequence), value });
    return value;
  }

  /** The words that the address names; null if it names none. @param {Text} text */
  #asked({ labels, real }) {
    const said = this.state.words;
    if (said === null || said === undefined) return null;
    const numbers = String(said).split(",").filter((each) => /^\d{1,9}$/.test(each)).map(Number);
    return [...new Set(numbers)].filter((n) => n < labels.length && real(n)).slice(0, MOST);
  }

  /** Words to begin with: the chosen one and what it attends to most, or else long words of the beginning.
   * @param {RunSource} source @param {Text} text @returns {Promise<number[]>} */
  #usual(source, text) {
    const { token } = this.state;
    return this.#once("usual", `${text.sequence}:${token}`, async () => {
      const { labels, layer, sequence } = text;
      // Neither padding nor punctuation nor a sign such as [CLS] or <s>.
      const wordy = (/** @type {number} */ n) =>
        text.real(n) && /[\p{L}\p{N}]/u.test(labels[n]) && !/^[[<].*[\]>]$/.test(labels[n]);
      const query = token === null ? -1 : token - source.info.layers[layer].position;
      const chosen = token !== null && text.real(token) ? [token] : [];
      const known = source.info.whole || source.info.top > 0;
      if (chosen.length > 0 && query >= 0 && query < source.info.layers[layer].queries && known) {
        const { weights } = await source.row(sequence, layer, null, query);
        const others = labels.map((_, n) => n).filter((n) => n !== token && weights[n] > 0 && wordy(n));
        return [...chosen, ...others.sort((a, b) => weights[b] - weights[a]).slice(0, USUAL - 1)].sort((a, b) => a - b);
      }
      const first = labels.slice(0, 40).map((_, n) => n).filter((n) => wordy(n) && labels.indexOf(labels[n]) === n);
      const longest = first.sort((a, b) => labels[b].length - labels[a].length || a - b);
      return [...new Set([...chosen, ...longest])].slice(0, USUAL).sort((a, b) => a - b);
    });
  }

  /** @param {RunSource} source @param {Text} text @param {number[]} words @returns {Promise<Journeys>} */
  async #journeys(source, text, words) {
    const vectors = words.length === 0 ? [] : await source.hiddenStates(text.sequence, words);
    const there = vectors.map((vector) => vector.length > 0 && vector.every(Number.isFinite));
    const kept = vectors.filter((_, n) => there[n]);
    const width = kept.length === 0 ? 0 : kept[0].length / /** @type {string[]} */ (source.info.stages).length;
    return { words: words.filter((_, n) => there[n]), vectors: kept, width };
  }

  /** The last answer again, if the question is the same. @template T @param {string} name @param {string} key
   * @param {() => Promise<T>} ask @returns {Promise<T>} */
  #once(name, key, ask) {
    const kept = this.#kept.get(name);
    if (kept?.key === key) return kept.value;
    const value = ask();
    this.#kept.set(name, { key, value });
    value.catch(() => this.#kept.delete(name));
    return value;
  }

  /** A colour for each word, which it keeps while it is chosen. @param {number[]} words */
  #paint(words) {
    for (const word of [...this.#colours.keys()]) if (!words.includes(word)) this.#colours.delete(word);
    for (const word of words) {
      if (this.#colours.has(word)) continue;
      const taken = new Set(this.#colours.values());
      this.#colours.set(word, Array.from({ length: MOST }, (_, n) => n).findIndex((n) => !taken.has(n)));
    }
  }

  /** @param {number} token */
  #colour(token) {
    return headColour(this.#colours.get(token) ?? 0);
  }

  // ── the page's parts ─────────────────────────────────────────────────────────────────────────

  /** Everything that stays while its contents change. */
  build() {
    const choice = new WordChoice((words, added) =>
      this.say(added === null ? { words: words.join(",") } : { words: words.join(","), token: added }));
    const picture = new Picture({
      point: (word, stage) => this.#read(word, stage),
      pick: (word) => this.#pick(word),
      key: (event) => this.#key(event),
    });
    const slider = el("input", {
      type: "range", min: 0, step: 1, "aria-label": word("shift.upto_name"),
      oninput: () => {
        this.#stop();
        this.#go(Number(slider.value));
      },
    });
    const where = el("output", {});
    const button = (/** @type {string} */ title, /** @type {() => void} */ onclick) =>
      el("button", { type: "button", onclick }, title);
    const play = button(word("shift.play"), () => (this.#playing === undefined ? this.#play() : this.#stop()));
    const asRaw = button(word("shift.raw"), () => this.say({ lengths: "raw" }));
    const asDirections = button(word("shift.directions"), () => this.say({ lengths: "directions" }));
    const bar = el("div", { class: "bar" }, play,
      el("label", { class: "upto" }, word("shift.upto"), slider, where),
      field(word("shift.vectors"), word("shift.vectors"), asRaw, asDirections));
    const [lead, missing] = [el("p", {}), el("p", { class: "error" })];
    const empty = el("p", {}, word("shift.choose"));
    const readout = el("p", { class: "readout", "aria-live": "polite" });
    const keys = el("div", { class: "keys" });
    const [axes, between, bars] = [0, 1, 2].map(() => el("p", { class: "faint small" }));
    const pairs = el("table", { class: "pairs" });
    const moves = el("table", { class: "moves" });
    const which = el("select", { "aria-label": word("shift.focus"), onchange: () => this.#pick(which.selectedIndex) });
    const similar = el("div", {},
      el("h2", {}, word("shift.alike")),
      between,
      el("div", { class: "box", tabindex: 0, role: "region", "aria-label": word("shift.alike_name") }, pairs));
    const lengths = el("div", {},
      el("h2", {}, ...wordParts("shift.far", { word: which })),
      bars,
      el("div", { class: "box", tabindex: 0, role: "region", "aria-label": word("shift.far_name") }, moves));
    const seen = el("div", {}, picture.node, keys, readout, axes);
    const below = el("div", { class: "wide" }, seen, el("div", {}, similar, lengths));
    this.root.replaceChildren(lead, choice.node, missing, empty, bar, below);
    this.#resized.observe(picture.node);
    return {
      choice, picture, slider, where, play, asRaw, asDirections, bar, lead, missing, empty, keys, axes, readout,
      between, bars, pairs, moves, which, below,
    };
  }

  /** @param {Shown} shown @param {Parts} parts */
  #draw(shown, parts) {
    const { journeys, stages, found, upto, focus, names, directions } = shown;
    const last = stages.length - 1;
    const begins = stages[0].title === word("shift.embedding") ? word("shift.begins")
      : word("shift.begins_after", { place: stages[0].title });
    parts.lead.textContent = word("shift.lead", { begins });
    parts.slider.max = String(last);
    parts.slider.value = String(upto);
    parts.slider.disabled = last === 0;
    parts.slider.setAttribute("aria-valuetext", stages[upto].title);
    parts.where.textContent = word("shift.where", { place: stages[upto].title, n: upto, last });
    parts.play.hidden = this.#still.matches || last === 0;
    parts.asRaw.setAttribute("aria-pressed", String(!directions));
    parts.asDirections.setAttribute("aria-pressed", String(directions));
    const words = journeys.words.map((token, n) => ({ token, label: names[n], colour: this.#colour(token) }));
    const [across, up] = found.coordinates;
    parts.picture.draw({ words, stages, across, up, shares: found.shares, upto, focus });
    parts.keys.replaceChildren(...keysOf(stages));
    parts.axes.textContent = axesOf(shown);
    this.#read(null, 0);
    const colours = words.map((word) => word.colour);
    parts.between.textContent = word("shift.between", { first: stages[0].title, now: stages[upto].title });
    parts.bars.textContent = barsOf(shown);
    parts.pairs.replaceChildren(...alike(shown, colours));
    parts.moves.style.setProperty("--own", colours[focus]);
    parts.moves.replaceChildren(...far(shown));
    if ([...parts.which.options].map((option) => option.text).join() !== names.join()) {
      parts.which.replaceChildren(...names.map((name) => el("option", {}, name)));
    }
    parts.which.selectedIndex = focus;
  }

  /** Say where a word is: the one that is pointed at, or else the one that stands out.
   * @param {number | null} pointed @param {number} stage */
  #read(pointed, stage) {
    if (this.#shown === null || this.#parts === null) return;
    const { journeys, stages, names, upto, focus } = this.#shown;
    const [n, at] = pointed === null ? [focus, upto] : [pointed, stage];
    const vector = journeys.vectors[n];
    const far = at === 0 ? NaN : moveTo(vector, journeys.width, at);
    const alike = cosine(vector, 0, vector, at, journeys.width);
    const said = at === 0
      ? word("shift.read_first", { word: names[n], place: stages[0].title })
      : word("shift.read", { word: names[n], place: stages[at].title, far: two(far), alike: two(alike) });
    put(this.#parts.readout, said);
  }

  // ── what the reader does ─────────────────────────────────────────────────────────────────────

  /** Another word stands out; the words stay. @param {number} word */
  #pick(word) {
    if (this.#shown === null) return;
    const { words } = this.#shown.journeys;
    this.say({ token: words[word], words: words.join(",") });
  }

  /** @param {number} stage */
  #go(stage) {
    const last = (this.#shown?.stages.length ?? 1) - 1;
    const to = Math.min(last, Math.max(0, stage));
    this.say({ upto: to === last ? null : String(to) });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (this.#shown === null || event.altKey || event.ctrlKey || event.metaKey) return;
    const { upto, focus, stages, journeys } = this.#shown;
    const count = journeys.words.length;
    const to = { ArrowLeft: upto - 1, ArrowRight: upto + 1, Home: 0, End: stages.length - 1 }[event.key];
    const word = { ArrowUp: focus - 1, ArrowDown: focus + 1 }[event.key];
    if (event.key === "Escape") this.#stop();
    if (to === undefined && word === undefined) return;
    event.preventDefault();
    this.#stop();
    if (to !== undefined) this.#go(to);
    if (word !== undefined) this.#pick((word + count) % count);
  }

  #play() {
    if (this.#shown === null || this.#parts === null) return;
    const { stages, upto } = this.#shown;
    let next = upto === stages.length - 1 ? 0 : upto + 1;
    const step = () => {
      this.#go(next);
      next++;
      if (next >= stages.length) this.#stop();
    };
    this.#parts.play.textContent = word("shift.pause");
    // Not faster than browsers let a page change its address.
    this.#playing = setInterval(step, Math.max(330, Math.min(800, 9000 / stages.length)));
    step();
  }

  #stop() {
    clearInterval(this.#playing);
    this.#playing = undefined;
    if (this.#parts !== null) this.#parts.play.textContent = word("shift.play");
  }
}

/** Short names of words; those that stand twice have their positions. @param {string[]} labels
 * @param {number[]} words */
function namesOf(labels, words) {
  const short = words.map((n) => {
    const letters = [...labels[n]];
    return letters.length > 18 ? `${letters.slice(0, 17).join("")}…` : labels[n];
  });
  return short.map((name, n) => (short.indexOf(name) !== short.lastIndexOf(name) ? `${name} #${words[n]}` : name));
}

/** What the two directions are. @param {Shown} shown */
function axesOf({ found, times, directions, journeys }) {
  const share = found.shares[0] + found.shares[1];
  const grown = times > GROWN && Number.isFinite(times)
    ? ` ${word(directions ? "shift.grown_directions" : "shift.grown", { times: Math.round(times) })}` : "";
  if (share === 0) return word("shift.same");
  const axes = word(journeys.words.length > 1 ? "shift.axes_words" : "shift.axes_word", { share: Math.round(100 * share) });
  return axes + grown;
}

customElements.define("regard-shift", RegardShift);
