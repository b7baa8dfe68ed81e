// What a model predicts at the words of a text: the likeliest token under each, and a list of the likeliest.

import { el, figure } from "./dom.js";
import { guessIn, isBytes } from "./told.js";
import { word } from "./words.js";

/**
 * @import { RunInfo, RunSource } from "./source.js"
 * @import { State } from "./base.js"
 *
 * Of each position the likeliest tokens, likeliest first, and their probabilities.
 * @typedef {[string, number][][]} Predicted
 */

const PIECE = "◌"; // of a letter
const AT_ONCE = 200; // positions of a text that they stand under unless the reader says otherwise

/** How they look. */
export const NEXT = `
.text .over { display: inline-flex; flex-direction: column; align-items: center; vertical-align: top; line-height: 1.5;
  margin-bottom: 6px; }
.text .under { font: 12px/1.25 var(--sans); color: var(--faint); padding: 2px 4px 0; white-space: nowrap; text-align: center;
  unicode-bidi: isolate; }
.text .under b { display: block; font-weight: 600; color: var(--ink); }
@media (min-width: 1700px) { .text .under { font-size: 16px; } }
.next li { display: grid; grid-template-columns: minmax(60px, 150px) 1fr 5.5em; gap: 8px; align-items: center; padding: 1px 4px; }
`;

/** The predictions of a run: asked for once, and only where they are shown. */
export class Next {
  /** @type {RunSource | null} */
  #of = null;
  /** Undefined: not known yet. @type {Predicted | null | undefined} */
  #found;
  #asked = false;
  /** @type {Predicted | null} */
  #shown = null;
  #masked = false;
  #waiting = false;
  section = el("section", { class: "next", hidden: true });

  /** Is there anything to switch on? @param {RunSource} source @param {State} state */
  isPossible(source, { sequence, layer }) {
    if (source !== this.#of) [this.#of, this.#found, this.#asked] = [source, undefined, false];
    const { layers } = source.info;
    const { cross, causal, queries } = layers[layer];
    // What a model writes is predicted, not what it reads.
    const writes = layers.some((each) => each.cross);
    const own = !writes || cross || causal;
    return source.predictions !== undefined && this.#found !== null && sequence === 0 && own
      && queries === layers[layers.length - 1].queries;
  }

  /** Do they stand under the words? Unless the reader says so, of a text that is not long, and whose letters are not cut
   * into tokens: they could not be read any more. @param {RunInfo} info @param {string} said */
  isOn({ layers, sequences }, said) {
    const cut = (sequences[0]?.tokens ?? []).some(({ start, end }, n, all) => n > 0 && start < end && start < all[n - 1].end);
    return said === "on" || (said !== "off" && layers[layers.length - 1].queries <= AT_ONCE && !cut);
  }

  /** What stands under the words, or null: nothing, or nothing yet. @param {RunSource} source @param {State} state
   * @param {string} said @param {() => void} came when more is known
   * @returns {Predicted | null} */
  under(source, state, said, came) {
    const on = this.isPossible(source, state) && this.isOn(source.info, said);
    if (on && !this.#asked) {
      this.#asked = true;
      const answered = (/** @type {Predicted | null} */ found) => {
        if (source !== this.#of) return;
        this.#found = found;
        came();
      };
      // A model that is gone predicts nothing.
      source.predictions?.().then(answered, () => answered(null));
    }
    const { layers } = source.info;
    this.#masked = !layers.some((each) => each.causal);
    this.#shown = on ? (this.#found ?? null) : null;
    this.#waiting = on && this.#found === undefined;
    this.section.hidden = this.#shown === null;
    return this.#shown;
  }

  /** What is said of them. */
  get about() {
    if (this.#shown === null) return this.#waiting ? word("lens.waiting") : "";
    const tokens = this.#shown.flatMap((all) => all.map(([token]) => token));
    return [
      word(this.#masked ? "text.next_about_masked" : "text.next_about"),
      tokens.some((token) => shown(token).includes(PIECE)) ? word("text.next_pieces") : "",
      tokens.some(isBytes) ? word("lens.bytes") : "",
    ].filter(Boolean).join(" ");
  }

  /** What stands under a word, and how it is said. @param {number} place @param {(place: number) => string} name
   * @returns {{ element: HTMLElement, said: string } | null} */
  below(place, name) {
    const all = this.#shown ?? [];
    const [best] = all[place] ?? [];
    if (best === undefined) return null;
    const [token, probability] = best;
    const guess = shown(token);
    const meant = this.#masked ? place : place + 1;
    const right = meant < all.length && guess === name(meant);
    const number = probability.toFixed(2);
    return {
      element: el("span", { class: "under", "aria-hidden": "true" }, el("b", {}, guess),
        right ? word("text.next_right", { number }) : number),
      said: word(right ? "text.next_said_right" : "text.next_said", { token: guess, number }),
    };
  }

  /** List the likeliest at a place. @param {number | null} place @param {(place: number) => string} name */
  list(place, name) {
    if (this.#shown === null) return;
    const at = place !== null && this.#shown[place] !== undefined ? place : this.#shown.length - 1;
    this.section.replaceChildren(
      el("h2", {}, word(this.#masked ? "text.next_instead" : "text.next_after", { word: name(at) })),
      el("ol", { class: "list" }, ...this.#shown[at].map(([token, probability]) => el("li", {},
        el("span", { class: "name", dir: "auto" }, shown(token)),
        el("span", { class: "length", style: `width:${100 * probability}%` }),
        el("span", { class: "number" }, figure(probability))))),
    );
  }
}

/** A token as the text has it: without the space before it; a sign for what is a piece of a letter only. @param {string} token */
function shown(token) {
  return guessIn(token.trim() === "" ? token : token.trim()).replace(/\ufffd+/g, PIECE);
}
