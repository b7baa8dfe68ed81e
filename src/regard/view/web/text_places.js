// The places of a text on the page: one element a token, which can be pointed at, gone to and shaded.

import { el } from "./dom.js";
import { inPieces } from "./pause.js";
import { word } from "./words.js";

/** @import { Block } from "./text_pieces.js" */

/** Worn by a place that cannot be seen; otherwise it is 0 to 255 of the scale. */
export const DIMMED = 256;

/** How they look. */
export const PLACES = `
.text { overflow: auto; max-height: max(220px, min(60vh, 100vh - 440px)); border: 1px solid var(--edge);
  border-radius: 8px; padding: 8px 10px; line-height: 1.9; font-size: 17px; }
.text.short { font-size: 20px; }
.text.long { font-size: 15px; }
@media (min-width: 1700px) { .text { font-size: 21px; } .text.short { font-size: 28px; } .text.long { font-size: 18px; } }
.text h2 { font: 13px/1.6 var(--sans); color: var(--faint); margin: 0; }
.block { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0 4px; }
.text.long .block { content-visibility: auto; }
.token { cursor: pointer; border-radius: 3px; padding-block: 2px; }
.token:hover { text-decoration: underline; text-underline-offset: 4px; }
.token:focus-visible { outline: 2px dashed var(--accent); outline-offset: 2px; }
.token.chosen { outline: 3px solid var(--accent); outline-offset: 1px; position: relative; z-index: 1; }
.token.blank { color: var(--faint); font-size: 0.8em; }
.token.unknown { text-decoration: underline dotted var(--hot) 2px; text-underline-offset: 4px; }
.token.special { display: inline-block; font: 0.72em/1.5 var(--mono); border: 1px solid var(--edge);
  border-radius: 8px; padding: 0 5px; margin: 0 3px; vertical-align: 0.1em; }
.token.part { display: inline-block; font: 0.62em/1.5 var(--sans); color: var(--faint); border: 1px dotted var(--faint);
  border-radius: 3px; padding: 0 3px; margin-left: 2px; vertical-align: 0.35em; }
.token.dimmed { opacity: 0.64; }
`;

/** A token that is no letter by itself: which piece of one it is, or its mark on a circle.
 * @param {string} name as `names` has it: “한 (2/3)” */
function partly(name) {
  return name.replace(/^(?=\p{M})/u, "◌").replace(/ \((\d+\/\d+)\)$/, " $1");
}

export class Places {
  /** The element of each place; none for padding. @type {(HTMLElement | undefined)[]} */
  #all = [];
  /** @type {string[]} */
  #names = [];
  /** @type {Int16Array} */
  #worn = new Int16Array();
  /** The one that Tab leads to. */
  #focus = 0;
  /** @type {number | null} */
  #chosen = null;

  constructor() {
    this.element = el("div", { class: "text", role: "listbox", "aria-label": word("text.text"), dir: "auto" });
  }

  get count() {
    return this.#all.length;
  }

  get focus() {
    return this.#focus;
  }

  get chosen() {
    return this.#chosen;
  }

  /** @param {number} place */
  has(place) {
    return this.#all[place] !== undefined;
  }

  /** @param {number} place */
  name(place) {
    return this.#names[place];
  }

  /** @param {number} place */
  isDimmed(place) {
    return this.#worn[place] === DIMMED;
  }

  /** The first of each kind of tokens that need a word of explanation. */
  odd() {
    return ["part", "unknown"].flatMap((kind) => {
      const text = this.element.querySelector(`.${kind}`)?.textContent;
      return text === undefined || text === null ? [] : [{ kind, text }];
    });
  }

