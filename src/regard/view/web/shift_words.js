// Choosing words of a text: a chip for each word of a short text, a search for those of a long one.

import { el, many } from "./dom.js";
import { word } from "./words.js";

/** More words than this are searched rather than shown. */
export const CHIPS = 300;
const SHOWN = 8;
let made = 0;

export const WORDS_CSS = `
.words { margin: 0 0 10px; }
.chips { display: flex; flex-wrap: wrap; gap: 4px; max-height: 168px; overflow-y: auto; padding: 3px; margin: 0 -3px; }
.chip { padding: 1px 8px; border-radius: 6px; max-width: 100%; overflow-wrap: anywhere; white-space: pre-wrap; }
.chip[aria-pressed="true"] {
  background: var(--raised); color: var(--ink); border-color: var(--own); font-weight: 600;
  box-shadow: inset 0 -3px 0 var(--own);
}
.chip[aria-disabled="true"] { color: var(--faint); cursor: default; }
.search { position: relative; display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; margin-bottom: 6px; }
.search label { display: inline-flex; flex-wrap: wrap; gap: 2px 8px; align-items: center; max-width: 100%; }
.search input { width: 300px; max-width: 100%; }
.found {
  position: absolute; z-index: 5; top: 100%; left: 0; width: min(460px, 100%); margin: 2px 0 0; padding: 4px;
  list-style: none;
  background: var(--page); border: 1px solid var(--edge); border-radius: 6px; box-shadow: 0 6px 18px rgb(0 0 0 / 0.25);
}
.found li { padding: 3px 8px; border-radius: 4px; cursor: pointer; display: flex; gap: 10px; }
.found li[aria-selected="true"] { background: var(--accent); color: var(--on-accent); }
.found li span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; flex: 1; }
.found .rest { cursor: default; color: var(--faint); }
`;

/**
 * @typedef {object} Choice what is chosen from
 * @property {string[]} labels of all tokens, as they are shown
 * @property {(n: number) => boolean} real whether a token is no padding
 * @property {number[]} chosen
 * @property {(token: number) => string} colour of one that is chosen
 * @property {number} most how many may be chosen
 */

/** The tokens that a search finds: the one at that position, then those that contain it.
 * @param {Choice} choice @param {string} asked @returns {number[]} */
export function search({ labels, real }, asked) {
  const wanted = asked.trim().toLowerCase();
  if (wanted === "") return [];
  const position = /^#?(\d{1,9})$/.exec(wanted);
  const at = position === null ? -1 : Number(position[1]);
  const found = at >= 0 && at < labels.length && real(at) ? [at] : [];
  // Whole words come before parts of words.
  const [whole, part] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  for (let n = 0; n < labels.length; n++) {
    const label = labels[n].toLowerCase();
    if (n !== at && label.includes(wanted) && real(n)) (label === wanted ? whole : part).push(n);
  }
  return found.concat(whole, part);
}

/** The part of the page where words are chosen. */
export class WordChoice {
  /** @type {Choice} */
  #choice = { labels: [], real: () => true, chosen: [], colour: () => "", most: 0 };
  /** @type {Map<number, HTMLButtonElement>} */
  #chips = new Map();
  /** @type {string[] | null} */
  #shown = null;
  /** @type {number[]} */
  #found = [];
  #active = 0;
  #change;

