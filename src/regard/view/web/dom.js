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
    .replace(/[\u0000-\u001f\u007f-\u009f\u200b\u2028-\u202e\u2060-\u2069\ufeff]/g, "·");
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
