// A training: the loss and what goes with it over the steps, and how attention formed, head by head.

import { RegardElement } from "./base.js";
import { CHART_CSS, chartOf, short } from "./chart.js";
import { el, field, many, put, refill, toggle, visible } from "./dom.js";
import { tableOf } from "./lab.js";
import { legend } from "./scale.js";
import { isDark } from "./theme.js";
import { IN_ENGLISH } from "./told.js";
import { HeadMap, MAP_CSS } from "./training_map.js";
import { hasWord, word } from "./words.js";

/**
 * @import { Lines } from "./chart.js"
 * @import { TrainingDocument, TrainingSource } from "./training_source.js"
 */

const MANY = 16; // keys, among which a weight is small: their colours go by the logarithm unless chosen otherwise

/**
 * Shows a training, of a file or while it goes on. The state `at` is the step of the picture that is
 * shown, the newest unless set; `show`, which heads: "" those that changed most, "2" all of a layer,
 * "2.1" one; `scale` is "log" where the loss is drawn by its logarithm; `colours` of weights, "log" or "linear".
 * @extends {RegardElement<TrainingSource>}
 */
class RegardTraining extends RegardElement {
  static css = `
    ${CHART_CSS}${MAP_CSS}
    .status { font-size: 17px; margin: 4px 0 2px; } .status strong { font-weight: 600; }
    p { margin: 2px 0 8px; max-width: 60em; } h2 { font-size: 18px; margin: 26px 0 4px; }
    .charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 400px), 1fr)); gap: 22px 30px; margin: 10px 0; align-items: start; }
    .maps { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 310px), 1fr)); gap: 24px 20px; align-items: start; margin: 12px 0; }
    .bar .bar { margin: 0; }
    .bar input[type="range"] { width: min(340px, 60vw); accent-color: var(--accent); }
    .bar select { max-width: 100%; min-width: 0; } .bar label { min-width: 0; max-width: 100%; }
    .at { font-variant-numeric: tabular-nums; color: var(--ink); }
    .readout { position: sticky; top: 0; z-index: 1; background: var(--page); padding: 4px 0; margin: 0; max-width: none; }
    details { margin: 8px 0; } summary { cursor: pointer; }
    .wide { overflow: auto; max-height: 50vh; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
    th, td { padding: 2px 14px 2px 0; text-align: right; white-space: nowrap; } th { color: var(--faint); font-weight: 600; }
    [hidden] { display: none !important; }
  `;

