// Changes to a pass, as the address says them: a word or a few numbers each.

/**
 * `score` and `number` put another value into a cell; `cut` masks a link, in all heads if `head` is
 * null; `head` makes a head's output 0.
 * @typedef {{ kind: "score" | "number", stage: string, head: number, row: number, column: number, value: number }} CellChange
 * @typedef {{ kind: "cut", attention: string, head: number | null, row: number, column: number }} CutChange
 * @typedef {{ kind: "head", attention: string, head: number }} HeadChange
 * @typedef {{ kind: "scale" | "causal", on: boolean }} SwitchChange
 * @typedef {{ kind: "word", position: number, text: string }} WordChange
 * @typedef {CellChange | CutChange | HeadChange | SwitchChange | WordChange} Change
 */

/** @param {Change[]} changes @returns {string} */
export function writeChanges(changes) {
  return changes.map((change) => parts(change).map(encodeURIComponent).join(",")).join(";");
}

/** @param {Change} change @returns {(string | number)[]} */
function parts(change) {
  switch (change.kind) {
    case "score":
    case "number": return [change.kind, change.stage, change.head, change.row, change.column, change.value];
    case "cut": return [change.kind, change.attention, change.head ?? "all", change.row, change.column];
    case "head": return [change.kind, change.attention, change.head];
    case "word": return [change.kind, change.position, change.text];
    default: return [change.kind, change.on ? "on" : "off"];
  }
}

/** What an address says; what cannot be read is left out. @param {string} text @returns {Change[]} */
export function readChanges(text) {
  return text.split(";").map((each) => {
    try {
      return readChange(each.split(",").map(decodeURIComponent));
    } catch (error) {
      if (error instanceof URIError) return null;
      throw error;
    }
  }).filter((change) => change !== null);
}

/** @param {string[]} said @returns {Change | null} */
function readChange([kind, ...said]) {
  const places = (/** @type {string[]} */ ...texts) => texts.every((text) => /^\d{1,9}$/.test(text ?? ""));
  switch (kind) {
    case "score":
    case "number": {
      const [stage, head, row, column, value] = said;
      if (!places(head, row, column) || value === undefined || value === "" || !Number.isFinite(Number(value))) return null;
      return { kind, stage, head: Number(head), row: Number(row), column: Number(column), value: Number(value) };
    }
    case "cut": {
      const [attention, head, row, column] = said;
      if (!places(row, column) || !(head === "all" || places(head))) return null;
      return { kind, attention, head: head === "all" ? null : Number(head), row: Number(row), column: Number(column) };
    }
    case "head": return places(said[1]) ? { kind, attention: said[0], head: Number(said[1]) } : null;
    case "scale":
    case "causal": return said[0] === "on" || said[0] === "off" ? { kind, on: said[0] === "on" } : null;
    case "word": return places(said[0]) && said[1] !== undefined ? { kind, position: Number(said[0]), text: said[1] } : null;
    default: return null;
  }
}

/** What a change is about: of two about the same, the later one counts. @param {Change} change */
function about(change) {
  const said = parts(change);
  return said.slice(0, change.kind === "cut" || change.kind === "head" ? said.length : -1).join(",");
}

/** The score that a change sets or cuts, before or after it is divided. @param {Change} change */
function link(change) {
  if (change.kind === "cut") return [change.attention, change.head, change.row, change.column].join(",");
  if (change.kind !== "score") return null;
  const attention = change.stage.replace(/\.?[^.]*$/, "") || "attention";
  return [attention, change.head, change.row, change.column].join(",");
}

/** @param {Change[]} changes @param {Change} change @returns {Change[]} */
export function withChange(changes, change) {
  const own = link(change);
  return [...withoutChange(changes, change).filter((each) => own === null || link(each) !== own), change];
}

/** @param {Change[]} changes @param {Change} change @returns {Change[]} */
export function withoutChange(changes, change) {
  return changes.filter((each) => about(each) !== about(change));
}

/** Those that can be made: of kinds that are possible, in places that are there. @param {import("./flow_source.js").Outline} outline
 * @param {Change[]} changes @returns {Change[]} */
export function possibleChanges({ changes: kinds, stages, words }, changes) {
  return changes.filter((change) => {
    if (!kinds.includes(change.kind)) return false;
    if ("position" in change) return change.position < (words?.input.length ?? 0);
    if ("on" in change) return true;
    const stage = "stage" in change ? stages[change.stage]
      : Object.values(stages).find(({ attention, part }) => attention === change.attention && part === (change.kind === "cut" ? "weights" : "head_output"));
    if (stage === undefined || (change.head ?? 0) >= stage.heads) return false;
    return !("row" in change) || (change.row < stage.rows && change.column < stage.columns);
  });
}

/** Is this change, or another about the same, among them? @param {Change[]} changes @param {Change} change */
export function hasChange(changes, change) {
  return changes.some((each) => about(each) === about(change));
}
