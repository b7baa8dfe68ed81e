// Below a flow: how the chosen number came about, and what can be done with it.

import { figure } from "./arithmetic.js";
import { el, visible } from "./dom.js";
import { onScreen } from "./flow_camera.js";
import { hasChange } from "./flow_changes.js";
import { symbolOf } from "./flow_controls.js";
import { changeOf } from "./flow_hit.js";
import { headNumber } from "./flow_place.js";
import { ofKeys } from "./flow_segments.js";
import { labelsOf } from "./flow_source.js";
import { wordAt } from "./flow_swap.js";
import { titleOf } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./flow_store.js").Store} Store
 * @typedef {import("./flow_changes.js").Change} Change
 * @typedef {import("./flow_draw.js").Cell} Cell
 * @typedef {import("./flow_draw.js").Scene} Scene
 */

/** How the colours of a stage are to be read, and its blocks. @param {import("./flow_passes.js").Passes} passes @param {string} stage @param {number} head
 * @returns {string} */
export function readingOf({ before, after, alike }, stage, head) {
  const count = (/** @type {Store} */ { outline }) => outline.sequences.input?.length ?? 0;
  const ghost = before === after ? "" : alike ? word("flow.ghost") : word("flow.unlike", { before: count(before), after: count(after) });
  const shades = stage === "" ? null : after.shades(stage, head);
  if (shades === null) return `${word("flow.colours.all")} ${ghost}`;
  const { symbol, part } = after.outline.stages[stage];
  const values = { symbol: symbol.replace("_", " "), least: figure(Number(shades.least.toPrecision(3))), most: figure(Number(shades.most.toPrecision(3))) };
  const colours = word(shades.log ? "flow.colours.log" : shades.kind === "both" ? "flow.colours.both" : "flow.colours", values);
  const [rows, columns] = after.picture(stage, head)?.block ?? [1, 1];
  const blocks = rows * columns === 1 ? "" : word(part === "weights" ? "flow.blocks.weights" : "flow.blocks", { rows, columns });
  const masked = shades.open ? word("flow.colours.masked") : "";
  return `${colours} ${masked} ${blocks} ${ghost}`;
}

