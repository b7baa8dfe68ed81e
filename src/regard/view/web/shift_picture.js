// The picture of words' journeys: a line for each word from its first place to its last, with labels apart.

import { el, svg } from "./dom.js";
import { word } from "./words.js";

/** @import { Stage } from "./shift_numbers.js" */

/**
 * @typedef {object} View what is drawn
 * @property {{ token: number, label: string, colour: string }[]} words
 * @property {Stage[]} stages
 * @property {Float64Array} across of each word at each place, word by word
 * @property {Float64Array} up
 * @property {number[]} shares of the variance, of both axes
 * @property {number} upto the last place that is drawn
 * @property {number} focus the word that stands out
 *
 * @typedef {{ x: number, y: number, width: number, height: number }} Box
 * @typedef {[number, number, number, number]} Segment from x, y to x, y
 */

const MARGIN = { side: 46, top: 34, bottom: 40 };
const TALLEST = 420;
const LINE = 20; // height of a label

export const PICTURE_CSS = `
.picture { border: 1px solid var(--edge); border-radius: 8px; overflow: hidden; touch-action: pan-y; }
.picture svg { display: block; width: 100%; cursor: pointer; font: 13px var(--sans); }
.picture .axis { fill: var(--faint); font-size: 12px; }
.picture .word path { fill: none; stroke-linejoin: round; stroke-width: 1.8; }
.picture .word .layer { stroke-width: 2.4; }
.picture .word .feed-forward { stroke-dasharray: 4 3; }
.picture .word.focus path { stroke-width: 3.4; }
.picture .word:not(.focus) { opacity: 0.8; }
.picture .label text {
  fill: var(--ink); paint-order: stroke; stroke: var(--page); stroke-width: 4px; stroke-linejoin: round;
}
.picture .label.focus text { font-weight: 700; }
.picture .label .leader { stroke-width: 1; opacity: 0.8; }
.picture .label .under { stroke-width: 3; }
.picture .ring { fill: none; stroke: var(--ink); stroke-width: 2; }
`;

