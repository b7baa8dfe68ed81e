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
import { word } from "./words.js";

/**
 * @typedef {import("./flow_store.js").Store} Store
 * @typedef {import("./flow_changes.js").Change} Change
 * @typedef {import("./flow_draw.js").Cell} Cell
 * @typedef {import("./flow_draw.js").Scene} Scene
 */

/** How the colours of a stage are to be read, and its blocks. @param {import("./flow_passes.js").Passes} passes @param {string} stage @param {number} head
 * @returns {string} */
export function readingOf({ before, after }, stage, head) {
  const ghost = before === after ? "" : word("flow.ghost");
  const shades = stage === "" ? null : after.shades(stage, head);
  if (shades === null) return `${word("flow.colours.all")} ${ghost}`;
  const { symbol, part } = after.outline.stages[stage];
  const values = { symbol: symbol.replace("_", " "), least: figure(Number(shades.least.toPrecision(3))), most: figure(Number(shades.most.toPrecision(3))) };
  const colours = word(shades.log ? "flow.colours.log" : shades.kind === "both" ? "flow.colours.both" : "flow.colours", values);
  const [rows, columns] = after.picture(stage, head)?.block ?? [1, 1];
  const blocks = rows * columns === 1 ? "" : word(part === "weights" ? "flow.blocks.weights" : "flow.blocks", { rows, columns });
  return `${colours} ${blocks} ${ghost}`;
}

export class FlowAnswer {
  #where = el("p", { class: "where" });
  #line = el("p", { class: "line" });
  #actions = el("div", { class: "bar" });
  element = el("div", { class: "answer" }, el("div", { role: "status" }, this.#where, this.#line), this.#actions);
  #asked = 0;

  /** @param {(change: Change) => void} make @param {(change: Change) => void} unmake @param {() => void} edit */
  constructor(make, unmake, edit) {
    this.make = make;
    this.unmake = unmake;
    this.edits = edit;
  }

  /** @param {import("./flow_passes.js").Passes} passes @param {Cell | null} cell @param {number} head @param {Change[]} changes */
  async show({ before, after: now }, cell, head, changes) {
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
    const was = before === now || own === null ? null : await before.source.cells(cell.stage, own, [cell.row, cell.row + 1], [cell.column, cell.column + 1]);
    if (asked !== this.#asked) return;
    const row = visible(labelsOf(outline, stage.row_labels, stage.rows)[cell.row]);
    const column = visible(labelsOf(outline, stage.column_labels, stage.columns)[cell.column]);
    const title = stage.heads > 1 ? word("flow.of.head", { stage: stage.title, head: headNumber(outline, own ?? head) }) : stage.title;
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
    if (changeOf(outline, cell.stage) !== null) buttons.push(el("button", { type: "button", name: "edit", onclick: this.edits }, word("flow.edit")));
    if (["weights", "scaled"].includes(stage.part) && outline.changes.includes("cut")) {
      /** @type {Change} */
      const change = { kind: "cut", attention: stage.attention, head, row: cell.row, column: cell.column };
      const cut = hasChange(changes, change);
      buttons.push(el("button", { type: "button", name: "cut", onclick: () => (cut ? this.unmake(change) : this.make(change)) }, word(cut ? "flow.mend" : "flow.cut")));
    }
    return buttons;
  }

  /**
   * A field over a cell: each number that is written is set at once, Escape brings the one from before back.
   * @param {{ figure: HTMLElement, canvas: HTMLCanvasElement }} pane @param {Scene} scene @param {Cell} cell @param {number} value
   * @param {(value: number) => void} set @param {() => void} restore
   */
  edit({ figure: parent, canvas }, { plan, camera, store }, cell, value, set, restore) {
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
      type: "number", step: 0.1, name: "value", value: Number(value.toFixed(6)), "aria-label": word("flow.edit.label", { stage: stage.title, row, column }),
      style: `left:${x}px;top:${y}px;width:${w}px;height:${h}px`,
    });
    let open = true;
    const close = (/** @type {boolean} */ back) => {
      if (!open) return;
      open = false; // as to remove it is to blur it
      input.remove();
      if (back) canvas.focus({ preventScroll: true });
    };
    input.addEventListener("input", () => {
      if (input.value !== "" && Number.isFinite(Number(input.value))) set(Number(input.value));
    });
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Escape") restore();
      if (event.key === "Enter" || event.key === "Escape") close(true);
    });
    input.addEventListener("blur", () => close(false));
    parent.append(input);
    input.focus({ preventScroll: true });
    input.select();
  }
}
