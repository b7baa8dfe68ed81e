// What of a flow is seen: a camera over the picture, and how it moves.

/**
 * The unit at the upper left corner of the canvas, and pixels a unit.
 * @typedef {{ x: number, y: number, scale: number }} Camera
 * @typedef {{ width: number, height: number }} Room
 * @typedef {import("./flow_layout.js").Area} Area
 */

const LARGEST = 900; // pixels a unit

/** All of an area, in the middle of the room. @param {Area} area @param {Room} room @param {number} most pixels a unit
 * @returns {Camera} */
export function fitting({ x, y, width, height }, room, most = LARGEST) {
  const scale = Math.min(most, room.width / width, room.height / height);
  return { x: x + width / 2 - room.width / scale / 2, y: y + height / 2 - room.height / scale / 2, scale };
}

/** An area with some room around it; never so near that it fills more than most of the canvas. @param {Area} area
 * @param {Room} room @param {number} most @returns {Camera} */
export function framing(area, room, most) {
  const pad = { x: Math.max(2, area.width * 0.12), y: Math.max(2.4, area.height * 0.2) };
  return fitting({ x: area.x - pad.x, y: area.y - pad.y, width: area.width + 2 * pad.x, height: area.height + 2 * pad.y }, room, most);
}

/** Nearer by a factor, so that the pixel stays where it is. @param {Camera} camera @param {number} factor
 * @param {number} px @param {number} py @param {number} least pixels a unit @returns {Camera} */
export function zoomedAt({ x, y, scale }, factor, px, py, least) {
  const next = Math.min(LARGEST, Math.max(least, scale * factor));
  return { x: x + px / scale - px / next, y: y + py / scale - py / next, scale: next };
}

/** The nearest camera that shows some of the picture. @param {Camera} camera @param {Area} area @param {Room} room @returns {Camera} */
export function inside({ x, y, scale }, area, room) {
  const keep = (/** @type {number} */ at, /** @type {number} */ from, /** @type {number} */ length, /** @type {number} */ pixels) => {
    const seen = pixels / scale;
    // What is smaller than the room stays in it, what is larger fills it.
    return seen >= length ? Math.min(Math.max(at, from + length - seen), from) : Math.min(Math.max(at, from), from + length - seen);
  };
  return { x: keep(x, area.x, area.width, room.width), y: keep(y, area.y, area.height, room.height), scale };
}

/** On the way from one camera to another. @param {Camera} a @param {Camera} b @param {number} share @param {Room} room @returns {Camera} */
export function between(a, b, share, room) {
  if (share >= 1) return b;
  // The scale goes by factors; what is in the middle goes straight.
  const scale = a.scale * (b.scale / a.scale) ** share;
  const middle = (/** @type {"x" | "y"} */ axis, /** @type {number} */ pixels) => {
    const [from, to] = [a[axis] + pixels / a.scale / 2, b[axis] + pixels / b.scale / 2];
    // As the scale changes, equal steps on the screen are not equal steps in the picture.
    const part = Math.abs(b.scale / a.scale - 1) < 1e-6 ? share : (1 - (b.scale / a.scale) ** -share) / (1 - a.scale / b.scale);
    return from + (to - from) * part - pixels / scale / 2;
  };
  return { x: middle("x", room.width), y: middle("y", room.height), scale };
}

/** As the text of an address: the unit in the middle, and pixels a unit. @param {Camera} camera @param {Room} room */
export function writeCamera({ x, y, scale }, room) {
  const places = Math.max(1, Math.ceil(Math.log10(scale)) + 1);
  return [(x + room.width / scale / 2).toFixed(places), (y + room.height / scale / 2).toFixed(places), String(Number(scale.toPrecision(4)))].join(",");
}

/** @param {string} text @param {Room} room @returns {Camera | null} */
export function readCamera(text, room) {
  const numbers = text.split(",").map(Number);
  if (numbers.length !== 3 || !numbers.every(Number.isFinite) || numbers[2] <= 0) return null;
  const [x, y, scale] = [numbers[0], numbers[1], Math.min(LARGEST, numbers[2])];
  return { x: x - room.width / scale / 2, y: y - room.height / scale / 2, scale };
}

/** Where an area is on the canvas. @param {Camera} camera @param {Area} area @returns {Area} */
export function onScreen({ x, y, scale }, area) {
  return { x: (area.x - x) * scale, y: (area.y - y) * scale, width: area.width * scale, height: area.height * scale };
}
