// The field in which a reader writes another number, over the cell that it is for.

import { el } from "./dom.js";

/**
 * A field that asks for a number. `done` hears once: the number, or null if the old one stays; and
 * whether the field had the focus.
 * @param {string} label for a screen reader @param {string} text that stands in it
 * @param {{ left: number, top: number, width: number }} place in pixels
 * @param {(value: number | null, focused: boolean) => void} done
 */
export function numberField(label, text, { left, top, width }, done) {
  const input = el("input", {
    type: "text", inputmode: "decimal", "aria-label": label, style: `left:${left}px;top:${top}px;width:${width}px`,
  });
  input.value = text;
  let open = true;
  const close = (/** @type {boolean} */ keep) => {
    if (!open) return;
    const written = input.value.trim().replace("−", "-").replace(",", ".");
    const value = written === "" ? NaN : Number(written);
    if (keep && !Number.isFinite(value)) {
      input.setAttribute("aria-invalid", "true");
      return;
    }
    open = false;
    const focused = input.matches(":focus");
    input.remove();
    done(keep ? value : null, focused);
  };
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") close(true);
    else if (event.key === "Escape") close(false);
  });
  input.addEventListener("blur", () => {
    close(true);
    close(false);
  });
  return input;
}
