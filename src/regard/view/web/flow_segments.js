// The stages of a band as segments of a line: matrices that stand together, each drawn to its shape.

import { labelsOf } from "./flow_source.js";
import { word } from "./words.js";

/**
 * @typedef {import("./flow_source.js").Outline} Outline
 * @typedef {import("./flow_source.js").Stage} Stage
 * @typedef {import("./flow_source.js").Band} Band
 *
 * Something that is drawn, in units of the picture. `matrix` is a stage as it is, `turned` the same
 * with rows as columns, `bars` the weights as shares of 1, `ribbons` the values on their way, `next`
 * the likeliest next tokens.
 * @typedef {object} Box
 * @property {string} stage
 * @property {"matrix" | "turned" | "bars" | "ribbons" | "next"} kind
 * @property {number} x
 * @property {number} y
 * @property {number} width
 * @property {number} height
 * @property {"above" | "below" | ""} caption where its name stands
 * @property {boolean} columnLabels above it
 * @property {number} names of its rows, on its left: how wide they may be; 0: there are none
 * @property {boolean} corner it begins a line: an arrow comes in from above
 * @property {string} sign that stands before it
 * @property {number} band
 *
 * Boxes that stand together; its rows of tokens begin at y = 0. `indent` of its width is for names, which the first of
 * a line has elsewhere.
 * @typedef {{ boxes: Box[], width: number, indent: number, up: number, down: number }} Segment
 */

const FEW = 10; // tokens that get one unit each
const CAPTION = 1.75;
export const CORNER = 0.55; // to the left of a box, where an arrow comes in from above
const LABELS = 0.95; // above columns
const LANE = 0.35; // between two lanes
const RIBBONS = 7.5;
const GIVEN = 12; // rows and columns that a matrix of weights may have to be drawn
const BARS = 6;
const NAMES = 3; // at most, for the names of rows within a line
/** Parts of attention, in the order in which they are drawn. */
const ATTENTION = ["query", "turned_query", "key", "turned_key", "value", "scores", "scaled", "weights", "head_output", "concatenated", "output"];
/** Parts whose columns are keys. */
const OF_KEYS = new Set(["scores", "scaled", "weights", "bias", "positions_bias"]);

/** How long axes are: as many units as there are cells, and ever less for each where there are many. */
export class Sizes {
  /** @param {Outline} outline */
  constructor(outline) {
    const longest = Math.max(...Object.values(outline.sequences).map((each) => each.length));
    this.aspect = longest <= FEW ? 1.5 : 1.2; // width of a cell to its height: room for a number
    this.narrow = outline.kind === "attention" ? 8 : 4; // numbers of a vector that get one unit each
    this.label = labelWidth(outline);
    this.names = Math.min(NAMES, this.label); // those at the beginning of a line may be far away
  }

  /** @param {number} n */
  tokens(n) {
    return n <= FEW ? n : FEW * (n / FEW) ** 0.18;
  }

  /** @param {number} n */
  numbers(n) {
    return n <= this.narrow ? n : this.narrow * (n / this.narrow) ** 0.3;
  }

  /** @param {Stage} stage */
  size(stage) {
    const tall = ofTokens(stage) ? this.tokens(stage.rows) : this.numbers(stage.rows);
    return { width: this.aspect * (ofKeys(stage) ? this.tokens(stage.columns) : this.numbers(stage.columns)), height: tall };
  }
}

/** Are its rows tokens? @param {Stage} stage */
export function ofTokens({ part, row_labels }) {
  return part !== "matrix" || typeof row_labels === "string";
}

/** Are the columns of a stage tokens? @param {Stage} stage */
export function ofKeys({ part, column_labels }) {
  return OF_KEYS.has(part) || typeof column_labels === "string";
}

/** Builds one segment, from left to right. */
class Builder {
  /** @type {Box[]} */
  boxes = [];
  at = 0;
  indent = 0;

  /** @param {Outline} outline @param {Sizes} sizes @param {number} band */
  constructor(outline, sizes, band) {
    this.outline = outline;
    this.sizes = sizes;
    this.band = band;
  }

