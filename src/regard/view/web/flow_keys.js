// What keys do in a flow: on the way through the stages, and among the cells of one.

/**
 * @typedef {import("./flow_draw.js").Cell} Cell
 *
 * @typedef {object} Place
 * @property {() => Cell | null} cell
 * @property {() => { rows: number, columns: number }} size of the stage of the cell
 * @property {(by: number) => void} walk to another stage
 * @property {(by: number) => void} follow another token
 * @property {(row: number, column: number) => void} go to another cell
 * @property {() => void} enter the cells of the stage
 * @property {() => boolean} edit the cell; false: it cannot be
 * @property {(by: number) => boolean} step its number up or down; false: it cannot be
 * @property {() => void} swap the word of the row, or the one that is followed
 * @property {(back: boolean) => void} undo what was changed last, or do it again
 * @property {() => void} cut its link, or join it again
 * @property {() => void} leave the cell, the stage, the presentation: whichever is first
 * @property {() => void} play
 * @property {(factor: number) => void} zoom 0: show all
 * @property {(right: number, down: number) => void} pan
 */

/** @type {Record<string, [number, number]>} right, down */
const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** What a key does; false: nothing. @param {KeyboardEvent} event @param {Place} place */
export function press({ key, shiftKey, ctrlKey, metaKey, altKey }, place) {
  const cell = place.cell();
  if ((ctrlKey || metaKey) && !altKey && ["z", "y"].includes(key.toLowerCase())) {
    place.undo(key.toLowerCase() === "z" && !shiftKey);
    return true;
  }
  if (altKey && (key === "ArrowUp" || key === "ArrowDown")) return cell !== null && place.step(key === "ArrowUp" ? 1 : -1);
  if (ctrlKey || metaKey || altKey) return false;
  if (key in WAYS) {
    const [right, down] = WAYS[key];
    if (shiftKey) place.pan(right, down);
    else if (cell !== null) {
      const { rows, columns } = place.size();
      place.go(Math.min(rows - 1, Math.max(0, cell.row + down)), Math.min(columns - 1, Math.max(0, cell.column + right)));
    } else if (right !== 0) place.walk(right);
    else place.follow(down);
  } else if (key === "PageUp" || key === "PageDown") place.walk(key === "PageUp" ? -1 : 1);
  else if (key === "Enter") cell === null ? place.enter() : place.edit();
  else if (key === "F2") cell !== null && place.edit() || place.swap();
  else if (cell !== null && /^[\d.]$/.test(key) && place.edit()) return false; // it is written into the field
  else if (cell !== null && /^[-+=_−]$/.test(key) && place.step(key === "+" || key === "=" ? 1 : -1)) return true;
  else if (cell !== null && ["Delete", "Backspace", "x"].includes(key)) place.cut();
  else if (key === "Escape") place.leave();
  else if (key === " ") place.play();
  else if (key === "+" || key === "=") place.zoom(1.5);
  else if (key === "-" || key === "_") place.zoom(1 / 1.5);
  else if (key === "0") place.zoom(0);
  else return false;
  return true;
}
