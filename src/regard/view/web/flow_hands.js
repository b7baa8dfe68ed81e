// How a flow is moved and touched: by mouse, by fingers, by keys; what each means is the element's affair.

/**
 * @typedef {{ x: number, y: number }} Pixel of a canvas
 *
 * @typedef {object} Ears
 * @property {(pixel: Pixel) => "score" | "cell" | ""} over what is under a pixel
 * @property {(pixel: Pixel) => void} pick
 * @property {(dx: number, dy: number) => void} pan by pixels
 * @property {(factor: number, pixel: Pixel) => boolean} zoom false: it is at its end
 * @property {(pixel: Pixel) => boolean} grab a score, to be dragged; false: there is none
 * @property {(up: number) => void} drag it, by so many pixels in all
 * @property {(kept: boolean) => void} drop it
 */

const STILL = 4; // pixels that a finger may move in a click

/** @param {HTMLCanvasElement} canvas @param {Ears} ears */
export function listen(canvas, ears) {
  /** @type {Map<number, Pixel>} */
  const fingers = new Map();
  let moved = 0;
  /** @type {{ y: number } | null} */
  let held = null;
  let apart = 0;
  const pixel = (/** @type {MouseEvent} */ { clientX, clientY }) => {
    const box = canvas.getBoundingClientRect();
    return { x: clientX - box.left, y: clientY - box.top };
  };
  const between = () => {
    const [a, b] = [...fingers.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, apart: Math.max(10, Math.hypot(a.x - b.x, a.y - b.y)) };
  };
  canvas.addEventListener("wheel", (event) => {
    const far = event.deltaY * (event.deltaMode === 1 ? 20 : 1);
    if (ears.zoom(Math.exp(-Math.max(-200, Math.min(200, far)) * 0.0025), pixel(event))) event.preventDefault();
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (fingers.size === 0) moved = 0;
    fingers.set(event.pointerId, pixel(event));
    if (fingers.size === 2) {
      apart = between().apart;
      held = null;
    } else if (ears.over(pixel(event)) === "score" && !(event.pointerType === "touch" && canvas.classList.contains("tall"))) {
      held = { y: event.clientY }; // a finger scrolls a tall picture
    }
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = pixel(event);
    const before = fingers.get(event.pointerId);
    if (before === undefined) {
      const over = ears.over(at);
      canvas.classList.toggle("score", over === "score");
      canvas.classList.toggle("cell", over === "cell");
      return;
    }
    const still = moved <= STILL;
    moved += Math.hypot(at.x - before.x, at.y - before.y);
    if (moved <= STILL) return;
    if (held !== null) {
      if (still && !ears.grab(before)) held = null;
      else ears.drag(held.y - event.clientY);
      if (held !== null) return;
    }
    fingers.set(event.pointerId, at);
    canvas.classList.add("drags");
    if (fingers.size === 1) {
      ears.pan(at.x - before.x, at.y - before.y);
      return;
    }
    const middle = between();
    ears.zoom(middle.apart / apart, middle);
    apart = middle.apart;
  });
  const lift = (/** @type {PointerEvent} */ event, /** @type {boolean} */ click) => {
    const one = fingers.size === 1 && fingers.has(event.pointerId);
    fingers.delete(event.pointerId);
    canvas.classList.remove("drags");
    if (held !== null && moved > STILL) ears.drop(click); // what is cancelled was a scroll, or the like
    held = null;
    if (click && one && moved <= STILL) ears.pick(pixel(event));
  };
  canvas.addEventListener("pointerup", (event) => lift(event, true));
  canvas.addEventListener("pointercancel", (event) => lift(event, false));
}
