// <regard-atlas>: every weight of one head as a map, from the whole text down to single cells.

import { RegardElement } from "./base.js";
import { contextOf, el, many, refill, visible } from "./dom.js";
import { onceAFrame } from "./pause.js";
import { palette } from "./scale.js";
import { TILE, tokensOf } from "./source.js";
import { isDark } from "./theme.js";
import { drawAxes, inks } from "./atlas_axes.js";
import { drawCells, drawMarks, drawOverview, drawTiles, hatching } from "./atlas_draw.js";
import { Hands } from "./atlas_hands.js";
import { coarsest, levelsAt, reached, tileOf } from "./atlas_reach.js";
import { SIDE, SIDE_CSS, Side, atlasControls } from "./atlas_side.js";
import { Tiles } from "./atlas_tiles.js";
import {
  isWhole, layout, levelFor, pixels, readView, spots, topLevel, whole, within, written,
} from "./atlas_view.js";
import { isMasked, labelsOf, namesOf } from "./atlas_words.js";
import { headKind } from "./told.js";
import { word, wordParts } from "./words.js";

/**
 * @import { RunSource } from "./source.js"
 * @import { Frame, Spot, View } from "./atlas_view.js"
 * @import { Kept } from "./atlas_tiles.js"
 * @import { Cell } from "./atlas_axes.js"
 * @import { Choice, Reach } from "./atlas_words.js"
 */

// Where logarithmic colours begin: of the strongest weight, or of what each key would get if all got the same.
const DECADES = 1e-4;
const EVEN = 0.02;
const PAINTING = 12; // milliseconds of a frame
const REST = 250; // milliseconds without a movement, after which it has ended
const NARROW = 760; // pixels below which it stands under the map
const NICE = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];