  /** @param {string} stage @param {Partial<Box>} [said] @param {number} [gap] before it */
  matrix(stage, said = {}, gap = 0) {
    const own = this.outline.stages[stage];
    const { width, height } = this.sizes.size(own);
    if (this.boxes.length === 0) this.indent = said.names ?? 0;
    this.at += gap;
    const box = this.#box({ stage, width, height, columnLabels: ofKeys(own), ...said });
    this.at = box.x + box.width;
    return box;
  }

  /** @param {Partial<Box> & { stage: string, width: number, height: number }} said @returns {Box} */
  #box(said) {
    /** @type {Box} */
    const box = {
      kind: "matrix", x: this.at, y: 0, caption: "below", columnLabels: false, names: 0, corner: false, sign: "",
      band: this.band, ...said,
    };
    this.boxes.push(box);
    return box;
  }

  /** @param {Partial<Box> & { stage: string, width: number, height: number }} said */
  other(said) {
    const box = this.#box(said);
    this.at = box.x + box.width;
    return box;
  }

  /** Matrices that a stage was made with and that are no stages, and then it. @param {string} stage @param {Partial<Box>} said
   * @param {Set<string>} placed */
  product(stage, said, placed) {
    const { from } = this.outline.stages[stage];
    const own = from.filter((name) => {
      const given = this.outline.stages[name];
      return given?.part === "matrix" && !placed.has(name) && given.rows <= GIVEN && given.columns <= GIVEN;
    });
    own.forEach((name, n) => {
      placed.add(name);
      const sign = n > 0 || (from[0] !== name && this.outline.stages[from[0]]?.part !== "matrix") ? this.#between(stage) : "";
      this.matrix(name, { ...said, names: 0, sign }, n === 0 ? 0 : 1.3);
    });
    placed.add(stage);
    if (own.length === 0) return this.matrix(stage, { ...said, sign: "" }, said.names);
    return this.matrix(stage, { ...said, names: 0, sign: "=" }, 1.3);
  }

  /** @param {string} stage */
  #between(stage) {
    return this.outline.stages[stage].part === "input" ? "+" : "·";
  }

  /** @returns {Segment} */
  done() {
    let [up, down, width] = [0, 0, this.at];
    for (const box of this.boxes) {
      const named = box.columnLabels || this.outline.stages[box.stage].part === "concatenated"; // by key, or by head
      const above = (named ? LABELS : 0) + (box.caption === "above" ? CAPTION : 0);
      up = Math.max(up, above - box.y);
      down = Math.max(down, box.y + box.height + (box.caption === "below" ? CAPTION : 0));
      width = Math.max(width, box.x + box.width);
    }
    return { boxes: this.boxes, width, indent: this.indent, up, down };
  }
}

/** @param {Outline} outline @param {Band} band @param {number} index @param {Sizes} sizes @returns {Segment[]} */
export function segmentsOf(outline, band, index, sizes) {
  /** @type {Segment[]} */
  const segments = [];
  const placed = new Set();
  const build = (/** @type {(make: Builder) => void} */ work) => {
    const make = new Builder(outline, sizes, index);
    work(make);
    if (make.boxes.length > 0) segments.push(make.done());
  };
  for (const name of band.stages) {
    const stage = outline.stages[name];
    if (placed.has(name) || stage.part === "matrix") continue;
    if (stage.attention !== "" && ATTENTION.includes(stage.part)) {
      attention(outline, band, stage.attention, build, placed, sizes);
      if (placed.has(name)) continue;
    }
    build((make) => make.product(name, { sign: signOf(stage) }, placed));
    const last = name === band.stages[band.stages.length - 1] && index === outline.bands.length - 1;
    if (last && outline.predictions) {
      const height = Math.max(6, sizes.tokens(stage.rows));
      build((make) => make.other({ stage: name, kind: "next", width: Math.min(24, 11 * (height / 6)), height, caption: "below" }));
    }
  }
  return segments;
}

/** @param {Stage} stage */
function signOf({ part }) {
  return part === "residual" ? "+" : "";
}