/** Do two boxes touch? @param {Box} a @param {Box} b */
function touch(a, b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/** Does a line go through a box? @param {Segment} line @param {Box} box */
function crosses([x1, y1, x2, y2], { x, y, width, height }) {
  // The part of the line, from 0 to 1, that is within both pairs of sides.
  let [from, to] = [0, 1];
  for (const [start, step, low, high] of [[x1, x2 - x1, x, x + width], [y1, y2 - y1, y, y + height]]) {
    if (step === 0) {
      if (start < low || start > high) return false;
      continue;
    }
    const [a, b] = [(low - start) / step, (high - start) / step];
    from = Math.max(from, Math.min(a, b));
    to = Math.min(to, Math.max(a, b));
  }
  return from <= to;
}

/**
 * A place for each label near its point: none on another label or on what is taken, few on lines.
 * @param {{ x: number, y: number, width: number }[]} labels
 * @param {Box[]} taken
 * @param {Segment[]} lines
 * @param {Box} room
 * @returns {Box[]}
 */
export function places(labels, taken, lines, room) {
  const full = [...taken];
  return labels.map(({ x, y, width }) => {
    /** @type {Box | null} */
    let best = null;
    let least = Infinity;
    for (let distance = 9; distance < room.width + room.height && distance < least; distance *= 1.3) {
      for (let n = 0; n < 16; n++) {
        const [dx, dy] = [Math.cos((n * Math.PI) / 8), Math.sin((n * Math.PI) / 8)];
        const box = {
          x: x + dx * (distance + width / 2) - width / 2, y: y + dy * (distance + LINE / 2) - LINE / 2,
          width, height: LINE,
        };
        const inside = box.x >= room.x && box.y >= room.y && box.x + width <= room.x + room.width
          && box.y + LINE <= room.y + room.height;
        if (!inside || full.some((other) => touch(box, other))) continue;
        // To the right of its point a label reads best.
        let cost = distance + (1 - dx) * 3;
        for (const line of lines) if (cost < least && crosses(line, box)) cost += 12;
        if (cost < least) [best, least] = [box, cost];
      }
    }
    const box = best ?? { x, y, width, height: LINE };
    full.push(box);
    return box;
  });
}

/** The picture, which is told what to draw, and tells where the reader points. */
export class Picture {
  /** @type {View | null} */
  #view = null;
  /** @type {{ x: number, y: number }[][]} */
  #points = [];
  #told;

  /** @param {{ point: (word: number | null, stage: number) => void, pick: (word: number) => void,
   *   key: (event: KeyboardEvent) => void }} told */
  constructor(told) {
    this.#told = told;
    this.lines = svg("g", {});
    this.labels = svg("g", {});
    this.axes = svg("g", {});
    this.ring = svg("circle", { class: "ring", r: 6, visibility: "hidden" });
    this.svg = svg("svg", {
      "aria-hidden": "true",
      onpointermove: (event) => this.#point(/** @type {PointerEvent} */ (event)),
      onpointerleave: () => this.#point(null),
      onclick: (event) => this.#pick(/** @type {PointerEvent} */ (event)),
    }, this.lines, this.axes, this.labels, this.ring);
    this.node = el("div", {
      class: "picture", role: "group", tabindex: 0,
      onkeydown: (event) => told.key(/** @type {KeyboardEvent} */ (event)),
    }, this.svg);
  }

  /** @param {View} view */
  draw(view) {
    this.#view = view;
    const width = Math.max(260, this.node.clientWidth || 640);
    const { height, points } = fit(view, width);
    this.#points = points;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", String(height));
    this.ring.setAttribute("visibility", "hidden");
    this.#axes(view, width, height);
    this.#lines(view);
    this.#labels(view, width, height);
    this.node.setAttribute("aria-label", spoken(view));
  }

  /** @param {View} view @param {number} width @param {number} height */
  #axes({ shares }, width, height) {
    const percent = (/** @type {number} */ n) => `${Math.round(100 * shares[n])} %`;
    const below = { class: "axis", x: width - 10, y: height - 10, "text-anchor": "end" };
    this.axes.replaceChildren(
      svg("text", below, word("shift.first_axis", { share: percent(0) })),
      svg("text", { class: "axis", x: 10, y: 18 }, word("shift.second_axis", { share: percent(1) })),
    );
  }

  /** @param {View} view */
  #lines({ words, stages, upto, focus }) {
    /** @type {SVGGElement[]} */
    const made = words.map(({ token, colour }, n) => {
      const points = this.#points[n];
      const parts = { attention: "", "feed-forward": "", layer: "" };
      for (let stage = 1; stage <= upto; stage++) {
        const kind = /** @type {keyof typeof parts} */ (stages[stage].kind);
        const [a, b] = [points[stage - 1], points[stage]];
        parts[kind] += `M${at(a.x)} ${at(a.y)}L${at(b.x)} ${at(b.y)}`;
      }
      const drawn = Object.entries(parts).filter(([, d]) => d !== "");
      const [cx, cy] = [at(points[0].x), at(points[0].y)];
      return svg("g", { class: n === focus ? "word focus" : "word", "data-token": token },
        ...drawn.map(([kind, d]) => svg("path", { class: kind, d, stroke: colour })),
        svg("circle", { class: "begin", cx, cy, r: n === focus ? 5 : 4, fill: colour }),
        head(points.slice(0, upto + 1), colour, n === focus ? 1.25 : 1));
    });
    // What stands out is drawn last, on top.
    this.lines.replaceChildren(...made.filter((_, n) => n !== focus), ...made.filter((_, n) => n === focus));
  }

  /** @param {View} view @param {number} width @param {number} height */
  #labels({ words, upto, focus }, width, height) {
    const made = words.map(({ token, label, colour }, n) => {
      const under = svg("line", { class: "under", stroke: colour });
      const text = svg("text", {}, label);
      return svg("g", { class: n === focus ? "label focus" : "label", "data-token": token }, text, under);
    });
    this.labels.replaceChildren(...made);
    const around = (/** @type {{ x: number, y: number }} */ { x, y }, /** @type {number} */ size) =>
      ({ x: x - size, y: y - size, width: 2 * size, height: 2 * size });
    const ends = this.#points.map((points) => points[upto]);
    const taken = [
      ...ends.map((end) => around(end, 6)), ...this.#points.map((points) => around(points[0], 4)),
      ...[...this.axes.children].map((text) => /** @type {SVGTextElement} */ (text).getBBox()),
    ];
    /** @type {Segment[]} */
    const lines = this.#points.flatMap((points) =>
      points.slice(1, upto + 1).map((to, n) => /** @type {Segment} */ ([points[n].x, points[n].y, to.x, to.y])));
    const wide = (/** @type {number} */ n) =>
      (/** @type {SVGTextElement} */ (made[n].firstChild).getComputedTextLength() || 60) + 4;
    const room = { x: 2, y: 2, width: width - 4, height: height - 4 };
    const boxes = places(ends.map((end, n) => ({ ...end, width: wide(n) })), taken, lines, room);
    boxes.forEach((box, n) => {
      const text = /** @type {SVGTextElement} */ (made[n].firstChild);
      text.setAttribute("x", at(box.x + 2));
      text.setAttribute("y", at(box.y + LINE - 6));
      const under = /** @type {SVGLineElement} */ (made[n].lastChild);
      under.setAttribute("transform", `translate(${at(box.x + 2)} ${at(box.y + LINE - 2)})`);
      under.setAttribute("x2", at(box.width - 4));
      const leader = leaderOf(ends[n], box);
      if (leader === null) return;
      const [x1, y1, x2, y2] = leader.map(at);
      made[n].prepend(svg("line", { class: "leader", x1, y1, x2, y2, stroke: words[n].colour }));
    });
  }

  /** The place that is nearest to the pointer, if one is near. @param {PointerEvent} event */
  #nearest(event) {
    if (this.#view === null) return null;
    const frame = this.svg.getBoundingClientRect();
    const scale = this.svg.viewBox.baseVal.width / frame.width;
    const [x, y] = [(event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale];
    let [best, word, stage] = [28 ** 2, -1, 0];
    this.#points.forEach((points, n) => {
      for (let s = 0; s <= /** @type {View} */ (this.#view).upto; s++) {
        const far = (points[s].x - x) ** 2 + (points[s].y - y) ** 2;
        if (far < best) [best, word, stage] = [far, n, s];
      }
    });
    return word < 0 ? null : { word, stage };
  }

  /** @param {PointerEvent | null} event */
  #point(event) {
    const found = event === null ? null : this.#nearest(event);
    this.ring.setAttribute("visibility", found === null ? "hidden" : "visible");
    if (found !== null) {
      const { x, y } = this.#points[found.word][found.stage];
      this.ring.setAttribute("cx", at(x));
      this.ring.setAttribute("cy", at(y));
    }
    this.#told.point(found?.word ?? null, found?.stage ?? 0);
  }

  /** @param {PointerEvent} event */
  #pick(event) {
    const label = event.target instanceof Element ? event.target.closest("[data-token]") : null;
    const token = label?.getAttribute("data-token");
    const named = token ? (this.#view?.words.findIndex((word) => String(word.token) === token) ?? -1) : -1;
    const word = named >= 0 ? named : (this.#nearest(event)?.word ?? -1);
    if (word >= 0) this.#told.pick(word);
  }
}

