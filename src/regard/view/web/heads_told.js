// What stands beside the links: those of one word with their weights, or what all this is.

import { el, figure, many } from "./dom.js";
import { sample } from "./heads_lines.js";
import { headColour } from "./scale.js";
import { whyNumbers } from "./source.js";
import { word } from "./words.js";

/**
 * @import { Line } from "./heads_lines.js"
 * @import { Rows } from "./heads_rows.js"
 * @import { Spot } from "./heads_words.js"
 */

const LISTED = 8;

export const TOLD = `
.beside { flex: 1 1 260px; max-width: 420px; }
.beside p { margin: 0 0 8px; }
.beside h2 { font-size: 15px; margin: 0 0 4px; overflow-wrap: anywhere; }
.list { margin: 0 0 8px; }
.list button { grid-template-columns: 10px 4em 1fr 4.5em; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 13px; align-items: center; }
.legend svg { vertical-align: middle; margin-right: 4px; }
`;

export class Told {
  #told = el("div", { class: "told" });
  element = el("div", { class: "beside" }, this.#told,
    el("p", { class: "legend faint" }, word("heads.weight"), ...[0.05, 0.25, 0.5, 1].map(sample)));
  spoken = el("p", { class: "unseen", role: "status" });

  /** No word is looked at: say what this is. @param {Rows} rows */
  help({ cross, named }) {
    const said = [
      word("heads.help"), word("heads.help_more"), ...whyNumbers(cross, named),
    ];
    this.spoken.textContent = "";
    this.#told.replaceChildren(...said.map((each) => el("p", {}, each)));
  }

  /**
   * The links of one word.
   * @param {Rows} rows @param {Spot} focus @param {Line[]} lines strongest first
   * @param {number} least weight of those that are shown @param {(row: number) => void} reveal
   */
  tell(rows, focus, lines, least, reveal) {
    const way = focus.way === "from" ? "to" : "from";
    const shown = lines.slice(0, LISTED);
    const title = word(way === "to" ? "heads.looks_at" : "heads.looked_at", { word: rows.name(focus.row, focus.way) });
    const items = shown.map(({ head, weight, [way]: row }) => el("li", {},
      el("button", { title: word("heads.go"), "data-row": row, onclick: () => reveal(row) },
        el("span", { class: "dot", style: `background:${headColour(head)}` }),
        el("span", { class: "faint" }, word("heads.head", { head })),
        el("span", { class: "name", dir: "auto" }, rows.name(row, way),
          el("span", { class: "faint" }, rows.isLong ? ` #${rows.place(row, way)}` : "")),
        el("span", { class: "number" }, figure(weight)))));
    const more = lines.length - shown.length;
    this.#told.replaceChildren(
      el("h2", {}, title),
      items.length > 0 ? el("ol", { class: "list" }, ...items)
        : el("p", { class: "faint" }, word("heads.nothing", { least })),
      ...(more > 0 ? [el("p", { class: "faint" }, word("heads.more", { count: many(more) }))] : []),
    );
    const spoken = shown.map((line) => 
      word("heads.spoken", { word: rows.name(line[way], way), weight: figure(line.weight), head: line.head }));
    this.spoken.textContent = `${title} ${spoken.slice(0, 5).join("; ") || word("heads.spoken_none")}.`;
  }
}