  /**
   * Make them anew, in pieces. A strip is a text with its title, whose tokens are places from `first` on.
   * @param {{ title: string, blocks: Block[], first: number }[]} strips
   * @param {string[]} names
   * @param {() => boolean} wanted
   * @param {(place: number) => { element: HTMLElement, said: string } | null} below what stands under a place
   * @returns {Promise<boolean>} whether they were
   */
  async make(strips, names, wanted, below) {
    this.element.setAttribute("aria-busy", "true");
    /** @type {(HTMLElement | undefined)[]} */
    const all = [];
    /** @type {HTMLElement[]} */
    const drawn = [];
    for (const { title, blocks, first } of strips) {
      if (title !== "") drawn.push(el("h2", {}, title));
      const draw = (/** @type {number} */ n) => drawn.push(this.#block(blocks[n], first, names, all, below));
      if (!(await inPieces(blocks.length, draw, wanted))) return false;
    }
    const count = all.reduce((sum) => sum + 1, 0);
    this.element.className = `text ${count <= 40 ? "short" : count > 600 ? "long" : ""}`;
    this.element.replaceChildren(...drawn);
    this.element.removeAttribute("aria-busy");
    this.element.scrollTop = 0;
    this.#all = all;
    this.#names = names;
    this.#worn = new Int16Array(all.length);
    this.#chosen = null;
    this.#focus = Math.max(0, all.findIndex((each) => each !== undefined));
    all[this.#focus]?.setAttribute("tabindex", "0");
    return true;
  }

  /** @param {Block} block @param {number} first @param {string[]} names @param {(HTMLElement | undefined)[]} all
   * @param {(place: number) => { element: HTMLElement, said: string } | null} below */
  #block(block, first, names, all, below) {
    const made = el("div", { class: "block", role: "none" });
    let letters = 0;
    for (const piece of block) {
      letters += typeof piece === "string" ? piece.length : piece.text.length;
      if (typeof piece === "string") {
        made.append(piece);
        continue;
      }
      const place = first + piece.token;
      const span = document.createElement("span");
      span.className = piece.kind === "word" ? "token" : `token ${piece.kind}`;
      span.setAttribute("role", "option");
      span.dataset.place = String(place);
      if (piece.kind === "unknown") span.title = names[place];
      if (piece.kind === "part" || piece.kind === "blank") span.setAttribute("aria-label", names[place]);
      span.textContent = piece.kind === "part" ? partly(names[place]) : piece.text;
      all[place] = span;
      const under = below(place);
      if (under === null) made.append(span);
      else {
        span.setAttribute("aria-description", under.said);
        made.append(el("span", { class: "over", role: "none" }, span, under.element));
      }
    }
    // So that the scroll bar is about right before a block was laid out.
    made.style.containIntrinsicBlockSize = `auto ${Math.ceil(letters / 130) * 29}px`;
    return made;
  }

  /** Where an event is. @param {Event} event @returns {number | null} */
  of(event) {
    const place = /** @type {HTMLElement} */ (event.target).dataset?.place;
    return place === undefined ? null : Number(place);
  }

  /** Mark the chosen one. @param {number | null} place */
  choose(place) {
    const before = this.#chosen === null ? undefined : this.#all[this.#chosen];
    before?.classList.remove("chosen");
    before?.removeAttribute("aria-selected");
    const span = place === null ? undefined : this.#all[place];
    this.#chosen = span === undefined ? null : place;
    span?.classList.add("chosen");
    span?.setAttribute("aria-selected", "true");
    if (place !== null) this.#rove(place);
  }

  /**
   * Shade the place, if it does not look so already.
   * @param {number} place
   * @param {number} wears
   * @param {{ back: string, ink: string }[]} colours
   * @param {boolean} again whether the colours have changed
   */
  wear(place, wears, colours, again) {
    const span = this.#all[place];
    const wore = this.#worn[place];
    if (span === undefined || (wears === wore && !(again && wears > 0))) return;
    this.#worn[place] = wears;
    if ((wears === DIMMED) !== (wore === DIMMED)) span.classList.toggle("dimmed", wears === DIMMED);
    const isPlain = wears === 0 || wears === DIMMED;
    span.style.backgroundColor = isPlain ? "" : colours[wears].back;
    span.style.color = isPlain ? "" : colours[wears].ink;
  }

  // ── going there ───────────────────────────────────────────────────────────────────────────

  /** Let Tab lead to this place, and the focus, if it is in the text. @param {number} place */
  #rove(place) {
    const [before, span] = [this.#all[this.#focus], this.#all[place]];
    if (span === undefined || place === this.#focus) return;
    span.setAttribute("tabindex", "0");
    if (before?.matches(":focus")) span.focus({ preventScroll: true });
    before?.removeAttribute("tabindex");
    this.#focus = place;
  }

  /** Scroll the text, not the page, until this place can be seen. @param {number} place */
  reveal(place) {
    const span = this.#all[place];
    if (span === undefined) return;
    const [inner, outer] = [span.getBoundingClientRect(), this.element.getBoundingClientRect()];
    if (inner.top >= outer.top && inner.bottom <= outer.bottom) return;
    this.element.scrollTop += inner.top - outer.top - outer.height / 2;
  }

  /** Go to a place. @param {number} place */
  show(place) {
    this.#rove(place);
    this.reveal(place);
    this.#all[place]?.focus({ preventScroll: true });
    // What is between has its height only when it was seen.
    requestAnimationFrame(() => this.reveal(place));
  }

  /** The place that a key leads to, from the one with the focus. @param {string} key @returns {number | null} */
  to(key) {
    if (key === "ArrowRight") return this.#next(1);
    if (key === "ArrowLeft") return this.#next(-1);
    if (key === "ArrowDown") return this.#line(1);
    if (key === "ArrowUp") return this.#line(-1);
    if (key === "Home") return this.#all.findIndex((each) => each !== undefined);
    if (key === "End") return this.#all.length - 1;
    return null;
  }

  /** @param {1 | -1} step */
  #next(step) {
    let place = this.#focus + step;
    while (place >= 0 && place < this.#all.length && this.#all[place] === undefined) place += step;
    return this.#all[place] === undefined ? this.#focus : place;
  }

  /** What is nearest in the next line. @param {1 | -1} step */
  #line(step) {
    const start = this.#all[this.#focus]?.getBoundingClientRect();
    let [best, distance, line] = [this.#focus, Infinity, NaN];
    for (let n = 1; n < 400 && start !== undefined; n++) {
      const place = this.#focus + n * step;
      if (place < 0 || place >= this.#all.length) break;
      const rect = this.#all[place]?.getBoundingClientRect();
      if (rect === undefined || (rect.top < start.bottom && rect.bottom > start.top)) continue;
      if (Number.isNaN(line)) line = (rect.top + rect.bottom) / 2;
      if (rect.bottom < line || rect.top > line) break;
      const away = Math.abs(rect.left - start.left);
      if (away < distance) [best, distance] = [place, away];
    }
    return best;
  }
}
