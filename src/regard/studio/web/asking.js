// Asking the studio: JSON or arrays, and its errors as words.

import { word } from "./words.js";

/** An answer that is an error, in words for the reader: Python's, which are English, or the page's own. */
export class Refused extends Error {
  /** @param {string} words @param {boolean} [english] */
  constructor(words, english = false) {
    super(words);
    this.english = english;
  }
}

/** @param {Response} response @returns {Promise<Response>} */
async function checked(response) {
  if (response.ok) return response;
  const text = await response.text();
  let words = text;
  try {
    words = JSON.parse(text).error ?? text;
  } catch {
    // The guard speaks plain text.
  }
  if (typeof words === "string" && words !== "") throw new Refused(words, true);
  throw new Refused(word("asking.status", { status: response.status }));
}

/** @param {string} path @param {RequestInit} [options] @returns {Promise<Response>} */
async function fetched(path, options) {
  try {
    return await checked(await fetch(path, { credentials: "same-origin", ...options }));
  } catch (error) {
    if (error instanceof TypeError) throw new Refused(word("asking.silent"));
    throw error;
  }
}

/** What a path says. @param {string} path @returns {Promise<any>} */
export async function ask(path) {
  return (await fetched(path)).json();
}

/** Tell the studio something. @param {string} path @param {object} [body] @param {string} [method]
 * @returns {Promise<any>} */
export async function tell(path, body = {}, method = "POST") {
  const headers = { "content-type": "application/json" };
  return (await fetched(path, { method, headers, body: JSON.stringify(body) })).json();
}

/** An array. @template {Float32ArrayConstructor | Float64ArrayConstructor} [T=Float32ArrayConstructor]
 * @param {string} path @param {Record<string, string | number | null>} question @param {T} [type] of its numbers
 * @returns {Promise<{ values: InstanceType<T>, shape: number[], block: number[], rest: number }>} */
export async function numbers(path, question, type) {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(question)) if (value !== null) said.set(name, String(value));
  const response = await fetched(`${path}?${said}`);
  const rest = response.headers.get("x-rest");
  const sizes = (/** @type {string} */ name) => (response.headers.get(name) ?? "").split(",").map(Number);
  return {
    values: /** @type {InstanceType<T>} */ (new (type ?? Float32Array)(await response.arrayBuffer())),
    shape: sizes("x-shape"),
    block: sizes("x-block"),
    rest: rest === null || rest === "" ? NaN : Number(rest),
  };
}
