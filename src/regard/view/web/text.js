// <regard-text>: the text itself; click a word, and the others are shaded by how much it attends to them.

import { RegardElement } from "./base.js";
import { el, figure, visible } from "./dom.js";
import { css, heat, inkOn, legend, share } from "./scale.js";
import { keyLabels } from "./source.js";

/** @typedef {import("./source.js").RunSource} RunSource */

/** @extends {RegardElement<RunSource>} */
export class RegardText extends RegardElement {
  static css = `.text { line-height: 1.9; } .token { cursor: pointer; border-radius: 3px; padding: 1px 2px; }`;

  /** @param {RunSource} source */
  async update(source) {
    const { sequence, layer, head, token } = this.state;
    const labels = keyLabels(source.info, sequence, layer);
    const row = token === null ? null : await source.row(sequence, layer, head, token);
    const most = row === null ? 1 : Math.max(...row.weights);
    const words = labels.map((label, n) => {
      const span = el("span", { class: "token", role: "button", tabindex: 0, onclick: () => this.say({ token: n }) }, visible(label));
      if (row !== null) {
        const colour = heat(share(row.weights[n], { log: false, least: 0, most }));
        span.style.background = css(colour);
        span.style.color = inkOn(colour);
        span.title = figure(row.weights[n]);
      }
      return span;
    });
    this.root.replaceChildren(
      el("p", { class: "text" }, ...words.flatMap((word) => [word, " "])),
      legend({ log: false, least: 0, most }, "weight"),
    );
  }
}
customElements.define("regard-text", RegardText);
