// What stands around the map of an atlas: what can be chosen, what is pointed at, the colours, how to move.

import { el, field, put, toggle } from "./dom.js";
import { legend } from "./scale.js";
import { lacking, reading } from "./atlas_words.js";
import { word } from "./words.js";

/**
 * @import { RunSource } from "./source.js"
 * @import { Range } from "./scale.js"
 * @import { Spot } from "./atlas_view.js"
 * @import { Kept, Tiles } from "./atlas_tiles.js"
 * @import { Cell } from "./atlas_axes.js"
 * @import { Choice, Reach } from "./atlas_words.js"
 */

const MOVES = [
  ["+", word("atlas.zoom_in"), "+"], ["−", word("atlas.zoom_out"), "-"],
  [word("atlas.all"), word("atlas.show_all"), "0"], ["⇱", word("atlas.home"), "Home"],
  ["←", word("atlas.left"), "ArrowLeft"], ["↑", word("atlas.up"), "ArrowUp"], ["↓", word("atlas.down"), "ArrowDown"],
  ["→", word("atlas.right"), "ArrowRight"],
];

/** Its width in pixels. */
export const SIDE = 268;

export const SIDE_CSS = `
.side { flex: 1 1 ${SIDE}px; min-width: 0; max-width: 420px;
  display: flex; flex-direction: column; gap: 10px; font-size: 14px; }
.side p { margin: 0; }
.readout { min-height: 4.6em; padding: 8px 10px;
  background: var(--raised); border: 1px solid var(--edge); border-radius: 6px; }
.readout strong { font-size: 16px; }
.readout span { display: block; }
.moves { display: flex; flex-wrap: wrap; gap: 4px; }
.moves button { min-width: 34px; padding: 2px 8px; }
.scale { display: flex; flex-wrap: wrap; gap: 2px 16px; }
.hatched { display: inline-flex; gap: 6px; align-items: center; font-size: 13px; }
.hatched i { width: 22px; height: 12px; border: 1px solid var(--edge); border-radius: 3px;
  background: repeating-linear-gradient(135deg, var(--faint) 0 1px, var(--raised) 1px 4px); }
.overview { display: block; border: 1px solid var(--edge); cursor: pointer; }
.narrow .side { max-width: none; flex: none; width: 100%; }
`;

export class Side {
  overview = el("canvas", { class: "overview", "aria-hidden": "true" });
  #readout = el("p", { class: "readout", id: "readout", role: "status", "aria-live": "polite" });
  #scale = el("div", { class: "scale" });
  #note = el("p", { class: "note faint" });
  #problem = el("p", { class: "error", role: "alert" });

  /** @param {(key: string) => void} press a key of the map */
  constructor(press) {
    const moves = MOVES.map(([sign, title, key]) =>
      el("button", { type: "button", title, "aria-label": title, onclick: () => press(key) }, sign));
    this.element = el("div", { class: "side" },
      this.#readout,
      this.#problem,
      this.#scale,
      this.#note,
      el("div", { class: "moves", role: "group", "aria-label": word("atlas.move") }, ...moves),
      this.overview,
      el("p", { class: "faint help" }, word("atlas.help")));
  }

  /**
   * Say what is seen.
   * @param {RunSource} source @param {Choice} choice @param {Reach} reach @param {number[]} levels
   * @param {(spot: Spot) => Kept | undefined} find @param {Cell} pointed
   */
  read(source, choice, reach, levels, find, pointed) {
    put(this.#note, lacking(source, reach, levels[levels.length - 1] ?? 0));
    const [first, second] = reading(source, choice, levels, find, pointed);
    anew(this.#readout, `${first}\n${second}`, () => [el("strong", {}, first), el("span", { class: "faint" }, second)]);
  }

  /**
   * What the colours are.
   * @param {Choice} choice @param {Reach} reach @param {number} finest level that is drawn @param {Range} range
   * @param {boolean} dark
   */
  legend({ mask, reduce }, reach, finest, range, dark) {
    const what = word(finest === 0 ? "atlas.weight" : reduce === "max" ? "atlas.maximum_weight" : "atlas.mean_weight");
    const partly = reach.finest !== 0 && finest === 0;
    const out = mask.diagonal !== null || mask.sink !== null;
    const hatched = [partly && word("atlas.not_here"), out && word("atlas.left_out")].filter(Boolean).join(word("atlas.or"));
    anew(this.#scale, JSON.stringify([range, what, hatched, dark]), () => [
      legend(range, what),
      ...(hatched === "" ? [] : [el("span", { class: "hatched faint" }, el("i"), hatched)]),
    ]);
  }

  /** What could not be had. @param {Tiles} tiles @param {() => void} again */
  fail({ problem }, again) {
    const why = problem instanceof Error ? problem.message : String(problem);
    const said = problem === null ? "" : word("atlas.failed", { why });
    anew(this.#problem, said, () =>
      said === "" ? [] : [said, el("button", { type: "button", onclick: again }, word("atlas.again"))]);
  }
}

/** Other contents, if what they say is new. @param {HTMLElement} element @param {string} said
 * @param {() => (Node | string)[]} contents */
function anew(element, said, contents) {
  if (element.dataset.said === said) return;
  element.dataset.said = said;
  element.replaceChildren(...contents());
}

/** What can be chosen: what a block shows, its colours, what is left out.
 * @param {Choice} choice @param {string[]} reduces what a block can show; fewer than one: nothing is said
 * @param {boolean} cross there is no diagonal @param {(change: Record<string, string | null>) => void} say
 * @returns {HTMLElement[]} */
export function atlasControls({ reduce, log, mask }, reduces, cross, say) {
  const button = (
    /** @type {import("./words.js").Key} */ name, /** @type {boolean} */ on,
    /** @type {Record<string, string | null>} */ change, /** @type {import("./words.js").Key} */ title, possible = true,
  ) => toggle(word(name), on, word(title), () => say(change), possible);
  const [diagonal, first] = [mask.diagonal !== null, mask.sink !== null];
  const out = (/** @type {boolean} */ a, /** @type {boolean} */ b) => ({
    "atlas-mask": [a && "diagonal", b && "first"].filter(Boolean).join(" ") || null,
  });
  const most = reduces.includes("max");
  const blocks = field(word("atlas.blocks"), word("atlas.blocks_about"),
    button("atlas.mean", reduce === "mean", { "atlas-reduce": null }, "atlas.mean_about"),
    button("atlas.maximum", reduce === "max", { "atlas-reduce": "max" },
      most ? "atlas.maximum_about" : "atlas.no_maximum", most));
  return [
    ...(reduces.length > 0 ? [blocks] : []),
    field(word("scale.colours"), word("scale.about"),
      button("scale.log", log, { "atlas-scale": null }, "atlas.log_about"),
      button("scale.linear", !log, { "atlas-scale": "linear" }, "atlas.linear_about")),
    field(word("atlas.leave_out"), word("atlas.leave_out_about"),
      button("atlas.diagonal", diagonal, out(!diagonal, first), "atlas.diagonal_about", !cross),
      button("atlas.first", first, out(diagonal, !first), "atlas.first_about")),
  ];
}
