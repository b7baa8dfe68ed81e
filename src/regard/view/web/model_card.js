// The head that is pointed at, large, with its numbers; and what the kinds of heads are.

import { el, figure } from "./dom.js";
import { headColour } from "./scale.js";
import { headKind } from "./told.js";
import { word } from "./words.js";

/** @import { HeadInfo } from "./source.js" */

/** What each kind means, in plain words, in the order of the legend; each with a colour of its own.
 * @type {[string, string, number | null][]} */
export const KINDS = [
  ["first token", word("kind.first"), 0],
  ["previous token", word("kind.previous"), 1],
  ["itself", word("kind.self"), 2],
  ["induction", word("kind.induction"), 3],
  ["broad", word("kind.broad"), 5],
  ["mixed", word("kind.mixed"), null],
];

const NUMBERS = /** @type {const} */ (["entropy", "spread", "distance", "first", "previous", "self", "induction"]);
/** @type {(keyof HeadInfo)[]} */
const SHARES = ["first", "previous", "self", "induction", "spread"];

/** The colour of a kind of heads. @param {string} kind */
export function colourOf(kind) {
  const place = KINDS.find(([name]) => name === kind)?.[2];
  return typeof place === "number" ? headColour(place) : "var(--edge)";
}

/** A number of a head, with few figures. @param {number | null | undefined} value */
export function short(value) {
  if (value === null || value === undefined) return "–";
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** A head for a screen reader. @param {HeadInfo} info */
export function spoken({ layer, head, kind, score, entropy }) {
  const how = score === null ? headKind(kind) : `${headKind(kind)} ${figure(score)}`;
  const spoken = word("model.spoken_head", { layer, head, how });
  return entropy === null ? spoken : word("model.spoken_entropy", { spoken, entropy: short(entropy) });
}

export class Card {
  picture = el("canvas", { "aria-hidden": "true" });
  #words = el("div", { class: "words" });
  #numbers = el("dl");
  element = el("div", { class: "card", role: "status", "aria-live": "polite" },
    this.#words, this.picture, this.#numbers);

  /** @param {HeadInfo} info */
  tell(info) {
    const { layer, head, kind, score } = info;
    this.element.style.setProperty("--kind", colourOf(kind));
    const measured = SHARES.some((name) => info[name] !== null);
    const means = measured ? (KINDS.find(([name]) => name === kind)?.[1] ?? "") : word("kind.unmeasured");
    const how = score === null || kind === "mixed" ? "" : ` ${figure(score)}`;
    this.#words.replaceChildren(
      el("p", {}, el("strong", {}, word("card.title", { layer, head, kind: headKind(kind) })), how),
      el("p", { class: "faint" }, word("card.means", { means: `${means.slice(0, 1).toUpperCase()}${means.slice(1)}` })),
    );
    this.#numbers.replaceChildren(...NUMBERS.flatMap((name) =>
      [el("dt", {}, el("abbr", { title: word(`card.${name}_tip`) }, word(`card.${name}`))), el("dd", {}, info[name] === null ? "–" : figure(Number(info[name])))]));
  }
}