  #task = el("p", { class: "faint" });
  #status = el("strong", { role: "status" });
  #diverged = el("span", IN_ENGLISH);
  #best = el("span");
  #scale = el("span");
  #charts = el("div", { class: "charts" });
  #entropies = el("div", { class: "charts" });
  #entropyPart = el("section", {}, el("h2", {}, word("training.entropy")), el("p", { class: "faint" }, word("training.entropy_about")), this.#entropies);
  #numbers = el("details", { ontoggle: () => this.#tell() }, el("summary", {}, word("training.numbers")));
  #tables = el("div");
  #notes = el("p", { class: "faint" });
  #example = el("p");
  #menu = el("select", { name: "show", onchange: () => this.say({ show: this.#menu.value || null }) });
  #slider = el("input", { type: "range", min: 0, step: 1, "aria-label": word("training.step"), oninput: () => {
    this.#stop();
    this.#go(Number(this.#slider.value));
  } });
  #at = el("span", { class: "at" });
  #play = el("button", { type: "button", name: "play", onclick: () => (this.#playing === undefined ? this.#start() : this.#stop()) }, word("training.play"));
  #colours = el("span");
  #readout = el("p", { class: "readout", role: "status", "aria-live": "polite" });
  #maps = el("div", { class: "maps" });
  #none = el("p");
  #bar = el("div", { class: "bar" }, el("label", {}, word("training.heads"), this.#menu), el("span", { class: "bar" }, this.#play, this.#slider, this.#at), this.#colours);
  #mapPart = el("section", {}, el("h2", {}, word("training.maps")), el("p", { class: "faint" }, word("training.maps_about")), this.#example, this.#none, this.#bar, this.#readout, this.#maps);
  /** @type {Map<string, HeadMap>} */
  #made = new Map();
  #still = matchMedia("(prefers-reduced-motion: reduce)");
  /** @type {number | undefined} */
  #playing;
  #charted = "";
  #menued = "";

  constructor() {
    super();
    this.#numbers.append(this.#tables);
    this.root.append(
      this.#task, el("p", { class: "status" }, this.#status, " ", this.#diverged, " ", this.#best), this.#scale, this.#charts, this.#notes, this.#numbers,
      this.#mapPart, this.#entropyPart,
    );
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.#stop();
  }

  /** @param {TrainingSource} source */
  async update(source) {
    const { document: training, live } = source;
    put(this.#task, word("training.task", { task: training.task }));
    put(this.#status, statusOf(training, live));
    put(this.#diverged, training.status === "diverged" ? `${training.diverged}.` : "");
    put(this.#best, bestOf(training));
    this.#chart(training);
    await this.#draw(source);
  }

  // ── curves ───────────────────────────────────────────────────────────────────────────────────

  /** @param {TrainingDocument} training */
  #chart(training) {
    const { losses, learning_rates: rates, validation, entropies } = training;
    const log = this.said("scale", "") === "log";
    const looks = Object.values(entropies)[0]?.[0]?.steps.length ?? 0;
    const key = [training.step, losses.steps.length, ...Object.values(validation).map(({ steps }) => steps.length), looks, log, isDark()].join();
    if (key === this.#charted) return;
    this.#charted = key;
    this.#scale.replaceChildren(toggle(word("training.log"), log, word("training.log_about"), () => this.say({ scale: log ? null : "log" }), losses.steps.length > 0));
    if (losses.steps.length === 0) {
      this.#charts.replaceChildren(el("p", {}, word("training.no_steps")));
    } else {
      const { loss: aside, ...scores } = validation;
      const series = [{ name: word("training.learned"), x: losses.steps, y: losses.values }];
      if (aside !== undefined) series.push({ name: word("training.aside"), x: aside.steps, y: aside.values });
      const charts = [lines(word("training.loss"), word("training.loss_y"), series, log)];
      const named = Object.entries(scores).map(([name, { steps, values }]) => ({ name: scoreOf(name), x: steps, y: values }));
      if (named.length > 0) charts.push(lines(word("training.scores"), word("training.share"), named));
      charts.push(lines(word("training.rate"), "", [{ name: word("training.rate"), x: rates.steps, y: rates.values }]));
      this.#charts.replaceChildren(...charts.map(chartOf));
    }
    const layers = layersOf(training);
    this.#entropyPart.hidden = layers.every((name) => entropies[name] === undefined);
    this.#entropies.replaceChildren(...layers.flatMap((name, layer) => {
      if (entropies[name] === undefined) return [];
      const heads = entropies[name].map(({ steps, values }, head) => ({ name: `${layer}.${head}`, x: steps, y: values }));
      return [chartOf(lines(word("model.layer", { layer, name }), word("training.nats"), heads))];
    }));
    const missing = training.held === null ? 0 : training.layers.reduce((sum, { heads }) => sum + heads, 0) - training.held.length;
    const looked = Object.values(entropies)[0]?.[0]?.each ?? 1;
    put(this.#notes, [
      losses.each > 1 && word("training.thinned", { each: many(losses.each) }),
      looked > 1 && word("training.thinned_looks", { each: many(looked) }),
      training.left_out > 0 && word("training.fewer_pictures", { count: many(training.left_out) }),
      missing > 0 && word("training.fewer_heads", { count: many(missing) }),
      training.unread > 0 && word("training.unread", { count: many(training.unread) }),
    ].filter((each) => each !== false).join(" "));
    this.#tell();
  }

  /** The numbers of the curves, once somebody wants them. */
  #tell() {
    if (!this.#numbers.open || this.source === null) return;
    const { losses, learning_rates: rates, validation } = this.source.document;
    const names = Object.keys(validation);
    const scored = names.length === 0 ? [] : validation[names[0]].steps.map((step, n) => [step, ...names.map((name) => validation[name].values[n])]);
    const columns = [word("training.step"), word("training.loss"), word("training.rate")];
    const tables = [
      { title: word("training.learned"), columns, rows: losses.steps.map((step, n) => [step, losses.values[n], rates.values[n]]) },
      { title: word("training.aside"), columns: [word("training.step"), ...names.map(scoreOf)], rows: scored },
    ];
    this.#tables.replaceChildren(...tables.filter(({ rows }) => rows.length > 0).flatMap((table) =>
      [el("p", {}, el("strong", {}, table.title)), el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": table.title }, tableOf(table))]));
  }

  // ── attention that forms ─────────────────────────────────────────────────────────────────────

  /** @param {TrainingSource} source */
  async #draw(source) {
    const { document: training, live } = source;
    const { pictures: steps, layers, example } = training;
    const none = steps.length === 0;
    for (const each of [this.#bar, this.#maps, this.#readout, this.#example]) each.hidden = none;
    this.#none.hidden = !none;
    put(this.#none, word(live && training.status === "trains" ? "training.no_pictures_yet" : "training.no_pictures"));
    if (none) return;
    const told = Object.entries(example).map(([name, tokens]) => word(`training.example.${/** @type {"ids"} */ (name)}`, { tokens: tokens.map(visible).join(" ") }));
    put(this.#example, told.length === 0 ? "" : word("training.example", { told: told.join(" ") }));
    this.#choices(training);
    const at = this.#place(steps);
    this.#slider.max = String(steps.length - 1);
    this.#slider.value = String(at);
    const after = word("training.after", { step: many(steps[at]) });
    this.#slider.setAttribute("aria-valuetext", after);
    put(this.#at, after);
    this.#play.hidden = this.#still.matches || steps.length < 2;
    const wanted = this.#wanted(training);
    const found = await Promise.all(wanted.map(([layer, head]) => source.head(layer, head)));
    if (this.source !== source || this.#place(steps) !== at) return; // another picture is asked for meanwhile
    const range = this.#range(Math.max(1, ...found.map(({ keys }) => keys)));
    const look = `${range.log} ${isDark()}`;
    if (this.#colours.dataset.look !== look) refill(this.#colours, this.#scales(range));
    this.#colours.dataset.look = look;
    const maps = wanted.map(([layer, head], n) => {
      const name = `${layer}.${head}`;
      let map = this.#made.get(name);
      if (map === undefined) {
        map = new HeadMap((text) => put(this.#readout, text || word("training.point")), (step) => {
          this.#stop();
          this.#go(steps.indexOf(step));
        });
        this.#made.set(name, map);
      }
      // Of a picture that is new, the weights may not be here yet.
      const here = steps.slice(0, found[n].pictures.length);
      if (here.length > 0) map.show({ layer, head, about: layers[layer], found: found[n], steps: here, at: Math.min(at, here.length - 1), range }, look);
      return map.element;
    });
    if (maps.length !== this.#maps.children.length || maps.some((each, n) => this.#maps.children[n] !== each)) this.#maps.replaceChildren(...maps);
    if (this.#readout.textContent === "") put(this.#readout, word("training.point"));
  }

  /** From which weight to which the colours go. @param {number} keys @returns {import("./scale.js").Range} */
  #range(keys) {
    const said = this.said("colours", keys > MANY ? "log" : "linear");
    return { log: said === "log", least: 0.001, most: 1 };
  }

  /** @param {import("./scale.js").Range} range @returns {Node[]} */
  #scales(range) {
    const choose = (/** @type {string} */ colours) => () => this.say({ colours });
    return [el("span", { class: "bar" },
      field(word("scale.colours"), word("scale.about"),
        toggle(word("scale.log"), range.log, word("atlas.log_about"), choose("log")),
        toggle(word("scale.linear"), !range.log, word("atlas.linear_about"), choose("linear"))),
      legend(range, word("atlas.weight")))];
  }

  /** Which picture is shown, by its number. @param {number[]} steps */
  #place(steps) {
    const said = this.said("at", "");
    const found = said === "" ? -1 : steps.indexOf(Number(said));
    return found < 0 ? steps.length - 1 : found;
  }

  /** @param {TrainingDocument} training @returns {[number, number][]} */
  #wanted({ layers, held, chosen }) {
    const all = held ?? layers.flatMap(({ heads }, layer) => Array.from({ length: heads }, (_, head) => /** @type {[number, number]} */ ([layer, head])));
    const show = this.said("show", "");
    const found = all.filter(([layer, head]) => String(layer) === show || `${layer}.${head}` === show);
    return found.length > 0 ? found : chosen.filter(([layer, head]) => all.some((each) => each[0] === layer && each[1] === head));
  }

  /** @param {TrainingDocument} training */
  #choices({ layers, held, chosen }) {
    const show = this.said("show", "");
    const key = `${JSON.stringify([chosen, held])} ${layers.length}`;
    if (key !== this.#menued) {
      this.#menued = key;
      const most = chosen.map((head) => head.join(".")).join(", ");
      this.#menu.replaceChildren(el("option", { value: "" }, word("training.changed_most", { heads: most })), ...layers.map(({ name, heads }, layer) => {
        const here = Array.from({ length: heads }, (_, head) => head).filter((head) => held === null || held.some((each) => each[0] === layer && each[1] === head));
        return el("optgroup", { label: word("model.layer", { layer, name }) },
          ...(here.length > 1 ? [el("option", { value: layer }, word("training.layer_heads", { layer, count: here.length }))] : []),
          ...here.map((head) => el("option", { value: `${layer}.${head}` }, word("training.head", { layer, head }))));
      }));
    }
    this.#menu.value = [...this.#menu.options].some(({ value }) => value === show) ? show : "";
  }

  /** @param {number} place */
  #go(place) {
    const steps = this.source?.document.pictures ?? [];
    this.say({ at: place >= steps.length - 1 ? null : String(steps[place]) });
  }

  #start() {
    const steps = this.source?.document.pictures ?? [];
    let next = this.#place(steps) === steps.length - 1 ? 0 : this.#place(steps) + 1;
    const step = () => {
      this.#go(next);
      next++;
      if (next >= steps.length) this.#stop();
    };
    this.#play.textContent = word("training.pause");
    // Not faster than browsers let a page change its address.
    this.#playing = setInterval(step, Math.max(330, Math.min(800, 9000 / steps.length)));
    step();
  }

  #stop() {
    clearInterval(this.#playing);
    this.#playing = undefined;
    this.#play.textContent = word("training.play");
  }
}

