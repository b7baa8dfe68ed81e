// Where everything of a flow stands: segments in lines, lines in bands, bands in columns, to fit a window.

import { CORNER, Sizes, ofTokens, segmentsOf } from "./flow_segments.js";
import { bandTitle } from "./told.js";

/**
 * @typedef {import("./flow_source.js").Outline} Outline
 * @typedef {import("./flow_segments.js").Box} Box
 * @typedef {import("./flow_segments.js").Segment} Segment
 * @typedef {{ x: number, y: number, width: number, height: number }} Area
 * @typedef {{ points: [number, number][], from: string, to: string, skips: boolean }} Wire
 *
 * @typedef {Area & { title: string, id: string, stages: string[], boxes: Box[], wires: Wire[] }} BandPlan
 *
 * @typedef {object} Plan
 * @property {number} width in units
 * @property {number} height
 * @property {Box[]} boxes
 * @property {Wire[]} wires from band to band
 * @property {BandPlan[]} bands
 * @property {number} scale pixels a unit, where all fits
 *
 * @typedef {{ segments: Segment[], width: number, up: number, down: number }} Line
 */

const GAP = 1.9; // between segments
const SIGN = 0.9; // more, before a sign in letters
const GUTTER = 1.2; // between lines
const BETWEEN = 2.2; // bands
const TITLE = 1.6; // of a band
const EDGE = 0.6;
const LARGEST = 46; // pixels a unit

/** Segments in lines that are no longer than `most`, if they can be. @param {Segment[]} segments @param {number} most @returns {Line[]} */
function lines(segments, most) {
  /** @type {Line[]} */
  const made = [];
  for (const segment of segments) {
    const last = made[made.length - 1];
    const gap = gapBefore(segment);
    if (last !== undefined && last.width + gap + segment.width <= most + 1e-9) {
      last.segments.push(segment);
      last.width += gap + segment.width;
      last.up = Math.max(last.up, segment.up);
      last.down = Math.max(last.down, segment.down);
    } else made.push({ segments: [segment], width: segment.width - segment.indent, up: segment.up, down: segment.down });
  }
  return made;
}

/** @param {Segment} segment */
function gapBefore({ boxes }) {
  return GAP + (boxes[0].sign.length > 1 ? SIGN : 0);
}

/** @param {Line[]} all @param {boolean} titled */
function heightOf(all, titled) {
  return all.reduce((sum, line) => sum + line.up + line.down, (all.length - 1) * GUTTER) + (titled ? TITLE : 0);
}

/**
 * The plan that shows most in a room; a room of endless height is scrolled.
 * @param {Outline} outline @param {{ width: number, height: number }} room in pixels @returns {Plan}
 */
export function layout(outline, room) {
  const sizes = new Sizes(outline);
  const left = sizes.label;
  const bands = outline.bands.map((band, index) => segmentsOf(outline, band, index, sizes));
  const longest = bands.reduce((a, b) => (b.length > a.length ? b : a), []);
  // Where a line may end: after each number of segments of the longest band.
  const ends = longest.flatMap((_, from) => longest.slice(from).map((_, n) =>
    longest.slice(from, from + n + 1).reduce((sum, each, k) => sum + each.width + (k === 0 ? -each.indent : gapBefore(each)), 0)));
  const titled = outline.bands.length > 1;
  let best = { scale: 0, worth: 0, most: 0, columns: 1 };
  for (const most of new Set(ends)) {
    const made = bands.map((segments) => lines(segments, most));
    const width = Math.max(...made.flat().map((line) => line.width)) + left + 2 * EDGE;
    const heights = made.map((all) => heightOf(all, titled) + BETWEEN);
    for (let columns = 1; columns <= Math.min(8, bands.length); columns++) {
      const tallest = Math.max(...split(heights, columns).map((part) => part.reduce((a, b) => a + b, 0)));
      const scale = Math.min(LARGEST, room.width / (width * columns), room.height / (tallest + 2 * EDGE - BETWEEN));
      // Of many bands each is easier to find again in one line.
      const worth = scale * (titled && made.every((all) => all.length === 1) ? 1.4 : 1);
      if (worth > best.worth * 1.001) best = { scale, worth, most, columns };
    }
  }
  return arrange(outline, bands, best.most, best.columns, left, titled, best.scale);
}

/** Heights in so many columns, one after the other, about equally tall. @param {number[]} heights @param {number} columns */
function split(heights, columns) {
  const share = heights.reduce((a, b) => a + b, 0) / columns;
  /** @type {number[][]} */
  const parts = [[]];
  let full = 0;
  for (const height of heights) {
    if (parts.length < columns && full + height / 2 > share * parts.length) parts.push([]);
    parts[parts.length - 1].push(height);
    full += height;
  }
  return parts;
}

