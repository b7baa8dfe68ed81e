// Another word in the place of one: which word a row stands for, and the field in which it is written.

import { el } from "./dom.js";
import { onScreen } from "./flow_camera.js";
import { word } from "./words.js";

/**
 * @typedef {import("./flow_source.js").Outline} Outline
 * @typedef {import("./flow_changes.js").Change} Change
 * @typedef {import("./flow_draw.js").Scene} Scene
 * A word, by the place that it has in the first text. @typedef {{ position: number, text: string }} Word
 */

const [WIDE, TALL] = [190, 30]; // pixels of the field, about

/** The word that a row of a stage stands for; null: it stands for none that can be another. @param {Outline} outline
 * @param {string} stage @param {number} row @param {Change[]} changes @returns {Word | null} */
export function wordAt(outline, stage, row, changes) {
  const { row_labels } = outline.stages[stage];
  const words = typeof row_labels !== "string" || !outline.changes.includes("word") ? undefined : outline.words?.[row_labels];
  const position = words?.[row] ?? null;
  if (words === undefined || position === null) return null;
  const written = changes.findLast((each) => each.kind === "word" && each.position === position);
  if (written !== undefined && written.kind === "word") return { position, text: written.text };
  const labels = outline.sequences[/** @type {string} */ (row_labels)];
  // Of tokens that share a letter, only the first is written: “동 (1/3)”, not “동 (2/3)”.
  const pieces = labels.filter((label, n) => words[n] === position && !/ \((?!1\/)\d+\/\d+\)$/.test(label));
  return { position, text: pieces.map((label) => label.replace(/ \(1\/\d+\)$/, "")).join("") };
}

/** Why no other word can be there. @param {Outline} outline @param {string} stage @param {number} row @returns {string} */
export function whyNot(outline, stage, row) {
  const { row_labels } = outline.stages[stage];
  if (!outline.changes.includes("word")) return `${word("flow.swap.none")} ${outline.lacks || word("flow.no.changes")}`;
  const name = typeof row_labels === "string" ? outline.sequences[row_labels][row] : "";
  return word(typeof row_labels === "string" && outline.words?.[row_labels] !== undefined ? "flow.swap.added" : "flow.swap.written", { word: name });
}

/**
 * A field over the name of a row, in which Enter puts another word there; or buttons, where only some words have numbers. Escape leaves
 * all as it is.
 * @param {{ figure: HTMLElement, canvas: HTMLCanvasElement }} pane @param {Scene} scene @param {{ stage: string, row: number }} place
 * @param {Word} now @param {(text: string) => void} set
 */
export function swapField({ figure, canvas }, { plan, camera, store, width, height }, { stage, row }, { position, text }, set) {
  const { outline } = store;
  const { row_labels } = outline.stages[stage];
  const places = plan.boxes.filter((box) => box.names > 0 && outline.stages[box.stage].row_labels === row_labels).map((box) => {
    const area = onScreen(camera, box);
    const line = area.height / outline.stages[box.stage].rows;
    return { x: area.x - box.names * camera.scale, y: area.y + (row + 0.5) * line };
  });
  const seen = places.find(({ x, y }) => x > -WIDE / 2 && x < width && y > 0 && y < height) ?? places[0] ?? { x: 0, y: 0 };
  const label = word("flow.swap.label", { word: text, number: position + 1 });
  let open = true;
  const close = (/** @type {boolean} */ back) => {
    if (!open) return;
    open = false; // as to remove it is to blur it
    field.remove();
    if (back) canvas.focus({ preventScroll: true });
  };
  const put = (/** @type {string} */ next) => {
    close(true);
    if (next !== "" && next !== text) set(next);
  };
  const input = el("input", {
    type: "text", name: "word", value: text, maxlength: 200, "aria-label": label, autocomplete: "off", dir: "auto",
    onkeydown: (event) => {
      if (/** @type {KeyboardEvent} */ (event).key === "Enter") put(input.value.trim());
    },
  });
  const choices = outline.vocabulary?.map((each) => el("button", {
    type: "button", name: `word-${each}`, "aria-pressed": String(each === text), dir: "auto", onclick: () => put(each),
  }, each)) ?? [input];
  const field = el("div", {
    class: "swap", role: "group", "aria-label": label,
    style: `left:${Math.max(2, Math.min(seen.x, width - WIDE - 4))}px;top:${Math.max(2, Math.min(seen.y - TALL / 2, height - 3 * TALL))}px`,
    onkeydown: (event) => {
      event.stopPropagation();
      if (/** @type {KeyboardEvent} */ (event).key === "Escape") close(true);
    },
    onfocusout: (event) => {
      if (!field.contains(/** @type {Node | null} */ (/** @type {FocusEvent} */ (event).relatedTarget))) close(false);
    },
  }, el("span", { class: "faint" }, word(outline.vocabulary === undefined ? "flow.swap.enter" : "flow.swap.choose", { word: text })), ...choices);
  figure.append(field);
  choices[0].focus({ preventScroll: true });
  input.select();
}
