// The course: its lessons, and one of them, whose experiments are measured when the reader asks.

import { el } from "./dom.js";
import { LANGUAGE } from "./language.js";
import { address, elsewhere, read } from "./page.js";
import { start } from "./base.js";
import { ask, tell } from "./asking.js";
import { follow } from "./progress.js";
import { word } from "./words.js";

/** @typedef {import("./base.js").RegardElement<any>} AnyElement */

/** @param {HTMLElement} main @param {import("./base.js").State} state @param {AbortSignal} until */
export async function showLearn(main, state, until) {
  /** @type {{ name: string, title: string }[]} */
  const lessons = await ask(`/api/learn?language=${LANGUAGE}`);
  if (until.aborted) return;
  const link = (/** @type {string} */ name) => elsewhere({ page: "learn", lesson: name });
  if (!lessons.some(({ name }) => name === state.lesson)) {
    main.append(
      el("h1", {}, word("learn.title")), el("p", { class: "faint" }, word("learn.about")),
      el("ul", { class: "cards" }, ...lessons.map(({ name, title }, n) =>
        el("li", {}, el("a", { href: link(name) }, el("strong", {}, word("learn.number", { number: n + 1, title })))))));
    return;
  }
  const lesson = await ask(`/api/learn/${state.lesson}?language=${LANGUAGE}`);
  if (until.aborted) return;
  const element = /** @type {AnyElement} */ (document.createElement("regard-lesson"));
  const measure = async (/** @type {string} */ experiment, /** @type {HTMLElement} */ place) => {
    const { job } = await tell("/api/lab", { experiment, quick: true, language: LANGUAGE });
    const result = await follow(job, place, until);
    return result === null ? null : ask(`/api/lab/${result}`);
  };
  element.source = { ...lesson, address: link, measure };
  element.state = read(location.hash, start());
  element.addEventListener("regard-change", (event) => {
    element.state = { ...element.state, .../** @type {CustomEvent} */ (event).detail };
    history.replaceState(null, "", address(element.state));
  });
  main.append(el("p", {}, el("a", { href: elsewhere({ page: "learn" }) }, word("learn.all"))), el("h1", { class: "lesson" }, lesson.title), element);
}