/**
 * One attention: keys above the scores on their side, queries to the left of them, then along the line.
 * @param {Outline} outline @param {Band} band @param {string} attention
 * @param {(work: (make: Builder) => void) => void} build @param {Set<string>} placed @param {Sizes} sizes
 */
function attention(outline, band, attention, build, placed, sizes) {
  const parts = Object.fromEntries(ATTENTION.map((part) => [part, band.stages.find((name) =>
    outline.stages[name].attention === attention && outline.stages[name].part === part)]));
  const { query, key, value, scores, scaled, weights, concatenated, output } = parts;
  const { names } = sizes;
  build((make) => {
    const q = parts.turned_query ?? query;
    const k = parts.turned_key ?? key;
    /** @type {number[]} */
    const lanes = [];
    // The lane of the keys first: it stands above.
    if (key !== undefined) {
      const bottom = -LANE;
      const above = (/** @type {string} */ name, /** @type {Set<string>} */ done) => {
        const first = make.boxes.length;
        make.product(name, { caption: "above", columnLabels: false }, done);
        for (const box of make.boxes.slice(first)) box.y = bottom - box.height;
        return make.boxes[make.boxes.length - 1];
      };
      above(key, placed);
      if (parts.turned_key !== undefined) {
        make.at += 1.2;
        above(parts.turned_key, placed);
      }
      lanes.push(make.at);
    }
    if (query !== undefined) {
      const first = make.boxes.length;
      make.at = 0;
      make.product(query, { names }, placed);
      if (parts.turned_query !== undefined) {
        make.at += 1.2;
        make.product(parts.turned_query, { names }, placed);
      }
      lanes.push(make.at);
      // Both lanes end at the same place, before the scores.
      const end = Math.max(...lanes);
      make.boxes.forEach((box, n) => (box.x += end - (n < first ? lanes[0] : make.at)));
      make.at = end;
    }
    if (scores !== undefined) {
      const box = make.matrix(scores, { columnLabels: false }, q === undefined ? 0 : LANE * 1.5);
      placed.add(scores);
      if (k !== undefined) {
        const height = sizes.numbers(outline.stages[k].columns);
        make.boxes.push({
          ...box, stage: k, kind: "turned", height, y: -LANE - height, caption: "above", columnLabels: true,
        });
      }
    }
  });
  if (scaled !== undefined) {
    placed.add(scaled);
    const width = query === undefined ? "dₖ" : outline.stages[query].columns;
    build((make) => make.matrix(scaled, { sign: `÷√${width}` }));
  }
  if (weights !== undefined) {
    placed.add(weights);
    build((make) => {
      const box = make.matrix(weights, { sign: word("flow.softmax"), names }, names);
      make.at += 0.5;
      make.other({ stage: weights, kind: "bars", width: BARS, height: box.height, caption: "" });
    });
  }
  build((make) => {
    if (value !== undefined) make.product(value, { names }, placed);
    if (parts.head_output !== undefined) {
      const height = make.boxes[make.boxes.length - 1]?.height ?? 0;
      if (value !== undefined) make.other({ stage: parts.head_output, kind: "ribbons", width: RIBBONS, height, caption: "" });
      make.product(parts.head_output, {}, placed);
    }
  });
  if (concatenated !== undefined) build((make) => make.product(concatenated, { sign: "→" }, placed));
  if (output !== undefined) build((make) => make.product(output, {}, placed));
}

/** In letters of which those of the east of Asia are as wide as one and a half. @param {string} label */
function lengthOf(label) {
  return [...label].reduce((sum, letter) => sum + (letter >= "\u1100" ? 1.5 : 1), 0);
}

/** How wide the labels of rows are, in units. @param {Outline} outline */
function labelWidth(outline) {
  const known = new Set(Object.values(outline.stages).filter((stage) => stage.part !== "matrix").map((stage) => stage.row_labels));
  const longest = Math.max(1, ...[...known].map((labels) => Math.max(...labelsOf(outline, labels, 1).map(lengthOf))));
  return Math.min(6, 0.9 + 0.42 * longest);
}
