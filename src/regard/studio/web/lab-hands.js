// Settings of an experiment by hand: two vectors that are dragged, words that are put into another order.

import { el } from "./dom.js";
import { vectors, VECTORS_CSS } from "./vectors.js";
import { WORD_ORDER_CSS, wordOrder } from "./word_order.js";
import { word } from "./words.js";

/**
 * What a setting is changed by: `set` changes it as a reader would, `listen` hears of every change that a reader makes.
 * @typedef {{ name: string, said: string, element: HTMLElement, changed: () => boolean, value: () => any,
 *   set: (value: any) => void, listen: (hear: () => void) => void }} Control
 */

export const HANDS = `${VECTORS_CSS}${WORD_ORDER_CSS}
.hands { max-width: 60em; margin: 0 0 14px; }
`;

/** Settings that are changed by hand alone, and need no field. */
export const BY_HAND = ["shuffled"];

/** What is done by hand, if anything is. @param {Control[]} controls @returns {HTMLElement | null} */
export function handsOf(controls) {
  const of = (/** @type {string} */ name) => controls.find((each) => each.name === name);
  const ends = ["q_x", "q_y", "k_x", "k_y"].flatMap((name) => of(name) ?? []);
  if (ends.length === 4) return plane(ends);
  const [sentence, shuffled] = [of("sentence"), of("shuffled")];
  return sentence !== undefined && shuffled !== undefined ? chips(sentence, shuffled) : null;
}

const REACH = 10;

/** Both vectors, bound to the controls of their coordinates. @param {Control[]} controls */
function plane(controls) {
  const { picture, told, set } = vectors(["q", "k"], REACH, (which, to) => {
    to.forEach((place, n) => controls[2 * which + n].set(Math.round(place * 10) / 10));
    draw();
  });
  const draw = () => {
    const [qx, qy, kx, ky] = controls.map((each) => Number(each.value()));
    set([[qx, qy], [kx, ky]]);
  };
  for (const each of controls) each.listen(draw);
  draw();
  return el("div", { class: "hands" }, el("p", { class: "faint" }, word("try.drag")), picture, told);
}

/** The words of the sentence; another sentence begins anew. @param {Control} sentence @param {Control} shuffled */
function chips(sentence, shuffled) {
  const place = el("div");
  const begin = () => {
    const words = String(sentence.value()).split(/\s+/).filter((each) => each !== "");
    const { list } = wordOrder(words, (order) => order.map(() => ""), (order) => {
      const moved = order.some((each, n) => words[each] !== words[n]);
      shuffled.set(moved ? order.map((each) => words[each]).join(" ") : "");
    });
    list.setAttribute("aria-label", shuffled.said);
    place.replaceChildren(list);
  };
  sentence.listen(() => {
    shuffled.set("");
    begin();
  });
  begin();
  return el("div", { class: "hands" }, el("p", { class: "faint" }, word("lab.order")), place);
}