/** @param {Outline} outline @param {Segment[][]} bands @param {number} most @param {number} columns @param {number} left
 * @param {boolean} titled @param {number} scale @returns {Plan} */
function arrange(outline, bands, most, columns, left, titled, scale) {
  const made = bands.map((segments) => lines(segments, most));
  const width = Math.max(...made.flat().map((line) => line.width)) + left + 2 * EDGE;
  const parts = split(made.map((all) => heightOf(all, titled) + BETWEEN), columns);
  /** @type {Plan} */
  const plan = { width: width * parts.length, height: 0, boxes: [], wires: [], bands: [], scale };
  let index = 0;
  parts.forEach((part, column) => {
    let y = EDGE;
    for (const tall of part) {
      const band = outline.bands[index];
      const own = { x: column * width, y, width, height: tall - BETWEEN };
      plan.bands.push({ ...own, title: titled ? bandTitle(band) : "", id: band.id, stages: band.stages, boxes: [], wires: [] });
      let top = y + (titled ? TITLE : 0);
      for (const line of made[index]) {
        // A line that is not the first stands a little to the right of where all began.
        let x = column * width + EDGE + left;
        const base = top + line.up;
        line.segments.forEach((segment, n) => {
          x += n > 0 ? gapBefore(segment) : -segment.indent;
          for (const box of segment.boxes) {
            const first = n === 0 && box.kind === "matrix" && box.x === Math.min(...segment.boxes.filter((each) => each.y === box.y).map((each) => each.x));
            const corner = first && box.caption === "below" && ofTokens(outline.stages[box.stage]);
            plan.boxes.push({ ...box, x: box.x + x, y: box.y + base, corner, names: corner ? left : box.names });
          }
          x += segment.width;
        });
        top += line.up + line.down + GUTTER;
      }
      y += tall;
      index++;
    }
    plan.height = Math.max(plan.height, y - BETWEEN + EDGE);
  });
  for (const box of plan.boxes) plan.bands[box.band].boxes.push(box);
  const bandOf = new Map(plan.boxes.map((box) => [box.stage, box.band]));
  for (const wire of wires(outline, plan)) {
    const band = bandOf.get(wire.to) ?? 0;
    (band === bandOf.get(wire.from) ? plan.bands[band] : plan).wires.push(wire);
  }
  return plan;
}

/** The way from stage to stage, where they do not touch. @param {Outline} outline @param {Plan} plan @returns {Wire[]} */
function wires(outline, plan) {
  /** @type {Wire[]} */
  const found = [];
  const own = new Map(plan.boxes.filter((box) => box.kind === "matrix").map((box) => [box.stage, box]));
  for (const to of own.values()) {
    const stage = outline.stages[to.stage];
    for (const said of stage.from) {
      const name = nearby(outline, to, said);
      const from = own.get(name);
      if (from === undefined || outline.stages[name].part === "matrix") continue;
      const ribbons = stage.part === "head_output" ? plan.boxes.find((box) => box.kind === "ribbons" && box.stage === to.stage) : undefined;
      const wire = ribbons === undefined ? route(plan, from, entryOf(plan, to, stage.from, outline), stage.part)
        : outline.stages[name].part === "weights" ? intoRibbons(plan, from, ribbons) : null;
      if (wire !== null) found.push({ ...wire, from: name, to: to.stage });
    }
  }
  return found;
}

/** The same, as it stands in the band where it is used: the input of a layer is the output of the one before. @param {Outline} outline
 * @param {Box} box @param {string} name */
function nearby(outline, box, name) {
  const { stages } = outline.bands[box.band];
  if (stages.includes(name)) return name;
  return stages.find((each) => each !== box.stage && outline.stages[each].part === "input" && outline.stages[each].from.join() === name) ?? name;
}

/** The box at which data comes in: a matrix that is multiplied with it, if there is one. @param {Plan} plan @param {Box} to
 * @param {string[]} from @param {Outline} outline */
function entryOf(plan, to, from, outline) {
  const given = plan.boxes.filter((box) => from.includes(box.stage) && outline.stages[box.stage].part === "matrix"
    && Math.abs(box.y + box.height - to.y - to.height) < to.height + 4 && box.x < to.x);
  return given.reduce((a, b) => (b.x < a.x ? b : a), to);
}

