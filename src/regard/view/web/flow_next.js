// The likeliest next tokens as text, so that what a change does to them is seen wherever the reader is.

import { el, figure, visible } from "./dom.js";
import { labelsOf } from "./flow_source.js";
import { guessIn } from "./told.js";
import { word } from "./words.js";

export class NextLine {
  element = el("p", { class: "next", role: "status" });
  #asked = 0;

  /** @param {import("./flow_passes.js").Passes} passes @param {number | null} token */
  async show({ before, after, alike }, token) {
    const asked = ++this.#asked;
    const { outline, source } = after;
    const last = outline.bands[outline.bands.length - 1].stages.at(-1);
    // What cannot be had, as the studio is gone, is not said.
    const found = !outline.predictions || last === undefined ? null : await predicted(source, outline, last, token).catch(() => null);
    const was = found === null || before === after || !alike ? null : await before.source.predictions(found.position).catch(() => null);
    if (asked !== this.#asked) return;
    this.element.replaceChildren(...(found === null ? [] : [
      word("flow.next.of", { token: visible(found.label) }), ": ",
      ...found.next.map(({ token: text, probability }) => {
        const old = was?.find((each) => each.token === text);
        return el("span", { class: "one" }, el("b", { dir: "auto" }, guessIn(text)), ` ${figure(probability)}`,
          was !== null && el("span", { class: "faint" }, ` ${old === undefined ? word("flow.next.new") : word("flow.next.was", { value: figure(old.probability) })}`));
      }),
    ]));
  }
}

/** @param {import("./flow_source.js").FlowSource} source @param {import("./flow_source.js").Outline} outline @param {string} stage
 * @param {number | null} token */
async function predicted(source, outline, stage, token) {
  const { rows, row_labels } = outline.stages[stage];
  const position = token ?? rows - 1;
  const next = await source.predictions(position);
  return next === null || next.length === 0 ? null : { position, next, label: labelsOf(outline, row_labels, rows)[position] ?? "" };
}
