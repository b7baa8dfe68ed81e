// <regard-flow>: a whole pass in one picture; follow a token, play it, change it.

import { RegardElement } from "./base.js";
import { contextOf, el, refill } from "./dom.js";
import { FlowAnswer, readingOf } from "./flow_answer.js";
import { onScreen, writeCamera } from "./flow_camera.js";
import { Changer } from "./flow_changer.js";
import { changeButtons, controls, stopButtons } from "./flow_controls.js";
import { drawFlow } from "./flow_draw.js";
import { Eye } from "./flow_eye.js";
import { listen } from "./flow_hands.js";
import { hitAt } from "./flow_hit.js";
import { press } from "./flow_keys.js";
import { layout } from "./flow_layout.js";
import { lightsOf } from "./flow_lights.js";
import { lookOf } from "./flow_look.js";
import { drawMoves } from "./flow_moves.js";
import { NextLine } from "./flow_next.js";
import { Panes } from "./flow_panes.js";
import { Passes } from "./flow_passes.js";
import { countsOf, followedIn, placeIn } from "./flow_place.js";
import { Player, nearTo, unmade } from "./flow_player.js";
import { FLOW_CSS } from "./flow_style.js";
import { toldChanges } from "./flow_told.js";
import { pictureOf, sentenceOf, stopFrom, stopsOf } from "./flow_walk.js";
import { onceAFrame } from "./pause.js";
import { noteIn } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./flow_source.js").FlowSource} FlowSource
 * @typedef {import("./flow_draw.js").Scene} Scene
 * @typedef {import("./flow_layout.js").Plan} Plan
 * @typedef {import("./flow_panes.js").Pane} Pane
 */

const NARROW = 700; // pixels that are too few for a line of stages
const KEPT = 250; // milliseconds after which a camera is put into the address
const SOON = 200; // milliseconds that nobody has to be told to wait

/** @extends {RegardElement<FlowSource>} */
export class RegardFlow extends RegardElement {
  static css = FLOW_CSS;

