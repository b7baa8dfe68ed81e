// Check: paste a worked example, and see the wrong cells marked.

import { el } from "./dom.js";
import { tell } from "./asking.js";

const FIRST = `Q = [[2, 3, 4, 1]]
K = [[1, 0, 1, 0], [0, 1, 0, 1]]
S = [[6, 5]]`;

/** @param {HTMLElement} main */
export function showCheck(main) {
  const text = el("textarea", { class: "mono", rows: 10, "aria-label": "Worked example", spellcheck: "false" });
  text.value = FIRST;
  const found = el("div", { "aria-live": "polite" });
  const button = el("button", { class: "main", onclick: () => go() }, "Check it");
  const go = async () => {
    button.disabled = true;
    try {
      found.replaceChildren(...report(await tell("/api/check", { text: text.value }), text));
    } catch (error) {
      found.replaceChildren(el("p", { class: "error", role: "alert" }, /** @type {Error} */ (error).message));
    } finally {
      button.disabled = false;
    }
  };
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) go();
  });
  main.append(
    el("h1", {}, "Is this worked example right?"),
    el("p", { class: "faint" }, "Matrices of numbers with their names (X, W_Q, Q, K, scores, weights, …), as in notes, Markdown, LaTeX, Python or JSON."),
    text,
    el("div", { class: "bar" }, button),
    found,
  );
}

/** @param {any} content @param {HTMLTextAreaElement} text */
function report(content, text) {
  const { verdict, checked, marks, questions, exercises, fixed } = content;
  const words = {
    right: `Right: ${checked} numbers checked, and nothing wrong.`,
    wrong: `${marks.length} of ${checked} numbers are wrong.`,
    unclear: "Not everything could be told.",
  };
  const claims = exercises.flatMap((/** @type {any} */ each) => each.claims.filter((/** @type {any} */ claim) => !claim.is_right));
  return [
    el("h2", {}, /** @type {any} */ (words)[verdict] ?? verdict),
    marked(content.text, marks),
    marks.length > 0 && el("p", { class: "faint" }, "Outlined: where a mistake was made. Marked only: what follows from one."),
    el("ul", {}, ...marks.filter((/** @type {any} */ mark) => mark.first).map((/** @type {any} */ mark) =>
      el("li", {}, `${mark.name} should be ${mark.right}${mark.cause === "" ? "" : `: ${mark.cause}`}`)),
    ...claims.map((/** @type {any} */ claim) => el("li", {}, `${claim.about}: ${claim.printed} should be ${claim.right}`)),
    ...questions.map((/** @type {string} */ question) => el("li", {}, question)),
    ...exercises.flatMap((/** @type {any} */ each) => each.remarks).map((/** @type {string} */ remark) => el("li", {}, remark))),
    fixed !== null && el("button", {
      onclick: () => {
        text.value = fixed;
        text.focus();
      },
    }, "Put the right numbers in"),
  ].filter((each) => each instanceof Node);
}

/** The text, with what is wrong marked. Places count code points, as Python does.
 * @param {string} text @param {any[]} marks */
function marked(text, marks) {
  const letters = [...text];
  const place = el("div", { class: "marked", tabindex: 0, role: "region", "aria-label": "The example, with wrong numbers marked" });
  let at = 0;
  for (const mark of [...marks].sort((a, b) => a.start - b.start)) {
    place.append(letters.slice(at, mark.start).join(""));
    place.append(el("mark", { class: mark.first && "first", title: `${mark.name} should be ${mark.right}` }, letters.slice(mark.start, mark.end).join("")));
    at = mark.end;
  }
  place.append(letters.slice(at).join(""));
  return place;
}
