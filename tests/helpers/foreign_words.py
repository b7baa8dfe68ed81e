"""What a Korean or Bengali page says that is not in its language: runs of Latin letters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

__all__ = ["LISTEN", "authored", "foreign", "pieces", "said"]

# Remembers what is written on canvases, from the beginning of a page.
LISTEN = """
window.penned = new Set();
const plain = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    window.penned.add(String(text));
    return plain.call(this, text, ...rest);
};
"""
_SAID = """() => {
    const found = new Set(window.penned);
    const own = document.documentElement.lang;
    const names = ["aria-label", "title", "placeholder", "label", "aria-valuetext",
        "aria-roledescription", "aria-description"];
    const walk = (node, lang) => {
        if (node.nodeType === Node.TEXT_NODE && lang === own) found.add(node.data.trim());
        if (node instanceof Element) {
            if (["SCRIPT", "STYLE", "NOSCRIPT", "TEXTAREA"].includes(node.tagName)) return;
            lang = node.getAttribute("lang") ?? lang;
            if (lang === own) for (const name of names) found.add(node.getAttribute(name) ?? "");
            if (node.shadowRoot) walk(node.shadowRoot, lang);
        }
        for (const child of node.childNodes) walk(child, lang);
    };
    walk(document.querySelector("title"), own);
    walk(document.body, own);
    return [...found];
}"""
_TEXT = re.compile(r'^  "([\w. ]+)": "((?:[^"\\]|\\.)*)",$', re.M)
_FORMULAS = ("flow.formula.",)  # which are English in every table
_WORD = re.compile(r"[A-Za-z][A-Za-z’']+")


def said(page: Any) -> set[str]:
    """All that a page of Playwright shows or speaks now: texts, names and titles, what is drawn on
    canvases; not what is marked as another language.
    """
    return set(page.evaluate(_SAID)) - {""}


def authored(language: str) -> list[str]:
    """The parts of the texts of a language that have Latin letters in them, longest first."""
    source = files("regard.view").joinpath("web", f"words_{language}.js").read_text("utf-8")
    texts = [text for key, text in _TEXT.findall(source) if not key.startswith(_FORMULAS)]
    return pieces(part for text in texts for part in re.split(r"\{\w+\}", text))


def pieces(texts: Iterable[str]) -> list[str]:
    """Texts with Latin letters as a page has them: indices, as of W_Q, stand by themselves."""
    parts = {part.strip() for text in texts for part in re.split(r"(?<=\b[A-Za-z])_(\w+)", text)}
    return sorted((part for part in parts if _WORD.search(part)), key=len, reverse=True)


def foreign(texts: Iterable[str], own: Iterable[str], allowed: Iterable[str]) -> dict[str, str]:
    """Latin words of `texts`, each with one of them, that are no part of an `own` text, and not
    `allowed`.

    >>> foreign(["헤드 1", "head 1", "Enter를 누르면"], ["Enter를 누르면"], ["softmax"])
    {'head': 'head 1'}
    """
    own, known = list(own), {word.casefold() for word in allowed}
    found: dict[str, str] = {}
    for text in texts:
        rest = re.sub(r"\w+(\.\w+)+", " ", text)  # names of modules
        for part in own:
            rest = rest.replace(part, " ")
        for word in _WORD.findall(rest):
            if word.casefold() not in known:
                found.setdefault(word, text)
    return found
