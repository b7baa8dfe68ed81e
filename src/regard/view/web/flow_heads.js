// One head of a layer that a page holds whole, as a trace of its steps.

/**
 * @typedef {import("./arithmetic.js").TraceJson} TraceJson
 * @typedef {number[][]} Rows
 *
 * What holds the numbers of a step or of a matrix: a step of the page, a matrix as it is, or rows of a weight or of
 * a bias, `width` of them for each of its `own` heads, each of which serves several of all `heads`. A matrix of `several`
 * heads is a list of their matrices.
 * @typedef {{ step?: string, matrix?: string, weight?: string, bias?: string, own: number, heads: number, width: number,
 *   sliced: boolean, several?: boolean }} Numbers
 *
 * @typedef {{ trace: TraceJson, numbers: Record<string, Numbers> }} HeadInfo the trace of head 0, without numbers
 *
 * @typedef {object} Held
 * @property {(name: string) => Promise<Rows>} step of the head
 * @property {(name: string) => Promise<Rows>} matrix
 */

/** @param {HeadInfo} info @param {number} head @param {Held} held @returns {Promise<TraceJson>} */
export async function headTrace({ trace, numbers }, head, held) {
  const made = structuredClone(trace);
  for (const [name, from] of Object.entries(numbers)) {
    const rows = await rowsOf(from, head, held);
    const step = made.steps[name];
    if (step === undefined) made.matrices[name] = from.several ? [rows] : rows;
    else {
      const several = step.axes[0].name === "head";
      if (several) step.axes[0].labels = [`head ${head}`];
      if (step.rule.rule === "OneJoined") step.rule.head = head;
      step.array = several ? [rows] : rows;
    }
  }
  made.note = made.note.replace(/^Head 0/, `Head ${head}`);
  return made;
}

/** @param {Numbers} from @param {number} head @param {Held} held @returns {Promise<Rows>} */
async function rowsOf({ step, matrix, weight, bias, own, heads, width, sliced }, head, held) {
  if (step !== undefined) return held.step(step);
  if (matrix !== undefined) return held.matrix(matrix);
  const mine = Math.floor((head * own) / heads);
  const [first, end] = [mine * width, (mine + 1) * width];
  if (bias !== undefined) return [(await held.matrix(bias)).flat().slice(first, end)];
  const rows = (await held.matrix(/** @type {string} */ (weight))).slice(first, end);
  const turned = rows[0].map((_, n) => rows.map((row) => row[n]));
  if (!sliced) return turned;
  // Each head sees its part of what comes in: the rest is multiplied by 0.
  const none = () => turned.map(() => Array.from({ length: width }, () => 0));
  return Array.from({ length: own }, (_, n) => (n === mine ? turned : none())).flat();
}