/** @param {number} value */
function at(value) {
  return value.toFixed(1);
}

/** Where the places are in a picture that is as wide as this, and no taller than need be. Both
 * directions have one scale. @param {View} view @param {number} width */
function fit({ words, stages, across, up }, width) {
  const range = (/** @type {Float64Array} */ values) => {
    let [least, most] = [Infinity, -Infinity];
    for (const value of values) [least, most] = [Math.min(least, value), Math.max(most, value)];
    return [least, most - least];
  };
  const [left, wide] = range(across);
  const [low, tall] = range(up);
  const room = [width - 2 * MARGIN.side, TALLEST - MARGIN.top - MARGIN.bottom];
  const scale = Math.min(wide > 0 ? room[0] / wide : Infinity, tall > 0 ? room[1] / tall : Infinity);
  const unit = Number.isFinite(scale) ? scale : 0;
  const height = Math.round(Math.max(240, tall * unit + MARGIN.top + MARGIN.bottom));
  const [x0, y0] = [(width - wide * unit) / 2, (height + MARGIN.top - MARGIN.bottom + tall * unit) / 2];
  const points = words.map((_, n) =>
    stages.map((_, s) => {
      const i = n * stages.length + s;
      return { x: x0 + (across[i] - left) * unit, y: y0 - (up[i] - low) * unit };
    }));
  return { height, points };
}

/** The arrow at the end of a journey; null before it began. @param {{ x: number, y: number }[]} points
 * @param {string} colour @param {number} size */
function head(points, colour, size) {
  const end = points[points.length - 1];
  const before = points.findLast(({ x, y }) => Math.hypot(end.x - x, end.y - y) > 2);
  if (before === undefined) return null;
  const turn = (Math.atan2(end.y - before.y, end.x - before.x) * 180) / Math.PI;
  return svg("polygon", {
    class: "end", points: "5,0 -6,-5 -4,0 -6,5", fill: colour,
    transform: `translate(${at(end.x)} ${at(end.y)}) rotate(${turn.toFixed(0)}) scale(${size})`,
  });
}

/** A line from a point to its label, where they are apart. @param {{ x: number, y: number }} point
 * @param {Box} box @returns {Segment | null} */
function leaderOf({ x, y }, box) {
  const toX = Math.min(Math.max(x, box.x), box.x + box.width);
  const toY = Math.min(Math.max(y, box.y + 3), box.y + box.height - 3);
  const far = Math.hypot(toX - x, toY - y);
  if (far < 16) return null;
  return [x + ((toX - x) * 7) / far, y + ((toY - y) * 7) / far, toX, toY];
}

/** The picture in words. @param {View} view */
function spoken({ words, stages, upto, focus }) {
  return word("shift.spoken", {
    words: words.map(({ label }) => label).join(", "), first: stages[0].title, last: stages[upto].title, word: words[focus].label,
  });
}
