// Check: paste or open a document, and see what is wrong in it, line by line.

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
  const file = el("input", { type: "file", "aria-label": "Open a document", accept: ".md,.txt,.tex,.html,.htm,.ipynb,.json,.toml,.csv" });
  let name = "text";
  /** @type {Record<string, string>} */
  let as = {};
  const go = async () => {
    button.disabled = true;
    try {
      const content = await tell("/api/check", { text: text.value, name, as });
      found.replaceChildren(...report(content, text, name, as, go));
    } catch (error) {
      found.replaceChildren(el("p", { class: "error", role: "alert" }, /** @type {Error} */ (error).message));
    } finally {
      button.disabled = false;
    }
  };
  file.addEventListener("change", async () => {
    const chosen = file.files?.[0];
    if (chosen === undefined) return;
    text.value = await chosen.text();
    name = chosen.name;
    as = {};
    await go();
  });
  text.addEventListener("input", () => { as = {}; });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) go();
  });
  main.append(
    el("h1", {}, "Is this worked example right?"),
    el("p", { class: "faint" }, "Notes, Markdown, LaTeX, HTML, a notebook, Python or JSON: matrices with their names, and equations."),
    text,
    el("div", { class: "bar" }, button, file),
    found,
  );
}

/** @param {any} content @param {HTMLTextAreaElement} text @param {string} name
 * @param {Record<string, string>} as @param {() => void} again */
function report(content, text, name, as, again) {
  const { verdict, checked, statements, not_understood, marks, questions, exercises, fixed } = content;
  const words = {
    right: `Right: ${checked} numbers checked, and nothing wrong.`,
    wrong: `${marks.length} of ${checked} numbers are wrong.`,
    unclear: "Nothing could be checked.",
  };
  const claims = [...content.claims, ...exercises.flatMap((/** @type {any} */ each) => each.claims)]
    .filter((/** @type {any} */ claim) => !claim.is_right);
  const passed = not_understood.length === 0 ? "" : `; ${not_understood.length} not understood`;
  const document = marked(content.text, marks);
  const jump = (/** @type {number} */ line) => () => goTo(document, text, line);
  return [
    el("h2", {}, /** @type {any} */ (words)[verdict] ?? verdict),
    el("p", { class: "faint" }, `${checked} numbers in ${statements} statements checked${passed}.`),
    document,
    marks.length > 0 && el("p", { class: "faint" }, "Outlined: where a mistake was made. Marked only: what follows from one."),
    el("ul", {}, ...marks.filter((/** @type {any} */ mark) => mark.first).map((/** @type {any} */ mark) =>
      found(mark.line, `${mark.name} should be ${mark.right}${mark.cause === "" ? "" : `: ${mark.cause}`}`, jump)),
    ...claims.map((/** @type {any} */ claim) => found(claim.line, `${claim.about}: ${claim.printed} should be ${claim.right}`, jump)),
    ...not_understood.map((/** @type {any} */ each) => found(each.line, `not understood: ${each.what}`, jump)),
    ...questions.map((/** @type {string} */ question) => asked(question, content.kinds, as, again, jump)),
    ...[...content.remarks, ...exercises.flatMap((/** @type {any} */ each) => each.remarks)].map((/** @type {string} */ remark) => el("li", {}, remark))),
    fixed !== null && mending(content.text, fixed, text, name),
  ].filter((each) => each instanceof Node);
}

/** @param {number} line @param {string} words @param {(line: number) => () => void} jump */
function found(line, words, jump) {
  return el("li", {}, el("button", { class: "link", onclick: jump(line) }, `line ${line}`), ` ${words}`);
}

/** A question about a matrix, with a menu of what it may be.
 * @param {string} question @param {string[]} kinds @param {Record<string, string>} as
 * @param {() => void} again @param {(line: number) => () => void} jump */
function asked(question, kinds, as, again, jump) {
  const line = /^line (\d+): /.exec(question)?.[1];
  if (line === undefined) return el("li", {}, question);
  const menu = el("select", { "aria-label": `What stands in line ${line}` },
    ...["…", ...kinds, "ignore"].map((kind) => el("option", {}, kind)));
  menu.addEventListener("change", () => {
    as[line] = menu.value;
    again();
  });
  const item = found(Number(line), question.replace(/^line \d+: | Say it with --as .*$/g, ""), jump);
  item.append(" ", menu);
  return item;
}

/** What would be changed, before it is: the old lines and the new ones.
 * @param {string} before @param {string} fixed @param {HTMLTextAreaElement} text @param {string} name */
function mending(before, fixed, text, name) {
  const old = before.split("\n");
  const lines = fixed.split("\n").flatMap((line, n) => line === old[n] ? [] :
    [el("del", {}, `${n + 1}  ${old[n] ?? ""}`), el("ins", {}, `${n + 1}  ${line}`)]);
  const difference = el("div", { class: "difference mono", role: "region", "aria-label": "What would change" }, ...lines);
  const save = el("a", { download: `right-${name}`, href: URL.createObjectURL(new Blob([fixed])) }, "Save it as a file");
  difference.hidden = true;
  const show = el("button", { onclick: () => { difference.hidden = !difference.hidden; } }, "Show what would change");
  const put = el("button", {
    onclick: () => {
      text.value = fixed;
      text.focus();
    },
  }, "Put the right numbers in");
  return el("div", {}, el("div", { class: "bar" }, show, put, save), difference);
}

/** @param {HTMLElement} document @param {HTMLTextAreaElement} text @param {number} line */
function goTo(document, text, line) {
  const mark = document.querySelector(`[data-line="${line}"]`);
  if (mark !== null) mark.scrollIntoView({ block: "center" });
  const lines = text.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
}

/** The text, with what is wrong marked. Places count code points, as Python does.
 * @param {string} text @param {any[]} marks */
function marked(text, marks) {
  const letters = [...text];
  const place = el("div", { class: "marked", tabindex: 0, role: "region", "aria-label": "The example, with wrong numbers marked" });
  let at = 0;
  for (const mark of [...marks].sort((a, b) => a.start - b.start)) {
    place.append(letters.slice(at, mark.start).join(""));
    place.append(el("mark", { class: mark.first && "first", "data-line": mark.line, title: `${mark.name} should be ${mark.right}` }, letters.slice(mark.start, mark.end).join("")));
    at = mark.end;
  }
  place.append(letters.slice(at).join(""));
  return place;
}
