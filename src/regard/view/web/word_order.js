// Words side by side in an order of the reader's own: dragged, or moved by buttons.

import { el } from "./dom.js";
import { word } from "./words.js";

export const WORD_ORDER_CSS = `
.words { display: flex; flex-wrap: wrap; gap: 10px; list-style: none; padding: 0; margin: 0; }
.words li { border: 1px solid var(--edge); border-radius: 8px; padding: 6px 10px; text-align: center; background: var(--page); user-select: none; cursor: grab; }
.words li.over { border-color: var(--accent); }
.words .name { display: block; font-weight: 600; touch-action: none; }
.words .output { display: block; font: 13px var(--mono); }
`;

/**
 * A list of words, and `draw`, which shows it anew. An order has, for each place, which of the words stands there.
 * @param {string[]} words
 * @param {(order: number[]) => string[]} under what stands below each place
 * @param {(order: number[]) => void} changed
 */
export function wordOrder(words, under, changed) {
  let order = words.map((_, n) => n);
  /** The place of the word that is dragged. @type {number | null} */
  let held = null;
  const list = el("ol", { class: "words" });
  const items = () => /** @type {HTMLElement[]} */ ([...list.children]);

  /** @param {number} from @param {number} to */
  const move = (from, to) => {
    if (to < 0 || to >= order.length || to === from) return;
    const rest = order.filter((_, place) => place !== from);
    rest.splice(to, 0, order[from]);
    order = rest;
    draw();
    changed(order);
  };
  const draw = () => {
    const below = under(order);
    list.replaceChildren(...order.map((each, place) => {
      const name = words[each];
      const button = (/** @type {number} */ by, /** @type {string} */ sign) => el("button", {
        name: `${name} ${by}`, type: "button", "aria-label": word(by < 0 ? "try.left" : "try.right", { word: name }),
        onclick: () => {
          move(place, place + by);
          const stays = Math.min(order.length - 1, Math.max(0, place + by));
          /** @type {HTMLElement | undefined} */ (items()[stays].querySelectorAll("button")[by < 0 ? 0 : 1])?.focus();
        },
      }, sign);
      return el("li", { onpointerdown: (event) => hold(/** @type {PointerEvent} */ (event), place) },
        el("span", { class: "name" }, name), below[place] === "" ? null : el("span", { class: "output" }, below[place]),
        button(-1, "←"), " ", button(1, "→"));
    }));
  };

  /** @param {PointerEvent} event @param {number} place */
  const hold = (event, place) => {
    if (event.target instanceof HTMLButtonElement || event.button !== 0) return;
    held = place;
    list.setPointerCapture(event.pointerId);
  };
  /** The place below the pointer; -1 elsewhere. @param {PointerEvent} event */
  const placeAt = ({ clientX, clientY }) => {
    const root = /** @type {Document | ShadowRoot} */ (list.getRootNode());
    const item = root.elementFromPoint(clientX, clientY)?.closest("li");
    return items().findIndex((each) => each === item);
  };
  list.addEventListener("pointermove", (event) => {
    if (held === null) return;
    const over = placeAt(event);
    items().forEach((item, place) => item.classList.toggle("over", place === over && place !== held));
  });
  list.addEventListener("pointerup", (event) => {
    if (held === null) return;
    const [from, to] = [held, placeAt(event)];
    held = null;
    if (to >= 0) move(from, to);
  });
  list.addEventListener("pointercancel", () => {
    held = null;
    draw();
  });
  draw();
  return { list, draw };
}
