"""Blocks to exercises: which matrix is which, and what belongs together."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cached_property

import numpy as np

from regard.worked.claims import add_claims
from regard.worked.exercise import HEAD_KINDS, Exercise, Matrix, Remark
from regard.worked.parts import LAYER_STEPS, MOMENTS
from regard.worked.rows import add_block, add_row, best_row, label_of, rows_agree, tokens_of
from regard.worked.settling import (
    clean,
    head_marks,
    is_title,
    kind_in_layer,
    may_join,
    refine_units,
    settle_ambiguous,
    settle_inputs,
    settle_layer,
)
from regard.written.found import Found, Value
from regard.written.layer_names import has_second
from regard.written.names import SYMBOLS, Name, is_other_name, name_of, named_kind
from regard.written.sentences import identities, says_causal, says_unscaled
from regard.written.source import Source, Unreadable
from regard.written.words import is_exponential

__all__ = ["assemble"]

_ASKED = "as asked for by --as"
_OF_QUERIES = ("scores", "scaled", "weights", "head_output", "output", *LAYER_STEPS)
_MOST_ROWS = 400  # that are written one by one
_MOST_SHARED = 20_000  # numbers that examples may have in common, times the examples
_OF_TOKENS = ("input", "embeddings", "query", "key", "value")
_OF_PAIRS = ("scores", "scaled", "weights")
_SECTION = re.compile(
    r"^\s{0,3}(?:#{1,6}\s|\d{1,3}[.)]\s+\S|(?:step|part|example|단계|예제|ধাপ|উদাহরণ)\s*\d)",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"^[\s#*_>]{0,8}(?:worked )?(?:example|case|variant|예제|উদাহরণ|beispiel|exemple|ejemplo|例)"
    r"[ #]{0,3}\d{1,3}\b.{0,80}$",
    re.IGNORECASE,
)


def assemble(
    source: Source, found: Found, taken_as: Mapping[str, str]
) -> tuple[list[Exercise], list[str], list[tuple[int, str]]]:
    """The exercises in what was found, in the order of the text, and questions about the rest.

    Those about matrices without a name come last, with their lines: nothing may depend on them.

    `taken_as` says what matrices are, by what the text calls them or by their line, overriding what
    their names say.
    """
    builder = _Builder(source, found, taken_as)
    for block in [b for b in found.values if not b.is_number or builder.is_of_norm(b)]:
        builder.place(block)
    builder.finish()
    return builder.exercises, builder.questions, builder.unnamed


class _Builder:
    def __init__(self, source: Source, found: Found, taken_as: Mapping[str, str]) -> None:
        self.source, self.found = source, found
        self.taken_as = {key.strip().casefold(): value for key, value in taken_as.items()}
        self.used: set[str] = set()
        self.statements = [value for value in found.values if value.is_number]
        self.main = Exercise(tokens=list(found.tokens))
        self.exercises = [self.main]
        self.side: Exercise | None = None  # an exercise of one section only
        # Where an exercise's part of the text starts; it ends where the next one does.
        self.starts, self.owners = [0], [self.main]
        self.heads = head_marks(found.lines) if found.is_prose else []
        self.head_starts = [start for start, _ in self.heads]
        self.sections = sorted(start for start, text in found.lines if _SECTION.match(text))
        self.examples = [start for start, text in found.lines if _EXAMPLE.match(text)]
        norm = re.compile(r"layer[ _-]?norm|\bLN\b|normali[sz]", re.IGNORECASE)
        self.speaks_of_norm = any(norm.search(text) for _, text in found.lines)
        self.example = 0  # how many headings “Example N” stand above
        self.preamble: dict[tuple[str, int | None], Matrix] = {}
        self.questions: list[str] = []
        self.unnamed: list[tuple[int, str]] = []
        self.later: list[tuple[Exercise, Value, Name]] = []  # vectors in passing

    # ── what a block is ──────────────────────────────────────────────────────────────────────

    def is_of_norm(self, statement: Value) -> bool:
        """`μ = 2.5`, `σ²_cat = 1.25`, `γ = 1`: numbers of a layer norm that the text speaks of."""
        name = name_of(statement.lead) if self.speaks_of_norm else None
        stem = name.kind.removesuffix("_2") if name is not None else ""
        # γ_1 = 1.5 may be a cell of γ, or the first γ.
        one_of_several = re.search(r"\d", statement.lead.partition("=")[0])
        parameter = stem in ("gamma", "beta") and not one_of_several
        statement.is_vector = stem in MOMENTS or parameter
        return statement.is_vector

    def place(self, block: Value) -> None:
        self._enter_example(block)
        if is_exponential(block.lead):
            return
        line = self.source.line(block.start)
        name, called, reason, by_title = self._name(block, line)
        if name is None:
            return
        total = sum(f.value for f in block.rows[0])
        if name.kind == "weights" and (
            all(f.value > 1 for row in block.rows for f in row)
            or (block.is_vector and total > 1.5 and called.casefold() in ("weight", "weights"))
        ):
            what = f"{called or 'numbers'} above 1, which are no weights"
            self.found.passed_over.append((block.start, what))
            return
        down = block.shape[1] == 1 < block.shape[0]
        key = self.main.get("key", name.head or 1)
        of_one_query = name.kind in _OF_PAIRS and (key is None or key.shape[0] > 1)
        if name.transposed or (down and (name.row is not None or of_one_query)):
            block.sentence = block.sentence or "".join(block.titles[:1])
            block.is_vector = block.shape[1] == 1
            block.rows = [list(column) for column in zip(*block.rows, strict=True)]
            block.row_labels, block.column_labels = block.column_labels, block.row_labels
        name = self._settle_head(name, block)
        refine_units(block)
        label = label_of(block, name, self.main, named_by_title=by_title)
        if block.is_vector and not block.is_assigned and reason != _ASKED:
            self.later.append((self._owner(block.start), block, name))
            return
        exercise = self._exercise(block, name, label)
        name = replace(name, kind=kind_in_layer(name.kind, block, exercise))
        if label is None and block.is_vector and name.kind in _OF_QUERIES:
            label = self._row_of_lone(block, name, exercise)
            if label == "":
                self.later.append((exercise, block, name))
                return
        key = (name.kind, name.head)
        before = exercise.matrices.get(key)
        if before is not None and label is None and not may_join(before, block, exercise):
            exercise, key = self._settle_second(block, name, exercise, line)
            if exercise is None:
                return
        matrix = exercise.matrices.setdefault(
            key, Matrix(*key, called=called, line=line, reason=reason)
        )
        if block.is_vector and matrix.shape[0] >= _MOST_ROWS:
            self.found.passed_over.append((block.start, f"more than {_MOST_ROWS} rows of a matrix"))
            return
        matrix.blocks += 1
        if block.is_vector and label and not label.isdigit() and name.kind in _OF_QUERIES:
            known = [token.casefold() for token in tokens_of(exercise)]
            matrix.is_plain &= not known or label.casefold() in known
        matrix.is_plain &= not by_title or is_title(block, called)
        try:
            add_block(self.source, exercise, matrix, block, label)
        except Unreadable as error:
            self.found.passed_over.append((block.start, str(error)))
            if not matrix.figures:
                del exercise.matrices[key]

    def _row_of_lone(self, block: Value, name: Name, exercise: Exercise) -> str | None:
        """Whose row a vector without a label is, where there are several queries.

        As many of them as there are queries come in order (None). A single one belongs to the one
        query whose scores are written out; else it is not known ("").
        """
        query = exercise.get("query", name.head) or exercise.get("input")
        n_queries = query.shape[0] if query is not None else 0
        if n_queries < 2:
            return None
        if self._vectors[name.kind] >= n_queries:
            return None
        return next(iter(self._rows_of_scores)) if len(self._rows_of_scores) == 1 else ""

    @cached_property
    def _vectors(self) -> Counter[str]:
        """How many vectors of a kind there are, by what stands left of them."""
        names = (name_of(value.lead) for value in self.found.values if value.is_vector)
        return Counter(name.kind for name in names if name is not None)

    @cached_property
    def _rows_of_scores(self) -> set[str]:
        names = (name_of(statement.lead) for statement in self.statements)
        return {n.row for n in names if n is not None and n.kind == "scores" and n.row}

    def _place_later(self, exercise: Exercise, block: Value, name: Name) -> None:
        """A vector in passing: printed again if it agrees with a row of its kind, else left out."""
        line = self.source.line(block.start)
        kinds = {"embeddings": ("input",), "output": ("head_output", "output")}
        for kind in (name.kind, *kinds.get(name.kind, ())):
            matrix = exercise.get(kind, name.head or 1)
            if matrix is None:
                continue
            label = label_of(block, name, exercise, named_by_title=False)
            row = best_row(matrix, block, label)
            if row is not None:
                add_row(matrix, row, block)
                return
        if block.is_assigned:
            self._ask(
                line,
                f"whose row of the {SYMBOLS[name.kind]} is this? For the token “the” write "
                f"{name.kind}_the = …, or say --as {line}={name.kind}_the.",
            )
        else:
            self.found.passed_over.append(
                (block.start, f"numbers in brackets, “{clean(block.lead)}”")
            )

    def _settle_head(self, name: Name, block: Value) -> Name:
        if name.kind == "output" and not block.is_vector and (name.row or "").isdigit():
            name = replace(name, kind="head_output")  # O₂
        head = self._head_at(block.start)
        if name.kind == "output" and head is not None and self._is_of_head(block, head):
            name = replace(name, kind="head_output")
        if name.kind not in HEAD_KINDS:
            return replace(name, head=None)
        if not block.is_vector and name.row is not None and name.row.isdigit():
            # A whole matrix Q₁ is the first head's, where a vector q₁ is the first token's.
            return replace(name, head=int(name.row), row=None)
        heads = (name.head, block.head, head, 1)
        return replace(name, head=next(head for head in heads if head is not None))

    def _is_of_head(self, block: Value, head: int) -> bool:
        """Whether an output below “Head 2” is that head's: before all heads are put together."""
        if {("concatenated", None), ("W_O", None)} & self.main.matrices.keys():
            return False
        before = self.main.get("head_output", head)
        rows = len(tokens_of(self.main)) if block.is_vector else 0
        return before is None or before.shape[0] < rows

    def _name(self, block: Value, line: int) -> tuple[Name | None, str, str, bool]:
        """The name of a block, what the text calls it, why, and whether a title named it."""
        nearest = block.titles[0] if block.titles else ""
        called = clean(block.lead) or clean(nearest)
        for key in (str(line), f"line {line}", clean(block.lead), clean(nearest)):
            if key and key.casefold() in self.taken_as:
                self.used.add(key.casefold())
                name = self._asked(self.taken_as[key.casefold()], block)
                return name, called, _ASKED, False
        titles = block.titles
        if is_other_name(block.lead) and not self._is_named_row(block):
            titles = []
        for text in (block.lead, *titles):
            name = name_of(text) if text else None
            if name is None:
                continue
            by_title = text is not block.lead
            if by_title:
                called = clean(text)
                name = replace(name, row=None, column=None)
            if not block.is_vector and name.row is not None and not name.row.isdigit():
                break  # X_a: whose?
            name, reason = settle_ambiguous(name, text, block)
            return name, called, reason, by_title
        if block.is_vector and not re.search(r"[=:>→]\s*[$\\(\s]*$", block.sentence):
            self.main.remarks.append(
                Remark(f"The numbers in brackets in line {line} were not taken for a matrix.")
            )
            return None, called, "", False
        rows, columns = block.shape
        title = f" “{called}”" if called else ""
        self._ask(line, f"what is the {rows}×{columns} matrix{title}?")
        self.unnamed.append((line, self.questions.pop()))
        return None, called, "", False

    def _is_named_row(self, block: Value) -> bool:
        """`dog = [0, 2]` below “Values”: if “dog” is a token, or another stands there like it."""
        word = clean(block.lead)
        title = name_of(block.titles[0]) if block.is_vector and block.titles else None
        if title is None or title.kind not in _OF_TOKENS or not word.isalpha():
            return False
        known = word.casefold() in (token.casefold() for token in tokens_of(self.main))
        return known or self._below[block.titles[0], block.shape[1]] > 1

    @cached_property
    def _below(self) -> Counter[tuple[str, int]]:
        """How many vectors with other names, of a length, stand below a title."""
        vectors = (v for v in self.found.values if v.is_vector and v.titles)
        return Counter((v.titles[0], v.shape[1]) for v in vectors if is_other_name(v.lead))

    def _ask(self, line: int, question: str) -> None:
        how = f" Say it with --as {line}=K (or Q, V, X, W_Q, scores, weights, …, ignore)."
        self.questions.append(f"line {line}: {question}" + ("" if "--as" in question else how))

    @staticmethod
    def _asked(wanted: str, block: Value) -> Name | None:
        if wanted.casefold() in ("ignore", "-", "none"):
            return None
        named = named_kind(wanted)
        if named is None:
            raise Unreadable(
                f"--as: there is no kind {wanted!r}. There are: "
                f"{', '.join(dict.fromkeys(SYMBOLS.values()))}, ignore."
            )
        own = name_of(block.lead)
        row = own.row if own is not None and block.is_vector else None
        return replace(named, row=named.row or row)

    def _head_at(self, offset: int) -> int | None:
        index = bisect_right(self.head_starts, offset)
        return self.heads[index - 1][1] if index else None

    # ── where it belongs ─────────────────────────────────────────────────────────────────────

    def _enter_example(self, block: Value) -> None:
        """A second heading “Example N” starts anew, with what stands above the first."""
        number = bisect_right(self.examples, block.start)
        if number == self.example:
            return
        if self.example == 0:
            shared = sum(len(matrix.figures) for matrix in self.main.matrices.values())
            if shared * len(self.examples) <= _MOST_SHARED:
                self.preamble = deepcopy(self.main.matrices)
        elif self.main.matrices:
            self.main = Exercise(deepcopy(self.preamble), tokens=list(self.found.tokens))
            self._open(self.main, block.start, to_section_end=False)
        self.example = number

    def _exercise(self, block: Value, name: Name, label: str | None) -> Exercise:
        if self._owner(block.start) is not self.side:
            self.side = None
        if self.side is not None and not name.kind.startswith("W_"):
            return self.side
        main = self.main
        if label is None and self._is_aside(block, name, main):
            self.side = Exercise()
            self._open(self.side, block.start, to_section_end=True)
            return self.side
        before = main.matrices.get((name.kind, name.head))
        starts_anew = name.kind in ("input", "embeddings") and label is None
        if starts_anew and before is not None and not rows_agree(before, block):
            self._start_anew(block)
        return self.main

    def _start_anew(self, block: Value) -> None:
        self.main = Exercise()
        self._open(self.main, block.start, to_section_end=False)

    def _settle_second(
        self, block: Value, name: Name, exercise: Exercise, line: int
    ) -> tuple[Exercise, tuple[str, int | None]] | tuple[None, tuple[str, int | None]]:
        """A second matrix of a kind, with other numbers: another step or example, or asked."""
        key = (name.kind, name.head)
        before = exercise.matrices[key]
        words = " ".join([block.lead, *block.titles[:1]])
        scaled = ("scaled", name.head)
        if (
            name.kind == "scores"
            and scaled not in exercise.matrices
            and re.search(r"mask|scal|divid|√|sqrt|마스|스케일|মাস্ক|স্কেল", words, re.IGNORECASE)
        ):
            return exercise, scaled
        if name.kind == "weights" and says_unscaled(f"{words} {before.called}"):
            # The softmax with and without scaling, side by side: both are checked.
            variant = Exercise(dict(exercise.matrices), list(exercise.tokens))
            variant.borrowed = set(variant.matrices) - {key}
            del variant.matrices[key]
            variant.d_k, variant.says_unscaled = exercise.d_k, says_unscaled(words)
            self.exercises.append(variant)
            return variant, key
        second = (f"{name.kind}_2", None)
        if has_second(name.kind) and second not in exercise.matrices:
            return exercise, second
        section = bisect_right(self.sections, block.start)
        if name.kind in ("query", "key") and section != bisect_right(
            self.sections, before.figures[min(before.figures)][0].start
        ):
            self._start_anew(block)
            return self.main, key
        exercise.rivals.add(name.kind)
        self._ask(
            line,
            f"{before.symbol} is printed in line {before.line} already, with other numbers. "
            "What is this one?",
        )
        return None, key

    def _open(self, exercise: Exercise, offset: int, *, to_section_end: bool) -> None:
        section = bisect_right(self.sections, offset)
        start = self.sections[section - 1] if section else offset
        parts = [(start, exercise)]
        if to_section_end and section < len(self.sections):
            end = self.sections[section]
            parts.append((end, self._owner(end)))
        index = bisect_left(self.starts, start)
        self.starts[index:], self.owners[index:] = map(list, zip(*parts, strict=True))
        self.exercises.append(exercise)

    def _owner(self, offset: int) -> Exercise:
        return self.owners[bisect_right(self.starts, offset) - 1]

    @staticmethod
    def _is_aside(block: Value, name: Name, main: Exercise) -> bool:
        """A lone query among several tokens, which names none of them: an example within."""
        of_tokens = main.matrices.get(("input", None)) or main.matrices.get(("embeddings", None))
        return (
            block.is_vector
            and name.kind == "query"
            and of_tokens is not None
            and max(len(of_tokens.row_labels), of_tokens.shape[0]) > 1
        )

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    def finish(self) -> None:
        unused = set(self.taken_as) - self.used
        if unused:
            raise Unreadable(
                f"--as {unused.pop()}=…: there is no matrix of that name, or at that line. "
                "Its name is what stands left of it or above it."
            )
        self.exercises = [e for e in self.exercises if e.matrices] or self.exercises[:1]
        for exercise in self.exercises:
            settle_inputs(exercise)
        for exercise, block, name in self.later:
            self._place_later(exercise, block, name)
        if not self.examples:
            own = (e for e in self.exercises if not e.borrowed)
            kinds = Counter(kind for e in own for kind in {kind for kind, _ in e.matrices})
            for exercise in self.exercises:
                exercise.rivals |= {kind for kind, _ in exercise.matrices if kinds[kind] > 1}
        main = self.exercises[0]
        text = "\n".join(line for _, line in self.found.lines)
        for kind in identities(text):
            if (kind, 1) not in main.matrices and main.get("input") is not None:
                width = main.matrices[("input", None)].shape[1]
                called = "the identity, as the text says"
                main.matrices[(kind, 1)] = Matrix(
                    kind, 1, shape=(width, width), called=called, exact=np.eye(width)
                )
        lines: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        statements: defaultdict[int, list[Value]] = defaultdict(list)
        for line in self.found.lines:
            lines[id(self._owner(line[0]))].append(line)
        for statement in self.statements:
            statements[id(self._owner(statement.start))].append(statement)
        borrows = any(e.borrowed for e in self.exercises)
        for exercise in self.exercises:
            own = lines[id(exercise)]
            text = "\n".join(line for _, line in own)
            if not borrows:
                exercise.says_unscaled = says_unscaled(text)
            exercise.says_causal = says_causal(text)
            add_claims(self.source, own, statements[id(exercise)], exercise, self._head_at)
            settle_layer(exercise, text)
