// Two vectors of the plane as arrows whose ends can be dragged, and what the two make together.

import { el, put, svg } from "./dom.js";
import { headColour } from "./scale.js";
import { word } from "./words.js";

/** @typedef {[number, number]} Point */

export const VECTORS_CSS = `
.vectors svg { display: block; width: 100%; max-width: 340px; height: auto; }
.vectors text { font: italic 11px var(--sans); fill: var(--ink); }
.vectors .end { cursor: grab; } .vectors .end:active { cursor: grabbing; }
`;

const HALF = 100; // of the picture, in its own units
const SHOWN = 108;

/**
 * The picture, the text below it, and `set`, which moves the arrows. A pointer that drags an end is told to `dragged`,
 * which settles where the end may be, and sets it.
 * @param {[string, string]} names
 * @param {number} reach how far the picture goes from 0
 * @param {(which: 0 | 1, to: Point) => void} dragged
 */
export function vectors(names, reach, dragged) {
  const unit = HALF / reach;
  const axis = (/** @type {Record<string, number>} */ ends) => svg("line", { ...ends, stroke: "var(--edge)" });
  const drawn = names.map((name, n) => ({
    line: svg("line", { x1: 0, y1: 0, stroke: headColour(n), "stroke-width": 3, "stroke-linecap": "round" }),
    dot: svg("circle", { r: 5, fill: headColour(n) }),
    text: svg("text", {}, name),
    end: svg("circle", { class: "end", r: 15, fill: "transparent" }),
  }));
  const picture = svg("svg", { viewBox: `${-SHOWN} ${-SHOWN} ${2 * SHOWN} ${2 * SHOWN}`, role: "img" },
    axis({ x1: -SHOWN, x2: SHOWN, y1: 0, y2: 0 }), axis({ y1: -SHOWN, y2: SHOWN, x1: 0, x2: 0 }),
    ...drawn.flatMap(({ line, dot, text }) => [line, dot, text]), ...drawn.map(({ end }) => end));
  const told = el("p", { role: "status" });
  /** @type {[Point, Point]} */
  let ends = [[0, 0], [0, 0]];

  /** @param {PointerEvent} event @returns {Point} */
  const at = ({ clientX, clientY }) => {
    const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(picture.getScreenCTM()?.inverse());
    const within = (/** @type {number} */ place) => Math.min(reach, Math.max(-reach, place / unit));
    return [within(x), within(-y)];
  };
  for (const { end } of drawn) {
    /** Which end is held. @type {0 | 1} */
    let held = 0;
    end.addEventListener("pointerdown", (event) => {
      const [x, y] = at(event);
      const [first, second] = ends.map((each) => Math.hypot(each[0] - x, each[1] - y));
      held = first <= second ? 0 : 1; // where both ends are near, that which is nearer
      end.setPointerCapture(event.pointerId);
    });
    // A finger on an end does not scroll; Chromium knows no touch-action of what is inside a picture.
    end.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
    end.addEventListener("pointermove", (event) => {
      if (end.hasPointerCapture(event.pointerId)) dragged(held, at(event));
    });
  }

  /** @param {[Point, Point]} to */
  const set = (to) => {
    ends = to;
    drawn.forEach(({ line, dot, text, end }, n) => {
      const [x, y] = [unit * to[n][0], -unit * to[n][1]].map((place) => place.toFixed(2));
      line.setAttribute("x2", x);
      line.setAttribute("y2", y);
      for (const circle of [dot, end]) {
        circle.setAttribute("cx", x);
        circle.setAttribute("cy", y);
      }
      text.setAttribute("x", String(Number(x) + 8));
      text.setAttribute("y", String(Number(y) - 6));
    });
    const [[ax, ay], [bx, by]] = to;
    const [first, second] = to.map(([x, y]) => Math.hypot(x, y));
    const dot = ax * bx + ay * by;
    const angle = (Math.abs(Math.atan2(ax * by - ay * bx, dot)) * 180) / Math.PI;
    const none = first * second < 1e-9;
    const [a, b] = names;
    put(told, word("try.dot", {
      a, b, dot: shown(dot), angle: none ? "–" : `${Number(angle.toFixed(1))}°`,
      cosine: none ? "–" : shown(dot / (first * second)), first: shown(first), second: shown(second),
    }));
    picture.setAttribute("aria-label", word("try.arrows", { a, b, first: `(${shown(ax)}, ${shown(ay)})`, second: `(${shown(bx)}, ${shown(by)})` }));
  };
  return { picture: el("div", { class: "vectors" }, picture), told, set };
}

/** A number with two decimals, and no sign where they are 0. @param {number} x */
function shown(x) {
  return (Object.is(Number(x.toFixed(2)), -0) ? "0.00" : x.toFixed(2)).replace("-", "−");
}
