// A view as a picture: what an element shows, as SVG or PNG, from what is drawn already.

import { el, svg } from "./dom.js";
import { word } from "./words.js";

/** @typedef {HTMLElement & { root: ShadowRoot }} Pictured */

const SCALE = 3; // pixels of a PNG for each on the screen: about 300 to the inch

/**
 * What an element shows, as the text of an SVG file. Letters stay letters; what is drawn on a canvas
 * becomes an image.
 * @param {Pictured} element
 * @returns {string}
 */
export function pictureOf(element) {
  const { width, height } = element.getBoundingClientRect();
  const copy = el("div", { class: "host" });
  for (const child of element.root.childNodes) copy.append(clone(child));
  const style = el("style", {}, element.root.adoptedStyleSheets.map(rules).join("\n"));
  const page = getComputedStyle(document.body);
  const [across, down] = [Math.ceil(width), Math.ceil(height)];
  const body = el("body", { style: `margin:0;background:${page.backgroundColor};color:${page.color}` });
  body.append(style, copy);
  const frame = svg("svg", { width: across, height: down, viewBox: `0 0 ${across} ${down}` },
    svg("foreignObject", { width: "100%", height: "100%" }, body));
  return new XMLSerializer().serializeToString(frame);
}

/** The rules of a sheet, for a picture: those that follow the system say what it is now.
 * @param {CSSStyleSheet} sheet @returns {string} */
function rules(sheet) {
  const texts = [];
  for (const rule of sheet.cssRules) {
    if (rule instanceof CSSMediaRule) {
      if (!matchMedia(rule.conditionText).matches) continue;
      texts.push(...[...rule.cssRules].map((each) => each.cssText));
    } else texts.push(rule.cssText);
  }
  // What was a canvas is an image in the picture.
  const all = texts.join("\n").replace(/(^|[\s>+~,}])canvas\b/g, "$1img");
  return all.replaceAll(":host([hidden])", ".none").replaceAll(":host", ".host").replaceAll(":root", ".host");
}

/** A copy of a node: canvases as images, fields as what is in them, scrolled as it is.
 * @param {Node} node @returns {Node} */
function clone(node) {
  if (node instanceof HTMLCanvasElement) {
    const { width, height } = node.getBoundingClientRect();
    return el("img", {
      src: node.width > 0 && node.height > 0 ? node.toDataURL("image/png") : "data:,",
      class: node.className,
      style: `${node.style.cssText};width:${width}px;height:${height}px;image-rendering:${getComputedStyle(node).imageRendering}`,
    });
  }
  const copy = node.cloneNode(false);
  for (const child of node.childNodes) copy.appendChild(clone(child));
  if (copy instanceof HTMLInputElement && node instanceof HTMLInputElement) {
    copy.setAttribute("value", node.value);
    if (node.checked) copy.setAttribute("checked", "");
  }
  if (node instanceof HTMLElement && copy instanceof HTMLElement && (node.scrollTop > 0 || node.scrollLeft > 0)) {
    for (const child of copy.children) {
      /** @type {HTMLElement} */ (child).style.transform = `translate(${-node.scrollLeft}px, ${-node.scrollTop}px)`;
    }
  }
  return copy;
}

/** The same as the bytes of a PNG. @param {string} picture @returns {Promise<Blob>} */
export async function asPng(picture) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture)}`;
  await image.decode();
  const canvas = el("canvas", { width: image.width * SCALE, height: image.height * SCALE });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob === null ? reject(new Error(word("save.too_large"))) : resolve(blob)), "image/png");
  });
}

/** Hand a file to the reader. @param {Blob} blob @param {string} name */
function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Buttons that save what is shown now. PDF is what the browser's print dialog makes.
 * @param {() => (Pictured & { pictured?: Pictured }) | null} shown `pictured` is the part of it that is saved, if not all
 * @param {() => string} name of the file, without its ending
 * @returns {HTMLElement}
 */
export function saveButtons(shown, name) {
  const said = el("span", { class: "error", role: "alert" });
  const button = (/** @type {string} */ title, /** @type {string} */ words, /** @type {(picture: string) => Promise<void> | void} */ work) =>
    el("button", {
      title: words, "aria-label": words,
      onclick: async () => {
        const element = shown()?.pictured ?? shown();
        if (element === null) return;
        try {
          said.textContent = "";
          await work(pictureOf(element));
        } catch (error) {
          said.textContent = word("save.failed", { why: error instanceof Error ? error.message : error });
        }
      },
    }, title);
  return el("span", { class: "group save", role: "group", "aria-label": word("save.view") },
    button("SVG", word("save.svg"), (picture) => download(new Blob([picture], { type: "image/svg+xml" }), `${name()}.svg`)),
    button("PNG", word("save.png"), async (picture) => download(await asPng(picture), `${name()}.png`)),
    el("button", { title: word("save.pdf"), "aria-label": word("save.pdf"), onclick: () => print() }, "PDF"),
    said);
}

/** What is left out when a page is printed: all but the view. */
export const PRINTED = `
@media print {
  .controls, [role="tablist"], .save, details, header.top, nav { display: none !important; }
  main { max-width: none; padding: 0; }
}
`;
