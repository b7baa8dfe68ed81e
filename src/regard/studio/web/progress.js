// A job of the studio on its way: how far it is, and a button that stops it.

import { el } from "./dom.js";
import { Refused, tell } from "./asking.js";
import { jobIn } from "./told.js";
import { word } from "./words.js";

/**
 * Show a job in `place` until it is over. Its result; null if it was cancelled.
 * @param {string} job
 * @param {HTMLElement} place
 * @param {AbortSignal} until
 * @returns {Promise<any>}
 */
export function follow(job, place, until) {
  const words = el("span", { class: "readout" }, word("progress.waiting"));
  const bar = el("progress", { max: 1 });
  const stop = el("button", { onclick: () => tell(`/api/jobs/${job}/cancel`) }, word("progress.cancel"));
  place.replaceChildren(el("div", { class: "bar" }, stop, words), bar);
  const host = location.host;
  const socket = new WebSocket(`ws://${host}/api/jobs/${job}/progress`);
  until.addEventListener("abort", () => socket.close());
  return new Promise((resolve, reject) => {
    let over = false;
    socket.addEventListener("message", (event) => {
      const now = JSON.parse(event.data);
      words.textContent = now.step === "" ? word("progress.waiting") : jobIn(now.step);
      if (now.total > 0) {
        bar.max = now.total;
        bar.value = now.done;
      } else bar.removeAttribute("value"); // how far it is, nobody knows
      if (now.state === "done") resolve(now.result);
      else if (now.state === "failed") reject(new Refused(now.error, true));
      else if (now.state === "cancelled") resolve(null);
      over = ["done", "failed", "cancelled"].includes(now.state);
      if (over) place.replaceChildren(now.state === "cancelled" ? el("p", { class: "faint" }, word("progress.cancelled")) : "");
    });
    socket.addEventListener("close", () => {
      if (!over && !until.aborted) reject(new Refused(word("asking.silent")));
    });
  });
}
