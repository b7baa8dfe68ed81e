// The directions in which points differ most (principal components), exact, in pieces of a few milliseconds.

import { pacer } from "./pause.js";

/**
 * @typedef {object} Principal what was found, most important first. The largest component of each axis is positive.
 * @property {Float64Array[]} axes of length 1 each; all 0 where the points do not differ any more
 * @property {Float64Array[]} coordinates of each axis: where the points are on it, from their mean
 * @property {number[]} shares of each axis: its share of the variance
 */

/** More vectors than are wanted make the iteration converge fast where eigenvalues are close. */
const SPARE = 8;
/** Up to this size all eigenvectors are found at once. */
const SMALL = 24;
const ROUNDS = 1000;

/**
 * The principal components of points in `width` dimensions.
 * @param {ArrayLike<number>} points (n × width), row by row
 * @param {number} width
 * @param {number} [count] how many are wanted
 * @returns {Promise<Principal>}
 */
export async function principal(points, width, count = 2) {
  const n = width === 0 ? 0 : points.length / width;
  const breathe = pacer();
  const centred = centre(points, n, width);
  await breathe();
  const tall = n > width;
  // X Xᵀ and Xᵀ X have the same eigenvalues above 0; the smaller one serves.
  const rows = tall ? transposed(centred, n, width) : centred;
  const size = tall ? width : n;
  const gram = await products(rows, size, tall ? n : width, breathe);
  let total = 0;
  for (let i = 0; i < size; i++) total += gram[i * size + i];
  const found = await strongest(gram, size, Math.min(count, size), breathe);
  /** @type {Principal} */
  const result = { axes: [], coordinates: [], shares: [] };
  for (let c = 0; c < count; c++) {
    const value = found[c]?.value ?? 0;
    // Below this an eigenvalue is what rounding left, and its vector means nothing.
    const real = value > total * 1e-12;
    const vector = real ? found[c].vector : new Float64Array(size);
    const axis = tall ? vector : combined(rows, vector, width);
    orient(axis);
    result.axes.push(axis);
    result.coordinates.push(Float64Array.from({ length: n }, (_, i) => dot(centred, axis, i * width)));
    result.shares.push(real ? value / total : 0);
  }
  return result;
}

/** @param {ArrayLike<number>} points @param {number} n @param {number} width */
function centre(points, n, width) {
  const made = Float64Array.from(points);
  const mean = new Float64Array(width);
  for (let i = 0; i < n; i++) for (let d = 0; d < width; d++) mean[d] += made[i * width + d] / n;
  for (let i = 0; i < n; i++) for (let d = 0; d < width; d++) made[i * width + d] -= mean[d];
  return made;
}

/** @param {Float64Array} matrix @param {number} n @param {number} width */
function transposed(matrix, n, width) {
  const made = new Float64Array(matrix.length);
  for (let i = 0; i < n; i++) for (let d = 0; d < width; d++) made[d * n + i] = matrix[i * width + d];
  return made;
}

/** Σ a[offset + i] · b[i] @param {Float64Array} a @param {Float64Array} b @param {number} [offset] */
function dot(a, b, offset = 0) {
  let sum = 0;
  for (let i = 0; i < b.length; i++) sum += a[offset + i] * b[i];
  return sum;
}

/** Rows times rows: (size × size). @param {Float64Array} rows @param {number} size @param {number} width
 * @param {() => Promise<void> | null} breathe */
async function products(rows, size, width, breathe) {
  const made = new Float64Array(size * size);
  for (let i = 0; i < size; i++) {
    const row = rows.subarray(i * width, (i + 1) * width);
    for (let j = i; j < size; j++) made[i * size + j] = made[j * size + i] = dot(rows, row, j * width);
    await breathe();
  }
  return made;
}

/** Rows, weighted and added, at length 1. @param {Float64Array} rows @param {Float64Array} weights
 * @param {number} width */
function combined(rows, weights, width) {
  const made = new Float64Array(width);
  for (let i = 0; i < weights.length; i++) for (let d = 0; d < width; d++) made[d] += weights[i] * rows[i * width + d];
  const length = Math.sqrt(dot(made, made));
  return length === 0 ? made : made.map((x) => x / length);
}

/** Turn an axis so that its largest component is positive. @param {Float64Array} axis */
function orient(axis) {
  const largest = axis.reduce((best, x) => (Math.abs(x) > Math.abs(best) ? x : best), 0);
  if (largest < 0) for (let d = 0; d < axis.length; d++) axis[d] = -axis[d];
}