  #bar = el("div", { class: "bar top" });
  #stops = el("ol", { class: "stops bar", "aria-label": word("flow.stages") });
  #sentence = el("p", { class: "say", role: "status" });
  #hint = el("p", { class: "hint faint" });
  #lacks = el("p", { class: "lacks faint" });
  #did = el("div", { class: "bar did" });
  #told = el("p", { class: "told", role: "alert" });
  #next = new NextLine();
  #answer = new FlowAnswer(() => this.#changer);
  #panes = new Panes((pane) => this.#listen(pane));
  #passes = new Passes(() => this.#news());
  #changer = new Changer({
    said: () => this.said("changes", ""),
    say: (changes) => this.say({ changes, ...(changes === null ? { beside: null } : {}) }),
    store: () => this.#passes.after, head: () => this.#at.head, cell: () => this.#at.cell,
    pane: () => this.#panes.shown[this.#beside ? 1 : 0], scene: (pane) => this.#scene(pane),
    settle: () => this.changed(), draw: () => this.#frame(),
    tell: (text) => (this.#told.textContent = text), field: (...given) => this.#answer.edit(...given),
  });
  #known = /** @type {FlowSource | null} */ (null);
  #asked = 0;
  /** @type {Plan | null} */
  #plan = null;
  #planned = "";
  #room = { width: 1, height: 1 };
  #eye = new Eye();
  player = new Player();
  #look = lookOf(this);
  #kept = 0;
  #still = matchMedia("(prefers-reduced-motion: reduce)");
  #connected = new AbortController();
  #presenting = new AbortController();
  #width = 0;

  #frame = onceAFrame(() => this.#draw());
  #news = onceAFrame(() => {
    this.#draw();
    this.drawn();
  });

  constructor() {
    super();
    this.root.append(this.#bar, this.#stops, this.#panes.element, this.#did, this.#told, this.#sentence, this.#next.element, this.#answer.element, this.#lacks, this.#hint);
    this.root.addEventListener("keydown", (event) => this.#key(/** @type {KeyboardEvent} */ (event)));
  }

  connectedCallback() {
    super.connectedCallback();
    this.#connected = new AbortController();
    addEventListener("resize", this.changed, { signal: this.#connected.signal });
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.#connected.abort();
    this.#presenting.abort();
    this.removeAttribute("present");
    this.player.playing = false;
  }

  resized() {
    if (this.clientWidth !== this.#width) this.changed();
  }

  /** Where everything stands on the canvas, in pixels of it. @returns {import("./flow_segments.js").Box[]} */
  get boxes() {
    return (this.#plan?.boxes ?? []).map((box) => ({ ...box, ...onScreen(this.#eye.camera, box) }));
  }

  // ── where the reader is ────────────────────────────────────────────────────────────────────────

  get #outline() {
    return this.#passes.after.outline;
  }

  get #at() {
    return placeIn(this.state, this.#outline);
  }

  get #changes() {
    return this.#changer.all;
  }

  /** Are there two pictures? */
  get #beside() {
    return this.#at.beside && this.#passes.before !== this.#passes.after && this.#passes.alike;
  }

  /** @param {FlowSource} source */
  async update(source) {
    const asked = ++this.#asked;
    this.#width = this.clientWidth;
    if (source !== this.#known) this.#changer.past.forget();
    this.#known = source;
    if (!(await this.#settled(source)) || asked !== this.#asked) return;
    this.#look = lookOf(this);
    this.#enter();
    this.#fill();
    this.#arrange();
    this.#eye.aim(/** @type {Plan} */ (this.#plan), this.#outline, this.#planned, this.#at.stage, this.#at.zoom, this.#room, this.#still.matches);
    this.player.begin(this.#outline, this.#at.stage, this.#still.matches || this.#at.cell !== null);
    const { cell, head, token } = this.#at;
    this.#next.show(this.#passes, token).then(() => this.drawn()); // for which the picture does not wait
    await this.#answer.show(this.#passes, cell, head, this.#changes);
    if (asked === this.#asked) this.#draw();
  }

  /** Have the pass as it is changed; meanwhile the one from before is there, and said to be. @param {FlowSource} source */
  async #settled(source) {
    const waits = setTimeout(() => {
      this.#panes.element.ariaBusy = "true";
      this.#told.textContent = word("flow.computing");
    }, SOON);
    const settled = await this.#passes.settle(source, this.#changer.wanted, this.state.head ?? 0);
    clearTimeout(waits);
    if (settled) this.#panes.element.ariaBusy = null;
    return settled;
  }

  /** Into the presentation, or out of it. */
  #enter() {
    if (this.hasAttribute("present") === this.#at.present) return;
    this.toggleAttribute("present", this.#at.present);
    this.#presenting.abort();
    if (!this.#at.present) return;
    this.#presenting = new AbortController();
    // Whatever has the focus behind it, keys are meant for the picture.
    addEventListener("keydown", (event) => {
      if (!event.composedPath().includes(this)) this.#key(event);
    }, { signal: this.#presenting.signal });
  }

  // ── the picture ────────────────────────────────────────────────────────────────────────────────

  #fill() {
    const outline = this.#outline;
    const shown = {
      outline, stops: stopsOf(outline), stage: this.#at.stage, token: this.#at.token, head: this.#at.head, changes: this.#changes,
      playing: this.player.playing, present: this.#at.present, beside: this.#beside, narrow: this.clientWidth < NARROW,
      pair: this.#passes.before !== this.#passes.after && this.#passes.alike,
      say: (/** @type {any} */ change) => this.say(change), changer: this.#changer, swap: () => this.#swap(),
      play: () => this.#play(), walk: (/** @type {number} */ by) => this.#walk(by), zoom: (/** @type {number} */ factor) => this.#zoom(factor),
    };
    refill(this.#bar, controls(shown));
    refill(this.#stops, stopButtons(shown));
    refill(this.#did, [...toldChanges(this.#passes.before.outline, outline, this.#changes, (change) => this.#changer.unmake(change)), ...changeButtons(shown)]);
    this.#told.replaceChildren(...this.#passes.refused);
    this.#stops.hidden = this.#stops.childElementCount === 0;
    this.#sentence.textContent = sentenceOf(outline, this.#at.stage);
    const fixed = outline.changes.length === 0;
    const given = outline.kind === "attention" && this.#changes.some(({ kind }) => kind === "number" || kind === "word")
      && outline.stages.head_output?.heads > outline.stages.weights?.heads;
    this.#lacks.replaceChildren(...(outline.lacks ? noteIn(outline.lacks) : [fixed ? word("flow.no.changes") : given ? word("flow.given.stays") : ""]));
    const hints = fixed ? [word("flow.hint.model"), word("flow.keys")] : [word("flow.hint"), word("flow.keys"), word("flow.keys.change")];
    this.#hint.textContent = [readingOf(this.#passes, this.#at.stage, this.#at.head), ...hints].join(" ");
  }

  /** Canvases and a plan for the room that there is. */
  #arrange() {
    const { stage, present } = this.#at;
    this.#panes.show(this.#beside ? 2 : 1, pictureOf(this.#outline, stage));
    const { width, height: room } = this.#panes.room(present);
    const tall = this.clientWidth < NARROW && stage === "" && !present && this.#outline.kind === "attention";
    const planned = [width, room, tall, (this.#passes.alike ? this.#passes.before : this.#passes.after).id].join(" ");
    if (planned !== this.#planned || this.#plan === null) {
      this.#plan = layout(this.#outline, { width, height: tall ? Infinity : room });
      this.#planned = planned;
    }
    const needed = Math.ceil(this.#plan.height * this.#plan.scale);
    // Of many bands one is larger than all of them, when it is gone to.
    const fills = present || this.#plan.bands.length > 3;
    this.#room = { width, height: tall ? needed : fills ? room : Math.min(room, Math.max(320, needed)) };
    this.#panes.resize(this.#room.height, tall);
  }

  /** @param {Pane} pane */
  #listen(pane) {
    listen(pane.canvas, {
      over: (pixel) => {
        const hit = this.#hit(pane, pixel);
        if (hit === null) return "";
        return hit.kind === "cell" && this.#changer.can(hit) !== null ? "score" : "cell";
      },
      pick: (pixel) => this.#pick(pane, pixel),
      pan: (dx, dy) => this.#pan(dx, dy),
      zoom: (factor, pixel) => this.#zoom(factor, pixel),
      grab: (pixel) => {
        const hit = this.#hit(pane, pixel);
        if (hit === null || hit.kind !== "cell" || !this.#changer.grab(this.#store(pane), hit)) return false;
        this.say({ step: hit.stage, cell: `${hit.row},${hit.column}`, zoom: writeCamera(this.#eye.camera, this.#room) });
        return true;
      },
      drag: (up) => this.#changer.drag(up),
      drop: (kept) => this.#changer.drop(kept),
    });
    pane.canvas.addEventListener("dblclick", ({ offsetX: x, offsetY: y }) => {
      const hit = this.#hit(pane, { x, y });
      if (hit?.kind === "token") this.#changer.swap(hit);
      else if (hit?.kind === "cell") this.#changer.edit();
    });
  }

  /** @param {Pane} pane */
  #store(pane) {
    return this.#beside && pane.first ? this.#passes.before : this.#passes.after;
  }

  /** @param {Pane} pane @returns {Scene} */
  #scene(pane) {
    const stage = this.#at.stage;
    const now = performance.now();
    const hidden = stage !== "" && (this.player.playing || this.#at.present) ? unmade(this.#outline, stage) : new Set();
    const { before, after } = this.#passes;
    const ghost = before !== after && !this.#beside && this.#passes.alike ? before : null;
    return {
      plan: /** @type {Plan} */ (this.#plan), store: this.#store(pane), ghost, camera: this.#eye.camera, ...this.#room, look: this.#look,
      head: this.#at.head, token: this.#at.token, cell: this.#at.cell, lights: lightsOf(this.#outline, this.#at.cell), stage,
      made: this.player.share(now), time: now, hidden, near: nearTo(this.#outline, stage), changes: this.#beside && pane.first ? [] : this.#changes,
    };
  }

  #draw() {
    if (!this.#passes.known || this.#plan === null || !this.isConnected) return;
    const now = performance.now();
    this.#eye.tick(now, this.#room);
    for (const pane of this.#panes.shown) {
      const pen = contextOf(pane.canvas, this.#room.width, this.#room.height);
      if (pen === null) continue;
      const scene = this.#scene(pane);
      if (!drawFlow(pen, scene, pane.layers)) this.#frame();
      drawMoves(pen, scene);
      if (pane === this.#panes.shown[this.#beside ? 1 : 0]) this.#changer.hand.show(pane.figure, scene);
    }
    if (this.player.isOver(now)) this.#onward();
    if (this.player.playing || this.#eye.travels || this.player.moves(now)) this.#frame();
  }

  /** A hand has moved the camera: the address follows when it rests. */
  #moved() {
    this.#frame();
    clearTimeout(this.#kept);
    this.#kept = setTimeout(() => {
      const zoom = writeCamera(this.#eye.camera, this.#room);
      this.#eye.stays(this.#planned, zoom);
      this.say({ zoom });
    }, KEPT);
  }

  /** @param {number} dx @param {number} dy in pixels */
  #pan(dx, dy) {
    this.#eye.pan(dx, dy, /** @type {Plan} */ (this.#plan), this.#room);
    this.#moved();
  }

  /** @param {number} factor 0: show all @param {{ x: number, y: number }} [pixel] @returns {boolean} whether there was more to zoom */
  #zoom(factor, pixel = { x: this.#room.width / 2, y: this.#room.height / 2 }) {
    if (factor === 0) {
      clearTimeout(this.#kept);
      this.say({ zoom: null, step: null, cell: null });
      return true;
    }
    const more = this.#eye.zoom(factor, pixel, /** @type {Plan} */ (this.#plan), this.#room);
    if (more) this.#moved();
    return more;
  }

  // ── playing ────────────────────────────────────────────────────────────────────────────────────

  #play() {
    this.player.playing = !this.player.playing;
    if (this.player.playing && this.#at.stage === "") this.#walk(1);
    else if (this.player.playing) this.player.again();
    this.changed();
  }

  /** @param {number} by */
  #walk(by) {
    const next = stopFrom(this.#outline, this.#at.stage, by);
    if (next !== undefined) this.say({ step: next.stage, cell: null, zoom: null });
  }

  #onward() {
    const stops = stopsOf(this.#outline);
    if (this.#at.stage !== stops[stops.length - 1].stage) {
      this.player.wait();
      this.#walk(1);
      return;
    }
    this.player.playing = false;
    this.say({ step: null, cell: null, zoom: null });
    this.changed();
  }

  // ── what the reader does ───────────────────────────────────────────────────────────────────────

  /** @param {Pane} pane @param {{ x: number, y: number }} pixel */
  #hit(pane, pixel) {
    if (!this.#passes.known || this.#plan === null) return null;
    return hitAt(this.#scene(pane), pixel, pane.canvas.getContext("2d"));
  }

  /** @param {Pane} pane @param {{ x: number, y: number }} pixel */
  #pick(pane, pixel) {
    const hit = this.#hit(pane, pixel);
    const zoom = this.#at.zoom === "" && this.#at.stage === "" ? writeCamera(this.#eye.camera, this.#room) : this.#at.zoom || null;
    if (hit === null) this.say({ cell: null });
    else if (hit.kind === "token") this.say({ token: hit.token === this.#at.token ? null : hit.token });
    else if (hit.kind === "ribbon" && this.#outline.changes.includes("cut")) this.#changer.cut(hit);
    else this.say({ step: hit.stage, cell: `${hit.row},${hit.column}`, zoom });
  }

  /** Let another word stand in the place of the one that is followed, or of the row of the chosen cell. */
  #swap() {
    const { cell, token } = this.#at;
    const { stages } = this.#outline;
    const first = Object.keys(stages).find((name) => stages[name].row_labels === followedIn(this.#outline));
    if (cell !== null) this.#changer.swap(cell);
    else if (token !== null && first !== undefined) this.#changer.swap({ stage: first, row: token });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const target = /** @type {HTMLElement} */ (event.composedPath()[0]);
    if (!this.#passes.known || target.matches?.("input, select") || (target.matches?.("button") && (event.key === "Enter" || event.key === " "))) return;
    const done = press(event, {
      cell: () => this.#at.cell,
      size: () => this.#outline.stages[this.#at.stage],
      walk: (by) => this.#walk(by),
      follow: (by) => {
        const count = countsOf(this.#outline).tokens;
        const next = (this.#at.token ?? (by > 0 ? -1 : count)) + by;
        this.say({ token: next < 0 || next >= count ? null : next });
      },
      go: (row, column) => this.say({ cell: `${row},${column}` }),
      enter: () => {
        const stage = this.#at.stage || stopsOf(this.#outline)[0].stage;
        this.say({ step: stage, cell: `${Math.min(this.#at.token ?? 0, this.#outline.stages[stage].rows - 1)},0` });
      },
      edit: () => this.#changer.edit(),
      step: (by) => this.#changer.step(by),
      swap: () => this.#swap(),
      undo: (back) => this.#changer.undo(back),
      cut: () => this.#changer.cut(this.#at.cell),
      leave: () => {
        if (this.#at.cell !== null) this.say({ cell: null });
        else if (this.#at.present) this.say({ present: null });
        else this.say({ step: null, token: null, zoom: null });
      },
      play: () => this.#play(),
      zoom: (factor) => this.#zoom(factor),
      pan: (right, down) => this.#pan(-right * 60, -down * 60),
    });
    if (done) event.preventDefault();
  }
}
customElements.define("regard-flow", RegardFlow);
