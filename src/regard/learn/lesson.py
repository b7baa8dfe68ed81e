"""A lesson: Markdown with blocks of TOML for what is alive in it, as JSON for the page.

Fences name the block: `flow` and `steps` show a worked example, `lab` an experiment, `try` is
something to play with, `question` asks, and its answers say why. All else is plain Markdown:
headings, paragraphs, lists, tables; bold, emphasis and code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

Run = dict[str, str]  # a piece of text and its style: "", "strong", "em", "code"
Block = dict[str, Any]

# What a block of each kind must have, and may have.
_BLOCKS: dict[str, tuple[set[str], set[str]]] = {
    "flow": ({"example", "caption"}, {"step", "token", "head", "changes"}),
    "steps": ({"example", "step", "caption"}, {"cell", "head"}),
    "lab": ({"experiment"}, set()),
    "try": ({"what", "caption"}, {"words", "scores"}),
    "question": ({"ask", "answers"}, set()),
}
_STYLES = {"strong_open": "strong", "em_open": "em"}


@dataclass(frozen=True)
class Lesson:
    """Its title, and its blocks in order."""

    name: str
    title: str
    blocks: Sequence[Block]

    def uses(self, kind: str, name: str) -> list[str]:
        """What its blocks of a kind name, once each: `uses("lab", "experiment")`."""
        return list(dict.fromkeys(each[name] for each in self.blocks if each["kind"] == kind))


def read(name: str, text: str) -> Lesson:
    """The lesson that a text is. Raises ValueError where a block is not what it must be.

    >>> found = read("one", "# Scores\\n\\nA *dot* product.\\n")
    >>> found.title, found.blocks[0]["runs"][1]
    ('Scores', {'text': 'dot', 'style': 'em'})
    """
    tokens = _parser().parse(text)
    blocks: list[Block] = []
    at = 0
    while at < len(tokens):
        block, at = _block(name, tokens, at)
        if block is not None:
            blocks.append(block)
    if not blocks or blocks[0]["kind"] != "heading" or blocks[0]["level"] != 1:
        raise ValueError(f"lesson {name}: it must begin with a title, “# …”.")
    return Lesson(name, "".join(run["text"] for run in blocks[0]["runs"]), blocks[1:])


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def runs(text: str) -> list[Run]:
    """A line of Markdown as pieces of text.

    >>> runs("divide by **√dₖ**")
    [{'text': 'divide by ', 'style': ''}, {'text': '√dₖ', 'style': 'strong'}]
    """
    return _runs(_parser().parseInline(text)[0])


def _runs(inline: Token) -> list[Run]:
    found: list[Run] = []
    style = ""
    for token in inline.children or []:
        if token.type in _STYLES:
            style = _STYLES[token.type]
        elif token.type in ("strong_close", "em_close"):
            style = ""
        elif token.type == "softbreak":
            found.append({"text": " ", "style": style})
        elif token.type in ("text", "code_inline"):
            kind = "code" if token.type == "code_inline" else style
            if token.content:
                found.append({"text": token.content, "style": kind})
        else:
            raise ValueError(f"lesson: {token.type} is not known in a line: {inline.content!r}.")
    return found


def _block(name: str, tokens: list[Token], at: int) -> tuple[Block | None, int]:
    """The block that begins here, and where the next one does."""
    token = tokens[at]
    if token.type == "heading_open":
        level = int(token.tag[1:])
        return {"kind": "heading", "level": level, "runs": _runs(tokens[at + 1])}, at + 3
    if token.type == "paragraph_open":
        return {"kind": "paragraph", "runs": _runs(tokens[at + 1])}, at + 3
    if token.type in ("bullet_list_open", "ordered_list_open"):
        end = _close(tokens, at)
        items = [_runs(each) for each in tokens[at:end] if each.type == "inline"]
        return {"kind": "list", "ordered": token.tag == "ol", "items": items}, end + 1
    if token.type == "table_open":
        end = _close(tokens, at)
        return _table(tokens[at:end]), end + 1
    if token.type == "fence":
        return _alive(name, token.info.strip(), token.content), at + 1
    raise ValueError(f"lesson {name}: {token.type} is not known.")


def _close(tokens: list[Token], at: int) -> int:
    level, kind = tokens[at].level, tokens[at].type.replace("_open", "_close")
    return next(
        n for n in range(at, len(tokens)) if tokens[n].type == kind and tokens[n].level == level
    )


def _table(tokens: list[Token]) -> Block:
    rows: list[list[list[Run]]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_runs(token))
    return {"kind": "table", "head": rows[0], "rows": rows[1:]}


def _alive(name: str, kind: str, content: str) -> Block:
    """A fence of TOML."""
    if kind not in _BLOCKS:
        raise ValueError(f"lesson {name}: a block must be {', '.join(_BLOCKS)}; got {kind!r}.")
    said = tomllib.loads(content)
    needed, allowed = _BLOCKS[kind]
    if not needed <= set(said) <= needed | allowed:
        raise ValueError(
            f"lesson {name}: a block {kind} needs {', '.join(sorted(needed))}; got "
            f"{', '.join(sorted(said))}."
        )
    if kind == "question":
        answers: list[dict[str, Any]] = [
            {
                "runs": runs(each["text"]),
                "right": bool(each.get("right", False)),
                "why": runs(each["why"]),
            }
            for each in said["answers"]
        ]
        if sum(each["right"] for each in answers) != 1:
            raise ValueError(f"lesson {name}: one answer must be right: {said['ask']!r}.")
        return {"kind": kind, "ask": runs(said["ask"]), "answers": answers}
    if "caption" in said:
        said["caption"] = runs(said["caption"])
    return {"kind": kind, **said}