/** The names of all layers: of pictures, and of entropies alone. @param {TrainingDocument} training */
function layersOf({ layers, entropies }) {
  const known = layers.map(({ name }) => name);
  return [...known, ...Object.keys(entropies).filter((name) => !known.includes(name))];
}

/** @param {TrainingDocument} training @param {boolean} live */
function statusOf({ status, step, steps }, live) {
  const keys = /** @type {const} */ ({ trains: live ? "training.trains" : "training.trains_file", stopped: "training.stopped", ended: "training.ended", diverged: "training.diverged" });
  return word(keys[status], { step: many(step), steps: many(steps) });
}

/** @param {TrainingDocument} training */
function bestOf({ validation }) {
  const { steps, values } = validation.loss ?? { steps: [], values: [] };
  const known = values.flatMap((value, n) => (value === null ? [] : [{ value, step: steps[n] }]));
  if (known.length === 0) return "";
  const { value, step } = known.reduce((best, each) => (each.value < best.value ? each : best));
  return word("training.best", { loss: short(Number(value.toPrecision(4))), step: many(step) });
}

/** What a score is called. @param {string} name */
function scoreOf(name) {
  const key = `training.score.${name}`;
  return hasWord(key) ? word(key) : name;
}

/** A chart over the steps, and what it says to who cannot see it. @param {string} title @param {string} y
 * @param {{ name: string, x: number[], y: (number | null)[] }[]} series @param {boolean} [log] @returns {Lines} */
function lines(title, y, series, log = false) {
  const told = series.map(({ name, x, y: values }) => {
    const known = values.flatMap((value, n) => (value === null ? [] : [{ value, step: x[n] }]));
    if (known.length === 0) return "";
    const [first, last] = [known[0], known[known.length - 1]];
    return word("training.curve", {
      name, first: short(Number(first.value.toPrecision(4))), from: many(first.step), last: short(Number(last.value.toPrecision(4))), to: many(last.step),
    });
  });
  return { kind: "lines", title, told: [title, ...told].join(". "), x: word("training.steps"), y, log: log ? "y" : "", series };
}

customElements.define("regard-training", RegardTraining);
