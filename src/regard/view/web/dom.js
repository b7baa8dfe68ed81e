// Making elements: text only ever becomes a text node, so no token can become markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {Record<string, string | number | boolean | null | undefined | EventListener>} Attributes
 */

/**
 * An element with attributes and children. `onclick` and its like take a function; `true` sets an
 * attribute without a value; null, undefined and false leave it out.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/**
 * The same for SVG.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (name === "style" && "style" in element) {
      // As the policy of the page forbids style attributes, but not what a script sets.
      /** @type {HTMLElement | SVGElement} */ (element).style.cssText = String(value ?? "");
    } else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, String(value));
    }
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * A token as it is shown: what cannot be seen gets a sign, so that every token has a body.
 * @param {string} text
 * @returns {string}
 */
export function visible(text) {
  if (text === "") return "∅";
  return text
    .replace(/\r\n?|\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/^ | $/g, "␣")
    .replace(/[\u0000-\u001f\u007f-\u00a0\u00ad\u1680\u2000-\u200b\u2028-\u202f\u205f-\u2069\u3000\ufeff]/g, "·");
}

/**
 * A text whose indices are set below the line: W_Q as W and a small Q.
 * @param {string} text
 * @returns {(string | Node)[]}
 */
export function indexed(text) {
  const parts = text.split(/(?<=\b[A-Za-z])_([A-Za-z]+|\d+)/);
  return parts.map((part, n) => (n % 2 === 0 ? part : el("sub", {}, part)));
}

/**
 * A weight in figures: four decimals, or more where there would be none left.
 * @param {number} weight
 * @returns {string}
 */
export function figure(weight) {
  if (Number.isNaN(weight)) return "–";
  if (weight === 0 || weight >= 0.00005) return weight.toFixed(4);
  return weight.toExponential(1).replace("-", "−");
}

/** A whole number in figures. @param {number} n @returns {string} */
export function many(n) {
  return n.toLocaleString("en");
}

/** A number of a table: four digits; a small one with a power of ten. @param {number} value @returns {string} */
export function fourDigits(value) {
  const rounded = Number(value.toPrecision(4));
  if (rounded === 0 || Math.abs(rounded) >= 0.001) return String(rounded).replace("-", "−");
  const [digits, power] = rounded.toExponential().split("e");
  const raised = [...power].map((each) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(each)]).join("");
  return `${digits.replace("-", "−")}·10${raised}`;
}

/** Say a text, unless it is said already. @param {HTMLElement} element @param {string} text */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * A button that is pressed or not.
 * @param {string} name @param {boolean} on @param {string} title @param {() => void} onclick
 * @param {boolean} [possible]
 */
export function toggle(name, on, title, onclick, possible = true) {
  return el("button", { type: "button", name, "aria-pressed": String(on), title, disabled: !possible, onclick }, name);
}

/** A title, and buttons that belong together. @param {string} title @param {string} about @param {...Child} buttons */
export function field(title, about, ...buttons) {
  return el("span", { class: "field" }, title,
    el("span", { class: "group", role: "group", "aria-label": about }, ...buttons));
}

/** Other children; what had the focus has it again, by its name. @param {HTMLElement} parent @param {Node[]} children */
export function refill(parent, children) {
  const { activeElement } = /** @type {Document | ShadowRoot} */ (parent.getRootNode());
  const name = activeElement !== null && parent.contains(activeElement) ? activeElement.getAttribute("name") : null;
  parent.replaceChildren(...children);
  if (name !== null) /** @type {HTMLElement | null} */ (parent.querySelector(`[name="${name}"]`))?.focus();
}

/**
 * The context of a canvas that is so many pixels of the page large, sharp on any screen.
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height
 * @returns {CanvasRenderingContext2D | null}
 */
export function contextOf(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** Draw in a rectangle only, until `restore`. @param {CanvasRenderingContext2D} context @param {number} x
 * @param {number} y @param {number} width @param {number} height */
export function clip(context, x, y, width, height) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
}
