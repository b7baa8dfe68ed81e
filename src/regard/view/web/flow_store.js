// What a source has answered so far, at hand for each frame; what is missing is asked for once.

import { paintBars, paintStage, rangeOf } from "./flow_paint.js";

/**
 * @typedef {import("./flow_source.js").FlowSource} FlowSource
 * @typedef {import("./flow_source.js").Picture} Picture
 * @typedef {import("./flow_source.js").Prediction} Prediction
 * @typedef {import("./flow_paint.js").Shades} Shades
 */

const TILE = 32; // rows and columns of exact numbers that are asked for at once
const MOST = 6; // questions at a time, so that what is in view now does not wait for what was

let made = 0;

export class Store {
  id = ++made;
  /** What was answered, by question; null: there is nothing. @type {Map<string, any>} */
  #known = new Map();
  /** What waits to be asked, the latest last. @type {Map<string, () => Promise<any>>} */
  #waiting = new Map();
  #asked = 0;
  /** Who waits until all is answered. @type {(() => void)[]} */
  #idle = [];
  /** @type {Map<string, HTMLCanvasElement>} */
  #bitmaps = new Map();
  /** @type {Map<string, Map<number, Map<number, any>>>} */
  #tiles = new Map();
  /** @type {Map<string, number>} */
  #versions = new Map();

  /** @param {FlowSource} source @param {() => void} ready something new is there */
  constructor(source, ready) {
    this.source = source;
    this.outline = source.outline;
    this.ready = ready;
  }

  /** Is anything still to come? */
  get busy() {
    return this.#asked > 0 || this.#waiting.size > 0;
  }