  /** @param {(chosen: number[], added: number | null) => void} change */
  constructor(change) {
    this.#change = change;
    const id = `found-${made++}`;
    this.note = el("p", { class: "faint", style: "margin:0 0 4px" });
    this.list = el("ul", { class: "found", role: "listbox", id, "aria-label": word("shift.found"), hidden: true });
    this.input = el("input", {
      type: "text", role: "combobox", "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list",
      autocomplete: "off", spellcheck: "false", placeholder: word("shift.search"),
      oninput: () => this.#look(), onkeydown: (event) => this.#type(/** @type {KeyboardEvent} */ (event)),
      onblur: () => this.#close(), onfocus: () => this.#look(),
    });
    this.search = el("div", { class: "search" }, el("label", {}, word("shift.find"), this.input), this.list);
    this.chips = el("div", { class: "chips", role: "group" });
    this.chips.addEventListener("keydown", (event) => this.#walk(event));
    this.node = el("div", { class: "words" }, this.note, this.search, this.chips);
  }

  /** @param {Choice} choice */
  draw(choice) {
    this.#choice = choice;
    const { labels, chosen, most, real } = choice;
    const long = labels.length > CHIPS;
    const full = chosen.length >= most;
    this.search.hidden = !long;
    this.note.textContent = full ? word("shift.most", { most })
      : word(long ? "shift.follow_long" : "shift.follow", { count: chosen.length, most });
    this.chips.setAttribute("aria-label", word(long ? "shift.followed" : "shift.of_text"));
    if (long || this.#shown !== labels) this.#fill(long ? chosen : labels.map((_, n) => n).filter(real), long);
    this.#shown = labels;
    const set = new Set(chosen);
    for (const [n, chip] of this.#chips) {
      const on = set.has(n);
      chip.setAttribute("aria-pressed", String(on));
      if (on) chip.style.setProperty("--own", choice.colour(n));
      if (!on && full) chip.setAttribute("aria-disabled", "true");
      else chip.removeAttribute("aria-disabled");
    }
    if (!this.chips.querySelector('[tabindex="0"]')) this.chips.querySelector(".chip")?.setAttribute("tabindex", "0");
  }

  /** Make chips for these, keeping those that are there. @param {number[]} wanted @param {boolean} long */
  #fill(wanted, long) {
    const focused = /** @type {ShadowRoot} */ (this.chips.getRootNode()).activeElement;
    const before = this.#shown === this.#choice.labels ? this.#chips : new Map();
    this.#chips = new Map(wanted.map((n) => {
      const label = this.#choice.labels[n];
      const name = long ? word("shift.take_away", { word: label, place: n }) : null;
      return [n, before.get(n) ?? el("button", {
        class: "chip", type: "button", "data-token": n, tabindex: -1, "aria-label": name, onclick: () => this.toggle(n),
      }, label, long && el("span", { class: "faint" }, ` #${n} ×`))];
    }));
    const inside = focused instanceof HTMLElement && this.chips.contains(focused);
    this.chips.replaceChildren(...this.#chips.values());
    if (!inside) return;
    if (this.chips.contains(focused)) focused.focus();
    else /** @type {HTMLElement} */ (this.chips.querySelector(".chip") ?? this.input).focus();
  }

  /** @param {number} token */
  toggle(token) {
    const { chosen, most } = this.#choice;
    if (chosen.includes(token)) this.#change(chosen.filter((n) => n !== token), null);
    else if (chosen.length < most) this.#change([...chosen, token], token);
  }

  /** Arrow keys among the chips. @param {KeyboardEvent} event */
  #walk(event) {
    const all = [...this.#chips.values()];
    const now = all.indexOf(/** @type {HTMLButtonElement} */ (event.target));
    const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined || now < 0) return;
    event.preventDefault();
    const next = all[(to + all.length) % all.length];
    for (const chip of this.chips.querySelectorAll('[tabindex="0"]')) chip.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  #close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  #look() {
    this.#found = search(this.#choice, this.input.value);
    this.#active = 0;
    if (this.input.value.trim() === "") this.#close();
    else this.#list();
  }

  #list() {
    const { labels, chosen } = this.#choice;
    const shown = this.#found.slice(0, SHOWN);
    this.list.replaceChildren(...shown.map((n, at) => {
      const before = labels.slice(Math.max(0, n - 3), n).join(" ");
      const after = labels.slice(n + 1, n + 4).join(" ");
      return el("li", {
        role: "option", id: `${this.list.id}-${at}`, "aria-selected": String(at === this.#active), "data-token": n,
        // The input keeps the focus.
        onpointerdown: (event) => event.preventDefault(), onclick: () => this.#take(n),
      }, el("span", {}, before, " ", el("b", {}, labels[n]), " ", after), `#${n}${chosen.includes(n) ? " ✓" : ""}`);
    }));
    const more = this.#found.length - shown.length;
    const said = this.#found.length === 0 ? word("shift.no_word") : more > 0 ? word("shift.more", { count: many(more) }) : null;
    const rest = { class: "rest", role: "option", "aria-disabled": "true", "aria-selected": "false" };
    if (said !== null) this.list.append(el("li", rest, said));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    if (shown.length > 0) this.input.setAttribute("aria-activedescendant", `${this.list.id}-${this.#active}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {number} token */
  #take(token) {
    this.input.value = "";
    this.#close();
    if (!this.#choice.chosen.includes(token)) this.toggle(token);
  }

  /** @param {KeyboardEvent} event */
  #type(event) {
    const count = Math.min(SHOWN, this.#found.length);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      this.input.value = "";
      this.#close();
    } else if (event.key === "Enter" && !this.list.hidden && count > 0) {
      this.#take(this.#found[this.#active]);
    } else if (step !== undefined && count > 0) {
      event.preventDefault();
      this.#active = (this.#active + step + count) % count;
      this.#list();
    }
  }
}
