// The head that is pointed at, large, with its numbers; and what the kinds of heads are.

import { el, figure } from "./dom.js";
import { headColour } from "./scale.js";

/** @import { HeadInfo } from "./source.js" */

/** What each kind means, in plain words, in the order of the legend; each with a colour of its own.
 * @type {[string, string, number | null][]} */
export const KINDS = [
  ["first token", "rests on the first token, a “sink” for spare weight", 0],
  ["previous token", "looks at the token just before", 1],
  ["itself", "looks at its own token: the diagonal", 2],
  ["induction", "looks at what followed this token earlier on", 3],
  ["broad", "spreads its weight nearly evenly", 5],
  ["mixed", "none of these stands out", null],
];

/** @type {[string, keyof HeadInfo][]} */
const NUMBERS = [
  ["entropy, nats", "entropy"], ["spread", "spread"], ["distance", "distance"], ["first token", "first"],
  ["previous", "previous"], ["itself", "self"], ["induction", "induction"],
];
/** @type {(keyof HeadInfo)[]} */
const SHARES = ["first", "previous", "self", "induction", "spread"];

/** The colour of a kind of heads. @param {string} kind */
export function colourOf(kind) {
  const place = KINDS.find(([name]) => name === kind)?.[2];
  return typeof place === "number" ? headColour(place) : "var(--edge)";
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
    const means = measured ? (KINDS.find(([name]) => name === kind)?.[1] ?? "") : "what it looks at was not measured";
    const how = score === null || kind === "mixed" ? "" : ` ${figure(score)}`;
    this.#words.replaceChildren(
      el("p", {}, el("strong", {}, `Layer ${layer}, head ${head}: ${kind}`), how),
      el("p", { class: "faint" }, `${means.slice(0, 1).toUpperCase()}${means.slice(1)}.`),
    );
    this.#numbers.replaceChildren(...NUMBERS.flatMap(([title, name]) =>
      [el("dt", {}, title), el("dd", {}, info[name] === null ? "–" : figure(Number(info[name])))]));
  }
}
