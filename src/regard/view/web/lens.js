// <regard-lens>: under each word what the model would expect next, layer by layer; and where a logit comes from.

import { RegardElement } from "./base.js";
import { el, figure, put } from "./dom.js";
import { css, heat, inkOn } from "./scale.js";
import { tokensOf } from "./source.js";
import { names } from "./text_pieces.js";
import { guessIn, isBytes } from "./told.js";
import { WHY_CSS, whyForm, whySection } from "./why.js";
import { word } from "./words.js";

/**
 * @import { Lens, RunSource } from "./source.js"
 * @typedef {{ layer: number, place: number }} Cell
 */

const CSS = `
[hidden] { display: none !important; }
h2 { font-size: 15px; margin: 14px 0 4px; }
p { margin: 0 0 8px; }
.box { overflow: auto; max-height: 70vh; width: fit-content; max-width: 100%; border: 1px solid var(--edge); border-radius: 6px; }
.grid { border-collapse: separate; border-spacing: 0; font-size: 12px; line-height: 1.3; }
.grid th { position: sticky; background: var(--raised); font-weight: 600; padding: 3px 6px; z-index: 1; white-space: nowrap; }
.grid thead th { top: 0; border-bottom: 1px solid var(--edge); max-width: 110px; overflow: hidden; text-overflow: ellipsis; }
.grid tbody th { left: 0; border-right: 1px solid var(--edge); color: var(--faint); text-align: right; font-weight: 400; }
.grid thead th:first-child { left: 0; z-index: 2; color: var(--faint); font-weight: 400; }
.grid td { min-width: 52px; max-width: 110px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; padding: 3px 6px;
  text-align: center; cursor: pointer; unicode-bidi: isolate; }
.grid td.end { font-weight: 700; }
.grid td:focus-visible { outline: 3px solid var(--accent); outline-offset: -3px; }
.grid td[aria-selected="true"] { outline: 2px solid var(--ink); outline-offset: -2px; }
.wide { display: grid; grid-template-columns: minmax(0, 1fr) minmax(220px, 320px); gap: 12px 20px; align-items: start; }
@media (max-width: 860px) { .wide { grid-template-columns: minmax(0, 1fr); } .box { max-height: 56vh; } }
@media (min-width: 1700px) { .grid { font-size: 15px; } }
.five li { display: grid; grid-template-columns: minmax(60px, 130px) 1fr 4.5em; gap: 8px; align-items: center; padding: 1px 4px; }
.length { display: block; height: 10px; background: var(--hot); border-radius: 2px; }
${WHY_CSS}`;

/** @extends {RegardElement<RunSource>} */
export class RegardLens extends RegardElement {
  static css = CSS;

  /** @type {RunSource | null} */
  #of = null;
  /** Undefined: not known yet. @type {Lens | null | undefined} */
  #found;
  /** What is drawn, so that another choice does not draw it anew. @type {{ dark: string, found: Lens } | null} */
  #drawn = null;
  /** @type {string[]} */
  #names = [];
  /** @type {HTMLTableCellElement[][]} by layer and place */
  #cells = [];
  #five = el("section", { class: "five", "aria-live": "polite" });
  #grid = el("div", { class: "wide" });
  #why = el("section", { class: "why" });
  /** @type {ReturnType<typeof whyForm> | null} */
  #form = null;
  /** @type {Cell} */
  #chosen = { layer: 0, place: 0 };