/** A round number that is as large as a weight, or a little larger. @param {number} weight */
function rounded(weight) {
  if (!(weight > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(weight));
  return Math.min(1, (NICE.find((n) => n * power >= weight * 0.9999) ?? 10) * power);
}

/** @extends {RegardElement<RunSource>} */
export class RegardAtlas extends RegardElement {
  static css = `
.about { margin: 0 0 8px; }
button:disabled { opacity: 0.5; cursor: default; }
.choose { display: flex; flex-wrap: wrap; gap: 4px; align-items: center; margin: 0 0 8px; }
.choose button { padding: 1px 8px; }
.both { display: flex; gap: 16px; align-items: flex-start; }
.map { display: block; cursor: crosshair; flex: none; border-radius: 4px; }
.map.drags { cursor: grabbing; }
.both.narrow { flex-direction: column; gap: 10px; }
${SIDE_CSS}`;

  /** How long the last drawings took, in milliseconds. @type {number[]} */
  frames = [];

  /** @type {View | null} null: all of the matrix */
  #view = null;
  /** @type {Frame} */
  #frame = { queries: 0, keys: 0, height: 0, width: 0 };
  #margins = { left: 0, top: 0 };
  #named = true;
  /** @type {Cell} */
  #pointed = { query: null, key: null };
  /** @type {RunSource | null} */
  #asked = null;
  #tiles = new Tiles(() => this.#redraw());
  /** @type {Reach} */
  #reach = { finest: 0, base: null };
  #most = 0;
  #colours = palette();
  #dark = isDark();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #resting;
  /** @type {string | null} */
  #at = null;
  /** @type {{ tokens: unknown, width: number }} */
  #measured = { tokens: null, width: 40 };

  #map = el("canvas", {
    class: "map", tabindex: 0, role: "application", "aria-roledescription": word("atlas.map"), "aria-describedby": "readout",
  });
  #both = el("div", { class: "both" });
  #side = new Side((key) => this.#hands.press(key));
  #hands = new Hands(this.#map, this.#side.overview, {
    view: () => this.#now,
    frame: () => this.#frame,
    margins: () => this.#margins,
    pointed: () => this.#pointed,
    block: () => Math.max(1, Math.floor(2 ** levelFor(this.#now.scale, this.#top))),
    go: (view) => this.#go(view),
    point: (cell) => this.#point(cell),
    pick: (cell) => this.#pick(cell),
    drop: () => this.say({ token: null }),
  });
  #about = el("p", { class: "about faint" });
  #choose = el("div", { class: "choose", role: "group", "aria-label": word("atlas.heads") });
  #bar = el("div", { class: "bar" });

  constructor() {
    super();
    this.#both.append(this.#map, this.#side.element);
    this.root.append(this.#about, this.#choose, this.#bar, this.#both);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    clearTimeout(this.#resting);
    this.#resting = undefined;
  }

  // ── what is asked for ─────────────────────────────────────────────────────────────────────────

  /** @param {RunSource} source */
  async update(source) {
    if (source !== this.#asked) {
      this.#asked = source;
      this.#tiles = new Tiles(() => this.#redraw());
      this.#most = 0;
    }
    const state = this.state;
    const reach = await reached(source, this.#choice(source));
    if (this.state !== state || this.source !== source) return;
    this.#reach = reach;
    const at = this.said("at", "");
    if (at !== (this.#at ?? "") && this.#resting === undefined) {
      this.#at = at === "" ? null : at;
      this.#view = readView(at);
    }
    this.#dark = isDark();
    this.#colours = palette();
    this.#controls(source);
    this.#redraw();
  }

  /** @param {RunSource} source @returns {Choice} */
  #choice(source) {
    const { sequence, layer, head } = this.state;
    const { cross, position, real } = source.info.layers[layer];
    const out = this.said("atlas-mask", "").split(" ");
    const reduces = this.#reduces(source);
    const reduce = this.said("atlas-reduce", "mean") === "max" ? "max" : "mean";
    return {
      sequence,
      layer,
      head: head ?? 0,
      reduce: reduces.includes(reduce) ? reduce : "mean",
      log: this.said("atlas-scale", "log") !== "linear",
      mask: {
        diagonal: out.includes("diagonal") && !cross ? position : null,
        sink: out.includes("first") ? Math.max(0, real[sequence]?.indexOf(true) ?? 0) : null,
      },
    };
  }

  /** @param {RunSource} source @returns {string[]} */
  #reduces(source) {
    return /** @type {any} */ (source.info).reduces ?? ["mean", "max"];
  }

  get #top() {
    return coarsest(this.#reach, this.#frame.queries, this.#frame.keys);
  }

  /** @param {Choice} choice @param {Spot} spot */
  #key({ sequence, layer, head, reduce }, { level, row, column }) {
    return [sequence, layer, head, level === 0 ? "mean" : reduce, level, row, column].join(" ");
  }

  // ── controls ──────────────────────────────────────────────────────────────────────────────────

  /** @param {RunSource} source */
  #controls(source) {
    const { layer, head } = this.#choice(source);
    const { heads, queries, keys, cross } = source.info.layers[layer];
    const kind = source.info.heads.find((each) => each.layer === layer && each.head === head)?.kind;
    const place = word(kind && kind !== "mixed" ? "atlas.place_of_kind" : "atlas.place", { layer, head, kind: headKind(kind ?? "") });
    const size = `${many(queries)} × ${many(keys)}`;
    this.#about.replaceChildren(...wordParts("atlas.about", { place: el("strong", {}, place), size }));
    this.#map.setAttribute("aria-label", word("atlas.spoken", { layer, head, size }));
    this.#choose.hidden = this.state.head !== null;
    if (this.state.head === null) {
      const buttons = Array.from({ length: heads }, (_, n) =>
        el("button", { type: "button", "aria-label": word("atlas.head", { head: n }), onclick: () => this.say({ head: n }) }, n));
      this.#choose.replaceChildren(el("span", {}, word("atlas.choose")), ...buttons);
    } else this.#choose.replaceChildren();
    const reduces = topLevel(queries, keys) === 0 ? [] : this.#reduces(source);
    refill(this.#bar, atlasControls(this.#choice(source), reduces, cross, (change) => this.say(change)));
  }

  // ── drawing ───────────────────────────────────────────────────────────────────────────────────

  /** What is seen now. @returns {View} */
  get #now() {
    return this.#view === null ? whole(this.#frame) : within(this.#view, this.#frame);
  }

  resized() {
    this.#redraw();
  }

  #redraw = onceAFrame(() => {
    if (!this.isConnected || this.source === null || this.source !== this.#asked) return;
    const began = performance.now();
    this.#draw(this.source);
    this.frames.push(performance.now() - began);
    if (this.frames.length > 500) this.frames.shift();
    this.drawn();
  });

  /** How much room there is. @param {RunSource} source @param {CanvasRenderingContext2D} context */
  #measure(source, context) {
    const label = Math.round(this.#longest(source, context) + 18);
    const space = this.clientWidth || 600;
    const narrow = space < NARROW;
    this.#both.classList.toggle("narrow", narrow);
    const above = this.#map.getBoundingClientRect().top + scrollY;
    const [across, down] = [narrow ? space : space - SIDE - 16, Math.min(720, Math.max(360, innerHeight - above - 14))];
    const before = this.#frame.height;
    const { frame, margins, named } =
      layout(source.info.layers[this.state.layer], across, down, label, narrow ? 84 : 112, this.#view);
    [this.#frame, this.#margins, this.#named] = [frame, margins, named];
    if (this.#view !== null && this.#resting !== undefined && before > 0) {
      // While the reader moves, what is under the pointer stays there.
      this.#view = { ...this.#view, query: this.#view.query + (before - frame.height) / this.#view.scale / 2 };
    }
    const [width, height] = [frame.width + margins.left + 1, frame.height + margins.top + 1];
    contextOf(this.#map, width, height);
    this.#map.style.width = `${width}px`;
    this.#map.style.height = `${height}px`;
  }

  /** Pixels of the longest name of a token. @param {RunSource} source @param {CanvasRenderingContext2D} context */
  #longest(source, context) {
    const { sequence, layer } = this.state;
    const tokens = tokensOf(source.info, sequence, layer).to;
    if (!tokens) return 40;
    if (this.#measured.tokens !== tokens) {
      context.font = `12px ${inks(this).sans}`;
      const longest = labelsOf(tokens).slice(0, 3000).sort((a, b) => b.length - a.length).slice(0, 12);
      const widths = longest.map((text) => context.measureText(visible(text.slice(0, 60))).width);
      this.#measured = { tokens, width: Math.max(40, ...widths) };
    }
    return this.#measured.width;
  }

  /** @param {RunSource} source */
  #draw(source) {
    const context = this.#map.getContext("2d");
    if (context === null) return;
    this.#measure(source, context);
    const [frame, margins, view] = [this.#frame, this.#margins, this.#now];
    const choice = this.#choice(source);
    const levels = levelsAt(this.#reach, view.scale, this.#top, source.info.top);
    const find = (/** @type {Spot} */ spot) => this.#tiles.find(this.#key(choice, spot));
    const top = { level: this.#top, row: 0, column: 0 };
    const coarsest = this.#reach.finest === null && this.#reach.base === null ? [] : [top];
    const wanted = [...coarsest, ...levels.flatMap((level) => spots(view, frame, level))];
    const reach = this.#reach;
    this.#tiles.want(wanted.map((spot) => (
      { key: this.#key(choice, spot), spot, ask: () => tileOf(source, reach, choice, spot) })));

    const here = levels.flatMap((level) => spots(view, frame, level)).map(find).filter((kept) => kept !== undefined);
    const settled = this.#resting === undefined && !this.#tiles.waiting;
    if (here.length > 0 && (settled || this.#most === 0)) {
      this.#most = rounded(Math.max(...here.map((kept) => kept.most(choice.mask))));
    }
    const most = this.#most || 1;
    const range = { log: choice.log, least: Math.min(most / 10, Math.max(most * DECADES, EVEN / frame.keys)), most };
    const look = [choice.log, most, choice.mask.diagonal, choice.mask.sink, this.#dark].join(" ");
    const began = performance.now();
    let late = false;
    const picture = (/** @type {Kept} */ kept) => {
      if (!kept.isPainted(look)) {
        if (performance.now() - began < PAINTING) kept.paint(look, range, choice.mask, this.#colours);
        else late = true;
      }
      return kept.picture;
    };

    const colours = inks(this);
    context.clearRect(0, 0, this.#map.width, this.#map.height);
    const hatch = hatching(colours, context);
    const stock = { find, picture, levels, finest: this.#reach.finest ?? Infinity, top: this.#top };
    drawTiles(context, view, frame, margins, stock, hatch, colours.raised);
    const single = levels.includes(0);
    const weight = (/** @type {number} */ query, /** @type {number} */ key) =>
      isMasked(choice.mask, 0, query, key) ? NaN : (find(spotOf(query, key))?.at(query, key) ?? NaN);
    if (single) drawCells(context, view, frame, margins, colours, weight, range, this.#colours);
    const { position } = source.info.layers[choice.layer];
    const { token } = this.state;
    const row = token === null ? -1 : token - position;
    const chosen = row >= 0 && row < frame.queries ? row : null;
    drawMarks(context, view, frame, margins, colours, this.#pointed, 2 ** levels[levels.length - 1], chosen);
    context.strokeStyle = colours.edge;
    context.strokeRect(margins.left - 0.5, margins.top - 0.5, frame.width + 1, frame.height + 1);
    const names = namesOf(source, choice.sequence, choice.layer);
    drawAxes(context, view, frame, margins, colours, names, this.#named, this.#pointed, chosen);

    const all = isWhole(view, frame);
    const { overview } = this.#side;
    overview.hidden = all;
    overview.style.display = all ? "none" : "block";
    const small = find(top);
    if (!all) drawOverview(overview, small === undefined ? null : picture(small), view, frame, colours);
    this.#map.style.touchAction = all ? "pan-y" : "none";
    this.#map.setAttribute("aria-busy", String(this.#tiles.waiting || late));
    this.#side.legend(choice, reach, levels[levels.length - 1] ?? 0, range, this.#dark);
    this.#side.read(source, choice, reach, levels, find, this.#pointed);
    this.#side.fail(this.#tiles, () => {
      this.#tiles.retry();
      this.#redraw();
    });
    if (late) this.#redraw();
  }

  // ── moving ────────────────────────────────────────────────────────────────────────────────────

  /** Stand elsewhere; the address follows when the movement has ended. @param {View | null} view */
  #go(view) {
    this.#view = view;
    clearTimeout(this.#resting);
    this.#resting = setTimeout(() => {
      this.#resting = undefined;
      const stands = this.#now;
      const at = this.#view === null || isWhole(stands, this.#frame) ? null : written(stands);
      if (at === null) this.#view = null;
      if (at !== this.#at) {
        this.#at = at;
        this.say({ at });
      }
      this.#redraw();
    }, REST);
    this.#redraw();
  }

  /** The middle of a weight, in pixels of the window. @param {number} query @param {number} key */
  where(query, key) {
    const { left, top } = this.#map.getBoundingClientRect();
    const { x, y } = pixels(this.#now, this.#frame, this.#margins);
    return { x: left + x(key + 0.5), y: top + y(query + 0.5) };
  }

  /** @param {Cell} cell */
  #point(cell) {
    if (cell.query === this.#pointed.query && cell.key === this.#pointed.key) return;
    this.#pointed = cell;
    this.#redraw();
  }

  /** Tell which token was chosen. @param {Cell} cell */
  #pick({ query }) {
    if (query === null || this.source === null) return;
    const { position, cross } = this.source.info.layers[this.state.layer];
    this.say({ token: cross ? query : query + position });
  }
}

/** The tile of single weights that holds one. @param {number} query @param {number} key @returns {Spot} */
function spotOf(query, key) {
  return { level: 0, row: Math.floor(query / TILE), column: Math.floor(key / TILE) };
}

customElements.define("regard-atlas", RegardAtlas);