/** @param {Plan} plan @param {Box} from @param {Box} to @param {string} part @returns {{ points: [number, number][], skips: boolean } | null} */
function route(plan, from, to, part) {
  if (part === "scores") return null; // they touch
  const [right, middle] = [from.x + from.width, from.y + Math.min(from.height, to.height) / 2];
  const inside = to.y + to.height / 2;
  const before = (to.sign === "·" ? 0.75 : 0.25) + (to.corner ? 0 : to.names);
  const line = Math.abs(from.y - to.y) < 0.01;
  const between = plan.boxes.some((box) => box.kind !== "turned" && Math.abs(box.y - from.y) < 0.01 && box.x >= right - 0.01 && box.x + box.width <= to.x + 0.01);
  if (line && to.x >= right && !between) return { points: [[right + 0.25, middle], [to.x - before, middle]], skips: false };
  const under = from.y + from.height + 1.75 + GUTTER / 2;
  if (line && to.x >= right) {
    const [residual, x] = [part === "residual", to.x - 0.2 - (to.corner ? 0 : to.names)];
    const y = residual ? from.y - 1.3 : under;
    const start = residual ? from.y - 0.2 : from.y + from.height + 1.75;
    return { points: [[from.x + from.width / 2, start], [from.x + from.width / 2, y], [x - 0.45, y], [x - 0.45, middle], [x, middle]], skips: true };
  }
  const [own, other] = [plan.bands[from.band].x, plan.bands[to.band].x];
  if (own !== other) {
    const gutter = other + EDGE / 2;
    return { points: [[right + 0.25, middle], [gutter, middle], [gutter, inside], [to.x - before, inside]], skips: part === "residual" };
  }
  if (to.y < from.y && to.x >= from.x) {
    return { points: [[from.x + from.width / 2, from.y - 0.25], [from.x + from.width / 2, inside], [to.x - before, inside]], skips: false };
  }
  // On to another line: into its left side, or from above beside its corner where names stand on the left.
  const start = [from.x + from.width / 2, from.y + from.height + 1.75];
  const far = Math.abs(to.y - from.y) > 2 * (from.height + 4);
  const edge = (plan.bands[to.band]?.x ?? 0) + EDGE / 2;
  const [x, y] = to.corner ? [to.x - CORNER, to.y - 0.1] : [to.x - before, inside];
  const side = far || x - 0.85 < edge ? edge : x - 0.85;
  const points = to.corner
    ? [start, [start[0], under], ...(far ? [[side, under], [side, y - 0.75], [x, y - 0.75]] : [[x, under]]), [x, y]]
    : [start, [start[0], under], [side, under], [side, y], [x, y]];
  return { points: /** @type {[number, number][]} */ (points), skips: far || part === "residual" };
}

/** From the weights to the ribbons, whose thickness they are. @param {Plan} plan @param {Box} weights @param {Box} ribbons
 * @returns {{ points: [number, number][], skips: boolean }} */
function intoRibbons(plan, weights, ribbons) {
  const from = plan.boxes.find((box) => box.kind === "bars" && box.stage === weights.stage) ?? weights;
  const [x, y] = [from.x + from.width / 2, from.y + from.height];
  const to = ribbons.x + ribbons.width / 2;
  if (Math.abs(from.y - ribbons.y) < 0.01) {
    return { points: [[x, from.y - 0.2], [x, from.y - 1.1], [to, from.y - 1.1], [to, ribbons.y - 0.15]], skips: false };
  }
  return { points: [[x, y + 1.1], [x, y + 1.75 + GUTTER / 2], [to, y + 1.75 + GUTTER / 2], [to, ribbons.y - 0.15]], skips: false };
}

/** What the camera shows for a stage: it and what it was made from, if that stands near; or it alone. @param {Plan} plan
 * @param {Outline} outline @param {string} stage @param {boolean} alone @returns {Area} */
export function focusOf(plan, outline, stage, alone) {
  const own = plan.boxes.filter((box) => box.stage === stage && box.kind !== "turned");
  const { part, from } = outline.stages[stage];
  const first = own[0] ?? plan.boxes[0];
  const near = plan.boxes.filter((box) => from.includes(box.stage) && box.band === first.band
    && (Math.abs(box.y - first.y) < 30) && (box.kind === "matrix" || (part === "scores" && box.kind === "turned"))
    && Math.abs(box.x - first.x) < 60);
  return around([...own, ...(alone ? [] : near)].map((box) => ({ ...box, x: box.x - box.names, width: box.width + box.names })));
}

/** @param {Area[]} areas @returns {Area} */
export function around(areas) {
  const x = Math.min(...areas.map((each) => each.x));
  const y = Math.min(...areas.map((each) => each.y));
  return {
    x, y,
    width: Math.max(...areas.map((each) => each.x + each.width)) - x,
    height: Math.max(...areas.map((each) => each.y + each.height)) - y,
  };
}