  /** @param {RunSource} source */
  async update(source) {
    if (source !== this.#of) {
      [this.#of, this.#found, this.#drawn] = [source, undefined, null];
      const last = source.info.layers.findLastIndex((each) => !each.cross);
      const { from } = tokensOf(source.info, 0, Math.max(0, last));
      this.#names = from === null ? Array.from({ length: source.info.layers[0].queries }, (_, n) => String(n + 1)) : names(from);
      this.root.replaceChildren(this.#grid, this.#why);
      this.#grid.replaceChildren(el("p", { class: "faint" }, word("lens.waiting")));
      const told = source.info.why ?? null;
      const section = told === null ? [] : [whySection(told, this.#names)];
      this.#why.replaceChildren(...section, ...(source.why === undefined ? [] : [this.#asking(source)]));
    }
    if (this.#found === undefined) {
      const found = source.lens === undefined ? null : await source.lens().catch(() => null);
      if (source !== this.#of) return;
      this.#found = found;
    }
    if (this.#found === null) {
      const alone = (source.info.why ?? null) !== null;
      this.#grid.replaceChildren(...(alone ? [] : [el("p", {}, word("lens.none"))]));
      return;
    }
    const dark = css(heat(0)); // another of the light and of the dark
    const anew = this.#drawn === null || this.#drawn.found !== this.#found || this.#drawn.dark !== dark;
    if (anew) this.#draw(this.#found);
    this.#drawn = { dark, found: this.#found };
    this.#choose(this.#found);
    if (anew) this.#reveal();
  }

  /** A form that asks for the share of each head. @param {RunSource} source */
  #asking(source) {
    this.#form = whyForm(async (token, against) => {
      if (source.why === undefined) return;
      const told = await source.why(this.#chosen.place, token, against);
      const old = this.#why.querySelector(".shares");
      const made = whySection(told, this.#names);
      if (old === null) this.#why.prepend(made);
      else old.replaceWith(made);
    });
    return this.#form.element;
  }

  /** @param {Lens} found */
  #draw(found) {
    const last = found[found.length - 1];
    this.#cells = found.map((of, layer) => of.map(([[token, probability]], place) => {
      const colour = heat(probability);
      return el("td", {
        class: token === last[place][0][0] ? "end" : "", tabindex: -1, "aria-selected": "false", dir: "auto",
        style: `background:${css(colour)};color:${inkOn(colour)}`, title: `${shown(token)} ${figure(probability)}`,
        onclick: () => this.say({ layer, token: place }),
        onmouseenter: () => this.#list(found, { layer, place }),
        onfocus: () => this.#list(found, { layer, place }),
      }, shown(token));
    }));
    const heading = el("tr", {}, el("th", { scope: "col" }, word("lens.layer")),
      ...this.#names.map((name) => el("th", { scope: "col", dir: "auto", title: name }, name)));
    const rows = this.#cells.map((cells, layer) => el("tr", {}, el("th", { scope: "row" }, layer), ...cells));
    const table = el("table", {
      class: "grid", role: "grid", "aria-label": word("lens.grid"),
      onkeydown: (event) => this.#key(/** @type {KeyboardEvent} */ (event), found),
      onmouseleave: () => this.#list(found, this.#chosen),
    }, el("thead", {}, heading), el("tbody", {}, ...rows));
    const cut = found.some((of) => of.some((all) => all.some(([token]) => isBytes(token))));
    const lead = [word("lens.lead"), ...(cut ? [word("lens.bytes")] : [])];
    this.#grid.replaceChildren(
      el("div", {}, el("p", { class: "faint" }, lead.join(" ")), el("div", { class: "box" }, table)), this.#five);
  }

  /** Mark the cell that the state says; unless it says one, that of the last word after the last layer. @param {Lens} found */
  #choose(found) {
    const before = this.#cells[this.#chosen.layer]?.[this.#chosen.place];
    before?.setAttribute("aria-selected", "false");
    before?.setAttribute("tabindex", "-1");
    const places = found[0].length;
    const said = this.state.token;
    const place = said === null || said >= places ? places - 1 : said;
    const layer = said === null ? found.length - 1 : Math.min(this.state.layer, found.length - 1);
    this.#chosen = { layer, place };
    const cell = this.#cells[layer][place];
    cell.setAttribute("aria-selected", "true");
    cell.setAttribute("tabindex", "0");
    this.#list(found, this.#chosen);
    const [likeliest] = found[found.length - 1][place][0];
    this.#form?.offer(isBytes(likeliest) ? " " : likeliest);
    if (this.root.activeElement?.closest("table") !== null && this.root.activeElement !== null) cell.focus();
  }

  /** Bring the chosen cell into the box, and leave the page where it is. */
  #reveal() {
    const cell = this.#cells[this.#chosen.layer][this.#chosen.place];
    const box = cell.closest(".box");
    if (box === null) return;
    box.scrollTop = cell.offsetTop + cell.offsetHeight - box.clientHeight;
    box.scrollLeft = cell.offsetLeft + cell.offsetWidth - box.clientWidth;
  }

  /** The likeliest of a cell, and from which layer on it is what the model expects in the end. @param {Lens} found
   * @param {Cell} cell */
  #list(found, { layer, place }) {
    const last = found[found.length - 1][place][0][0];
    const others = found.findLastIndex((of) => of[place][0][0] !== last);
    const heading = el("h2", {});
    put(heading, word("lens.after", { word: this.#names[place] ?? String(place + 1), layer }));
    this.#five.replaceChildren(heading,
      el("ol", { class: "list" }, ...found[layer][place].map(([token, probability]) => el("li", {},
        el("span", { class: "name", dir: "auto" }, shown(token)),
        el("span", { class: "length", style: `width:${100 * probability}%` }),
        el("span", { class: "number" }, figure(probability))))),
      el("p", { class: "faint" }, word("lens.decided", { token: shown(last), layer: others + 1 })));
  }

  /** @param {KeyboardEvent} event @param {Lens} found */
  #key(event, found) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { layer, place } = this.#chosen;
    const [layers, places] = [found.length - 1, found[0].length - 1];
    /** @type {Record<string, [number, number]>} */
    const steps = {
      ArrowUp: [layer - 1, place], ArrowDown: [layer + 1, place], ArrowLeft: [layer, place - 1], ArrowRight: [layer, place + 1],
      Home: [layer, 0], End: [layer, places], PageUp: [0, place], PageDown: [layers, place],
    };
    const to = steps[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.say({ layer: Math.min(layers, Math.max(0, to[0])), token: Math.min(places, Math.max(0, to[1])) });
  }
}

/** A token as the text has it, without the space before it. @param {string} token */
function shown(token) {
  return guessIn(token.trim() === "" ? token : token.trim());
}

customElements.define("regard-lens", RegardLens);
