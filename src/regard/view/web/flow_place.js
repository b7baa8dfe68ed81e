// Where the reader of a flow is, as the state says it: never beyond what there is.

/**
 * @typedef {import("./base.js").State} State
 * @typedef {import("./flow_source.js").Outline} Outline
 * @typedef {import("./flow_draw.js").Cell} Cell
 *
 * @typedef {object} FlowPlace
 * @property {string} stage that is told; "": none
 * @property {Cell | null} cell of it
 * @property {number} head
 * @property {number | null} token that is followed
 * @property {boolean} present
 * @property {boolean} beside before and after
 * @property {string} zoom
 */

/** The number by which a head is called: from 1 in an example, from 0 in a model, as in the views of a run.
 * @param {Outline} outline @param {number} head */
export function headNumber({ kind }, head) {
  return kind === "model" ? head : head + 1;
}

/** How many heads there are at most, and tokens to follow. @type {WeakMap<Outline, { heads: number, tokens: number }>} */
const known = new WeakMap();

/** @param {Outline} outline */
export function countsOf(outline) {
  let found = known.get(outline);
  if (found === undefined) {
    found = {
      heads: Math.max(1, ...Object.values(outline.stages).map((stage) => stage.heads)),
      tokens: outline.sequences[followedIn(outline)]?.length ?? 0,
    };
    known.set(outline, found);
  }
  return found;
}

/** @param {State} state @param {Outline} outline @returns {FlowPlace} */
export function placeIn(state, outline) {
  const { heads, tokens } = countsOf(outline);
  const name = String(state.step ?? "");
  const stage = Object.hasOwn(outline.stages, name) ? name : "";
  const found = /^(\d{1,9}),(\d{1,9})$/.exec(String(state.cell ?? ""));
  const { rows, columns } = outline.stages[stage] ?? { rows: 0, columns: 0 };
  return {
    stage,
    cell: found === null || stage === "" ? null
      : { stage, row: Math.min(Number(found[1]), rows - 1), column: Math.min(Number(found[2]), columns - 1) },
    head: Math.min(state.head ?? 0, heads - 1),
    token: state.token === null || state.token >= tokens ? null : state.token,
    present: state.present === "yes",
    beside: state.beside === "yes",
    zoom: String(state.zoom ?? ""),
  };
}

/** The sequence whose tokens are followed: the text that is written, if there are two. @param {Outline} outline */
export function followedIn({ sequences }) {
  return Object.hasOwn(sequences, "target") ? "target" : Object.keys(sequences)[0];
}

/** The token that is followed, if the rows of a stage are of its sequence. @param {Outline} outline @param {string} stage @param {number | null} token */
export function tokenIn(outline, stage, token) {
  const { row_labels, rows } = outline.stages[stage];
  const other = typeof row_labels === "string" && row_labels !== followedIn(outline);
  return token === null || token >= rows || other ? null : token;
}