/**
 * The strongest eigenvectors of a symmetric matrix, by iterating a block of vectors until each of
 * those wanted satisfies A v = λ v.
 * @param {Float64Array} matrix @param {number} size @param {number} count
 * @param {() => Promise<void> | null} breathe
 * @returns {Promise<{ value: number, vector: Float64Array }[]>}
 */
async function strongest(matrix, size, count, breathe) {
  const many = size <= SMALL ? size : count + SPARE;
  const random = numbers();
  let block = orthonormal(Array.from({ length: many }, () => Float64Array.from({ length: size }, random)), random);
  for (let round = 0; ; round++) {
    /** @type {Float64Array[]} */
    const image = [];
    for (const vector of block) {
      image.push(Float64Array.from({ length: size }, (_, i) => dot(matrix, vector, i * size)));
      await breathe();
    }
    const small = block.map((v) => image.map((w) => dot(v, w)));
    const { values, vectors } = jacobi(small);
    const mix = (/** @type {Float64Array[]} */ from) => vectors.map((weights) => mixed(from, weights));
    const [best, moved] = [mix(block), mix(image)];
    const done = best.slice(0, count).every((vector, c) => {
      let left = 0;
      for (let i = 0; i < size; i++) left += (moved[c][i] - values[c] * vector[i]) ** 2;
      return Math.sqrt(left) <= Math.max(1e-9 * values[c], 1e-12 * values[0]);
    });
    // A block of all vectors there are is exact at once; numbers that are not finite never are.
    if (done || many === size || round === ROUNDS || !Number.isFinite(values[0])) {
      return best.slice(0, count).map((vector, c) => ({ value: values[c], vector }));
    }
    block = orthonormal(moved, random);
  }
}

/** @param {Float64Array[]} vectors @param {number[]} weights */
function mixed(vectors, weights) {
  const made = new Float64Array(vectors[0].length);
  vectors.forEach((vector, n) => {
    for (let i = 0; i < made.length; i++) made[i] += weights[n] * vector[i];
  });
  return made;
}

/** Vectors at right angles to each other, of length 1; what depends on those before it gives way to
 * another. @param {Float64Array[]} vectors @param {() => number} random */
function orthonormal(vectors, random) {
  /** @type {Float64Array[]} */
  const made = [];
  for (let vector of vectors) {
    for (let attempt = 0; attempt < 5; attempt++) {
      const before = Math.sqrt(dot(vector, vector));
      // Twice is enough: what rounding left of the others after the first time goes in the second.
      for (const other of [...made, ...made]) {
        const part = dot(vector, other);
        for (let i = 0; i < vector.length; i++) vector[i] -= part * other[i];
      }
      const length = Math.sqrt(dot(vector, vector));
      if (length > before * 1e-12) {
        made.push(vector.map((x) => x / length));
        break;
      }
      vector = Float64Array.from({ length: vector.length }, random);
    }
  }
  return made;
}

/** All eigenvectors of a small symmetric matrix, by Jacobi's rotations; strongest first.
 * @param {number[][]} matrix @returns {{ values: number[], vectors: number[][] }} */
function jacobi(matrix) {
  const size = matrix.length;
  const a = matrix.map((row) => [...row]);
  // Rows of `v` are eigenvectors in the end.
  const v = a.map((_, i) => a.map((_, j) => Number(i === j)));
  for (let sweep = 0; sweep < 50; sweep++) {
    let [off, on] = [0, 0];
    for (let p = 0; p < size; p++) {
      on += a[p][p] ** 2;
      for (let q = 0; q < p; q++) off += a[p][q] ** 2;
    }
    if (!(off > on * 1e-30)) break;
    for (let p = 0; p < size; p++) {
      for (let q = p + 1; q < size; q++) {
        if (a[p][q] === 0) continue;
        const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1));
        const c = 1 / Math.hypot(t, 1);
        const s = t * c;
        for (let i = 0; i < size; i++) [a[i][p], a[i][q]] = [c * a[i][p] - s * a[i][q], s * a[i][p] + c * a[i][q]];
        for (let i = 0; i < size; i++) [a[p][i], a[q][i]] = [c * a[p][i] - s * a[q][i], s * a[p][i] + c * a[q][i]];
        for (let i = 0; i < size; i++) [v[p][i], v[q][i]] = [c * v[p][i] - s * v[q][i], s * v[p][i] + c * v[q][i]];
      }
    }
  }
  const order = a.map((_, i) => i).sort((i, j) => a[j][j] - a[i][i]);
  return { values: order.map((i) => a[i][i]), vectors: order.map((i) => v[i]) };
}

/** The same row of numbers from −1 to 1 each time. @returns {() => number} */
function numbers() {
  let seed = 12345;
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 31 - 1;
  };
}
