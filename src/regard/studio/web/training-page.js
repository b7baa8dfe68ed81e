// Trainings: all that the studio's folders hold, and one of them, followed while it goes on.

import { start } from "./base.js";
import { el, many, put } from "./dom.js";
import { moment } from "./language.js";
import { address, elsewhere, read } from "./page.js";
import { ask } from "./asking.js";
import { failed } from "./told.js";
import { ServedTraining } from "./training-served.js";
import { word } from "./words.js";

/** @typedef {import("./base.js").RegardElement<any>} AnyElement */

const EACH = 2000; // milliseconds after which it is asked what is new
const STATUS = /** @type {const} */ ({ trains: "trainings.trains", stopped: "trainings.stopped", ended: "trainings.ended", diverged: "trainings.diverged" });

/** @param {HTMLElement} main @param {import("./base.js").State} state @param {AbortSignal} until */
export async function showTraining(main, state, until) {
  if (state.training !== undefined && state.training !== null) await showOne(main, String(state.training), until);
  else await showList(main, until);
}

/** @param {HTMLElement} main @param {AbortSignal} until */
async function showList(main, until) {
  const list = el("div");
  const said = el("div", { "aria-live": "polite" });
  main.append(el("h1", {}, word("trainings.title")), el("p", { class: "faint" }, word("trainings.about")), said, list);
  const columns = [word("trainings.name"), word("trainings.task"), word("trainings.steps"), word("trainings.status"), word("trainings.changed")];
  const row = (/** @type {any} */ each) => el("tr", {},
    el("td", {}, el("a", { href: elsewhere({ page: "training", training: each.id }) }, each.name),
      each.problem !== undefined && el("div", { class: "error", lang: "en" }, each.problem)),
    el("td", {}, each.task),
    el("td", {}, word("trainings.of", { step: many(each.step), steps: many(each.steps) })),
    el("td", {}, word(STATUS[/** @type {keyof typeof STATUS} */ (each.status)])),
    el("td", {}, moment(each.changed)));
  let told = "";
  const draw = async () => {
    const all = await ask("/api/trainings");
    if (until.aborted || JSON.stringify(all) === told) return;
    told = JSON.stringify(all);
    list.replaceChildren(all.length === 0 ? el("p", {}, word("trainings.none")) : el("table", { class: "fit trainings" },
      el("thead", {}, el("tr", {}, ...columns.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...all.map(row))));
  };
  await draw();
  follow(draw, said, until);
}

/** Do something again and again, and say where that failed. @param {() => Promise<void>} work @param {HTMLElement} said
 * @param {AbortSignal} until */
async function follow(work, said, until) {
  while (!until.aborted) {
    await new Promise((done) => setTimeout(done, EACH));
    if (until.aborted) return;
    try {
      await work();
      said.replaceChildren();
    } catch (error) {
      said.replaceChildren(failed(error));
    }
  }
}

/** @param {HTMLElement} main @param {string} id @param {AbortSignal} until */
async function showOne(main, id, until) {
  const title = el("h1");
  const said = el("div", { "aria-live": "polite" });
  main.append(el("p", {}, el("a", { href: elsewhere({ page: "training" }) }, word("trainings.back"))), title, said);
  const source = await ServedTraining.open(id);
  if (until.aborted) return;
  put(title, source.document.name);
  const element = /** @type {AnyElement} */ (document.createElement("regard-training"));
  element.source = source;
  const again = () => (element.state = read(location.hash, start()));
  again();
  element.addEventListener("regard-change", (event) => {
    element.state = { ...element.state, .../** @type {CustomEvent} */ (event).detail };
    history.replaceState(null, "", address(element.state));
  });
  addEventListener("hashchange", again, { signal: until });
  main.append(element);
  follow(async () => {
    if (await source.follow()) element.changed();
  }, said, until);
}