export class FlowAnswer {
  #where = el("p", { class: "where" });
  #line = el("p", { class: "line" });
  #actions = el("div", { class: "bar" });
  element = el("div", { class: "answer" }, el("div", { role: "status" }, this.#where, this.#line), this.#actions);
  #asked = 0;

  /** @param {() => import("./flow_changer.js").Changer} changer */
  constructor(changer) {
    this.changer = changer;
  }

  /** @param {import("./flow_passes.js").Passes} passes @param {Cell | null} cell @param {number} head @param {Change[]} changes */
  async show({ before, after: now, alike }, cell, head, changes) {
    const asked = ++this.#asked;
    if (cell === null) {
      this.#where.replaceChildren();
      this.#line.replaceChildren();
      this.#actions.replaceChildren();
      return;
    }
    const { outline } = now;
    const stage = outline.stages[cell.stage];
    const own = now.headOf(cell.stage, head);
    const pieces = own === null ? null : await now.source.explain(cell.stage, own, cell.row, cell.column);
    const was = before === now || own === null || !alike ? null : await before.source.cells(cell.stage, own, [cell.row, cell.row + 1], [cell.column, cell.column + 1]);
    if (asked !== this.#asked) return;
    const row = visible(labelsOf(outline, stage.row_labels, stage.rows)[cell.row]);
    const column = visible(labelsOf(outline, stage.column_labels, stage.columns)[cell.column]);
    const named = titleOf(cell.stage, stage);
    const title = stage.heads > 1 ? word("flow.of.head", { stage: named, head: headNumber(outline, own ?? head) }) : named;
    this.#where.replaceChildren(el("b", {}, ...symbolOf(stage.symbol)), ` ${word(ofKeys(stage) ? "flow.link" : "flow.cell", { stage: title.replace("_", " "), row, column })}`,
      was === null ? "" : ` · ${word("flow.was", { value: figure(was[0]) })}`);
    this.#line.replaceChildren(...(pieces === null ? [word("flow.not.held")] : pieces.map(({ text, of }) =>
      of === "" ? visible(` ${text} `).slice(1, -1) : el("span", { class: of }, text))));
    this.#actions.replaceChildren(...this.#buttons(now, cell, head, changes));
  }

  /** @param {Store} store @param {Cell} cell @param {number} head @param {Change[]} changes @returns {Node[]} */
  #buttons({ outline }, cell, head, changes) {
    const stage = outline.stages[cell.stage];
    const buttons = [];
    if (changeOf(outline, cell.stage) !== null) buttons.push(el("button", { type: "button", name: "edit", onclick: () => this.changer().edit() }, word("flow.edit")));
    if (["weights", "scaled"].includes(stage.part) && outline.changes.includes("cut")) {
      /** @type {Change} */
      const change = { kind: "cut", attention: stage.attention, head, row: cell.row, column: cell.column };
      const cut = hasChange(changes, change);
      buttons.push(el("button", { type: "button", name: "cut", onclick: () => this.changer().cut(cell) }, word(cut ? "flow.mend" : "flow.cut")));
    }
    const own = wordAt(outline, cell.stage, cell.row, changes);
    if (own !== null) buttons.push(el("button", { type: "button", name: "swap-row", onclick: () => this.changer().swap(cell) }, word("flow.swap", { word: visible(own.text) })));
    return buttons;
  }

  /**
   * A field over a cell. Each number that is written is set at once, or, if not `each` is, at the end; Escape brings the one from
   * before back.
   * @param {{ figure: HTMLElement, canvas: HTMLCanvasElement }} pane @param {Scene} scene @param {Cell} cell @param {number} value
   * @param {{ set: (value: number) => void, restore: () => void, each: boolean }} how
   */
  edit({ figure: parent, canvas }, { plan, camera, store }, cell, value, { set, restore, each }) {
    const box = plan.boxes.find((each) => each.stage === cell.stage && each.kind === "matrix");
    if (box === undefined || parent.querySelector("input") !== null) return;
    const stage = store.outline.stages[cell.stage];
    const area = onScreen(camera, box);
    const [width, height] = [area.width / stage.columns, area.height / stage.rows];
    const [w, h] = [Math.max(width, 84), Math.max(height, 28)];
    const [x, y] = [area.x + (cell.column + 0.5) * width - w / 2, area.y + (cell.row + 0.5) * height - h / 2];
    const row = labelsOf(store.outline, stage.row_labels, stage.rows)[cell.row];
    const column = labelsOf(store.outline, stage.column_labels, stage.columns)[cell.column];
    const input = el("input", {
      type: "number", step: 0.1, name: "value", value: Number(value.toFixed(6)), "aria-label": word("flow.edit.label", { stage: titleOf(cell.stage, stage), row, column }),
      style: `left:${x}px;top:${y}px;width:${w}px;height:${h}px`,
    });
    let open = true;
    let put = input.value;
    const read = () => {
      if (input.value === put || input.value === "" || !Number.isFinite(Number(input.value))) return;
      put = input.value;
      set(Number(put));
    };
    const close = (/** @type {boolean} */ back, /** @type {boolean} */ kept) => {
      if (!open) return;
      open = false; // as to remove it is to blur it
      if (kept) read();
      input.remove();
      if (back) canvas.focus({ preventScroll: true });
    };
    if (each) input.addEventListener("input", read);
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Escape") restore();
      if (event.key === "Enter" || event.key === "Escape") close(true, event.key === "Enter");
    });
    input.addEventListener("blur", () => close(false, true));
    parent.append(input);
    input.focus({ preventScroll: true });
    input.select();
  }
}