  /** @param {string} stage @param {string} question @param {() => Promise<any>} ask @returns {any} undefined while it is not known */
  #ask(stage, question, ask) {
    const found = this.#known.get(question);
    if (found !== undefined) return found;
    if (!this.#known.has(question)) {
      this.#waiting.delete(question);
      this.#waiting.set(question, () => ask().then((answer) => {
        this.#versions.set(stage, (this.#versions.get(stage) ?? 0) + 1);
        return answer;
      }));
      this.#next();
    }
    return undefined;
  }

  #next() {
    while (this.#asked < MOST && this.#waiting.size > 0) {
      const [question, ask] = [...this.#waiting].pop() ?? ["", async () => null];
      this.#waiting.delete(question);
      this.#known.set(question, undefined);
      this.#asked++;
      ask().catch(() => null).then((answer) => {
        this.#asked--;
        this.#known.set(question, answer);
        this.ready();
        this.#next();
        if (!this.busy) for (const done of this.#idle.splice(0)) done();
      });
    }
  }

  /** Ask for all of a small flow, so that it can be drawn at once. @param {number} head @returns {Promise<void>} */
  async warm(head) {
    for (const stage of Object.keys(this.outline.stages)) {
      this.picture(stage, head);
      this.value(stage, head, 0, 0);
    }
    if (this.busy) await new Promise((done) => this.#idle.push(() => done(undefined)));
  }

  /** The head of a stage that stands for one of the attention; null: the stage does not know that head.
   * @param {string} stage @param {number} head @returns {number | null} */
  headOf(stage, head) {
    const { heads, part } = this.outline.stages[stage];
    if (part === "matrix" && heads === 1 && head > 0) {
      const { stages } = this.outline;
      const made = Object.keys(stages).find((name) => stages[name].from.includes(stage));
      return made === undefined || this.headOf(made, head) !== null ? 0 : null;
    }
    return heads === 1 && (head === 0 || !this.#several(stage)) ? 0 : head < heads ? head : null;
  }

  /** Do stages of the same attention have several heads? @param {string} stage */
  #several(stage) {
    const { attention, part } = this.outline.stages[stage];
    return attention !== "" && !["concatenated", "output", "input"].includes(part) && part !== "matrix"
      && Object.values(this.outline.stages).some((each) => each.attention === attention && each.heads > 1);
  }

  /** @param {string} stage @param {number} head @returns {Picture | null | undefined} */
  picture(stage, head) {
    const own = this.headOf(stage, head);
    return own === null ? null : this.#ask(stage, `picture ${stage} ${own}`, () => this.source.picture(stage, own));
  }

  /** The tiles of a stage that are known, by number. @param {string} stage @param {number} head @returns {Map<number, any>} */
  #tilesOf(stage, head) {
    let heads = this.#tiles.get(stage);
    if (heads === undefined) this.#tiles.set(stage, (heads = new Map()));
    let tiles = heads.get(head);
    if (tiles === undefined) heads.set(head, (tiles = new Map()));
    return tiles;
  }

  /** Every number of a small stage, or of a tile of a large one. @param {string} stage @param {number} head
   * @param {number} row @param {number} column @returns {number | null | undefined} */
  value(stage, head, row, column) {
    const own = this.headOf(stage, head);
    if (own === null) return null;
    const { rows, columns } = this.outline.stages[stage];
    const tiles = this.#tilesOf(stage, own);
    const [top, left] = [Math.floor(row / TILE) * TILE, Math.floor(column / TILE) * TILE];
    const width = Math.min(columns, left + TILE) - left;
    const name = top * columns + left;
    let tile = tiles.get(name);
    if (tile === undefined) {
      tile = this.#ask(stage, `cells ${stage} ${own} ${top} ${left}`, () =>
        this.source.cells(stage, own, [top, Math.min(rows, top + TILE)], [left, left + width]));
      if (tile !== undefined) tiles.set(name, tile);
    }
    return tile === undefined || tile === null ? tile : tile[(row - top) * width + column - left];
  }

  /** A row, exact or, where there are blocks only, of each the number it shows. @param {string} stage @param {number} head
   * @param {number} row @returns {{ values: number[], block: number } | null} */
  row(stage, head, row) {
    const name = `row ${stage} ${this.headOf(stage, head)} ${row}`;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const { columns } = this.outline.stages[stage];
    const exact = Array.from({ length: columns }, (_, n) => this.value(stage, head, row, n));
    if (exact.every((each) => typeof each === "number")) {
      this.#known.set(name, { values: exact, block: 1 });
      return { values: /** @type {number[]} */ (exact), block: 1 };
    }
    const picture = this.picture(stage, head);
    if (picture === null || picture === undefined) return null;
    const from = Math.floor(row / picture.block[0]) * picture.columns;
    const pooled = { values: Array.from(picture.values).slice(from, from + picture.columns), block: picture.block[1] };
    if (exact.includes(null)) this.#known.set(name, pooled);
    return pooled;
  }

  /** How much was answered of stages: other than before, they look other. @param {string[]} stages */
  versionOf(stages) {
    return stages.reduce((sum, stage) => sum + (this.#versions.get(stage) ?? 0), 0);
  }

  /** @param {number} position @returns {Prediction[] | null | undefined} */
  predictions(position) {
    return this.#ask("", `next ${position}`, () => this.source.predictions(position));
  }

  /** How the numbers of a stage become colours. @param {string} stage @param {number} head @returns {Shades | null} */
  shades(stage, head) {
    const picture = this.picture(stage, head);
    if (picture === null || picture === undefined) return null;
    const name = `shades ${stage} ${this.headOf(stage, head)}`;
    if (!this.#known.has(name)) this.#known.set(name, rangeOf(picture.values, this.outline.stages[stage].part === "weights"));
    return this.#known.get(name);
  }

  /** A stage, a pixel a block. @param {string} stage @param {number} head @param {boolean} dark
   * @returns {HTMLCanvasElement | null} */
  bitmap(stage, head, dark) {
    const picture = this.picture(stage, head);
    const shades = this.shades(stage, head);
    if (picture === null || picture === undefined || shades === null) return null;
    const name = `${stage} ${this.headOf(stage, head)} ${dark}`;
    let made = this.#bitmaps.get(name);
    if (made === undefined) {
      made = paintStage(picture, shades);
      this.#bitmaps.set(name, made);
    }
    return made;
  }

  /** Bars of many tokens, a pixel a block. @param {string} stage @param {number} head @param {boolean} dark
   * @returns {HTMLCanvasElement | null} */
  bars(stage, head, dark) {
    const picture = this.picture(stage, head);
    const shades = this.shades(stage, head);
    if (picture === null || picture === undefined || shades === null) return null;
    const name = `bars ${stage} ${this.headOf(stage, head)} ${dark}`;
    let made = this.#bitmaps.get(name);
    if (made === undefined) {
      made = paintBars(picture, shades);
      this.#bitmaps.set(name, made);
    }
    return made;
  }
}
