"""Blocks to exercises: which matrix is which, and what belongs together."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cached_property

import numpy as np

from regard.worked.claims import add_claims
from regard.worked.exercise import HEAD_KINDS, OF_PAIRS, Exercise, Key, Matrix
from regard.worked.naming import ASKED, Naming
from regard.worked.parts import LAYER_STEPS, MOMENTS
from regard.worked.rows import add_block, best_row, put, rows_agree, tokens_of
from regard.worked.settling import kind_in_layer, may_join, settle_inputs, settle_layer
from regard.written.found import Found, Value
from regard.written.labels import label_of
from regard.written.layer_names import has_second
from regard.written.names import SYMBOLS, Name, clean, name_of
from regard.written.outline import Outline
from regard.written.sentences import identities, says_causal, says_unscaled
from regard.written.source import Source, Unreadable
from regard.written.words import is_exponential, is_supposed

__all__ = ["assemble"]

_OF_QUERIES = (*OF_PAIRS, "head_output", "output", *LAYER_STEPS)
_MOST_ROWS = 400  # that are written one by one
_MOST_SHARED = 20_000  # numbers that examples may have in common, times the examples


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
        self.naming = Naming(found.values, taken_as)
        self.statements = [value for value in found.values if value.is_number]
        self.main = Exercise(tokens=list(found.tokens))
        self.exercises = [self.main]
        self.side: Exercise | None = None  # an exercise of one section only
        self.outline = Outline(found, self.main)
        text = "\n".join(line for _, line in found.lines).casefold()
        may_speak = "norm" in text or "ln" in text
        norm = r"layer[ _-]?norm|normali[sz]|\bln\b"
        self.speaks_of_norm = may_speak and bool(re.search(norm, text))
        self.example = 0  # how many headings “Example N” stand above
        self.preamble: dict[Key, Matrix] = {}
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
        called = self.naming.of(block, line, self.main)
        if called is None:
            self._leave_unnamed(block, line)
            return
        name = called.name
        if name is None:
            return
        if name.kind == "weights" and _is_above_one(block, called.text):
            self._pass_over(block, f"{called.text or 'numbers'} above 1, which are no weights")
            return
        key = self.main.get("key", name.head or 1)
        of_one_query = name.kind in OF_PAIRS and (key is None or key.shape[0] > 1)
        down = block.shape[1] == 1 < block.shape[0]
        if name.transposed or (down and (name.row is not None or of_one_query)):
            block.sentence = block.sentence or "".join(block.titles[:1])
            block.is_vector = block.shape[1] == 1
            block.rows = [list(column) for column in zip(*block.rows, strict=True)]
            block.row_labels, block.column_labels = block.column_labels, block.row_labels
        name = self._settle_head(name, block)
        label = label_of(block, name, tokens_of(self.main), named_by_title=called.by_title)
        if block.is_vector and not block.is_assigned and called.reason != ASKED:
            self.later.append((self.outline.owner(block.start), block, name))
            return
        exercise = self._exercise(block, name, label)
        name = replace(name, kind=kind_in_layer(name.kind, block, exercise))
        if label is None and block.is_vector and name.kind in _OF_QUERIES:
            label = self._row_of_lone(name, exercise)
            if label == "":
                self.later.append((exercise, block, name))
                return
        key = (name.kind, name.head)
        before = exercise.matrices.get(key)
        if before is not None and label is None and not may_join(before, block, exercise):
            second = self._settle_second(block, name, exercise, line)
            if second is None:
                return
            exercise, key = second
        matrix = exercise.matrices.setdefault(
            key, Matrix(*key, called=called.text, line=line, reason=called.reason)
        )
        if block.is_vector and matrix.shape[0] >= _MOST_ROWS:
            self._pass_over(block, f"more than {_MOST_ROWS} rows of a matrix")
            return
        if name.kind == "weights" and is_supposed(block.announced):
            exercise.apart.add(key)
        matrix.blocks += 1
        matrix.is_plain &= called.is_plain
        if block.is_vector and label and not label.isdigit() and name.kind in _OF_QUERIES:
            known = [token.casefold() for token in tokens_of(exercise)]
            matrix.is_plain &= not known or label.casefold() in known
        try:
            add_block(self.source, exercise, matrix, block, label)
        except Unreadable as error:
            self._pass_over(block, str(error))
            if not matrix.figures:
                del exercise.matrices[key]

    def _leave_unnamed(self, block: Value, line: int) -> None:
        if block.is_vector and not re.search(r"[=:>→]\s*[$\\(\s]*$", block.sentence):
            remark = f"The numbers in brackets in line {line} were not taken for a matrix."
            self.main.remarks.append(remark)
            return
        rows, columns = block.shape
        called = clean(block.lead) or clean("".join(block.titles[:1]))
        title = f" “{called}”" if called else ""
        self.unnamed.append((line, _question(line, f"what is the {rows}×{columns} matrix{title}?")))

    def _pass_over(self, block: Value, what: str) -> None:
        self.found.passed_over.append((block.start, what))

    def _row_of_lone(self, name: Name, exercise: Exercise) -> str | None:
        """Whose row a vector without a label is, where there are several queries.

        As many of them as there are queries come in order (None). A single one belongs to the one
        query whose scores are written out; else it is not known ("").
        """
        query = exercise.get("query", name.head) or exercise.get("input")
        n_queries = query.shape[0] if query is not None else 0
        if n_queries < 2 or self._vectors[name.kind] >= n_queries:
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
        kinds = {"embeddings": ("input",), "output": ("head_output", "output")}
        label = label_of(block, name, tokens_of(exercise), named_by_title=False)
        for kind in (name.kind, *kinds.get(name.kind, ())):
            matrix = exercise.get(kind, name.head or 1)
            row = best_row(matrix, block, label) if matrix is not None else None
            if matrix is not None and row is not None:
                put(matrix, [row], range(block.shape[1]), block)
                return
        if block.is_assigned:
            line = self.source.line(block.start)
            question = f"whose row of the {SYMBOLS[name.kind]} is this? For the token “the” write "
            how = f"{name.kind}_the = …, or say --as {line}={name.kind}_the."
            self.questions.append(_question(line, question + how))
        else:
            self._pass_over(block, f"numbers in brackets, “{clean(block.lead)}”")

    def _settle_head(self, name: Name, block: Value) -> Name:
        head = self.outline.head(block.start)
        if name.kind == "output" and (
            (not block.is_vector and (name.row or "").isdigit())  # O₂
            or (head is not None and self._is_of_head(block, head))
        ):
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

    # ── where it belongs ─────────────────────────────────────────────────────────────────────

    def _enter_example(self, block: Value) -> None:
        """A second heading “Example N” starts anew, with what stands above the first."""
        number = self.outline.example(block.start)
        if number == self.example:
            return
        if self.example == 0:
            shared = sum(len(matrix.figures) for matrix in self.main.matrices.values())
            if shared * self.outline.n_examples <= _MOST_SHARED:
                self.preamble = deepcopy(self.main.matrices)
            else:
                self.found.remarks.append(
                    f"The {shared} numbers above the first of {self.outline.n_examples} examples "
                    "were taken for the first example's alone: they are too many to be shared."
                )
        elif self.main.matrices:
            self._start_anew(block, Exercise(deepcopy(self.preamble), list(self.found.tokens)))
        self.example = number

    def _start_anew(self, block: Value, exercise: Exercise | None = None) -> None:
        self.main = exercise or Exercise()
        self._add(self.main, block, to_section_end=False)

    def _add(self, exercise: Exercise, block: Value, *, to_section_end: bool) -> None:
        self.outline.give(exercise, block.start, to_section_end=to_section_end)
        self.exercises.append(exercise)

    def _exercise(self, block: Value, name: Name, label: str | None) -> Exercise:
        if self.outline.owner(block.start) is not self.side:
            self.side = None
        if self.side is not None and not name.kind.startswith("W_"):
            return self.side
        if label is None and self._is_aside(block, name):
            self.side = Exercise()
            self._add(self.side, block, to_section_end=True)
            return self.side
        before = self.main.matrices.get((name.kind, name.head))
        starts_anew = name.kind in ("input", "embeddings") and label is None
        if starts_anew and before is not None and not rows_agree(before, block):
            self._start_anew(block)
        return self.main

    def _is_aside(self, block: Value, name: Name) -> bool:
        """A lone query among several tokens, which names none of them: an example within."""
        of_tokens = self.main.get("input") or self.main.get("embeddings")
        return (
            block.is_vector
            and name.kind == "query"
            and of_tokens is not None
            and max(len(of_tokens.row_labels), of_tokens.shape[0]) > 1
        )

    def _settle_second(
        self, block: Value, name: Name, exercise: Exercise, line: int
    ) -> tuple[Exercise, Key] | None:
        """A second matrix of a kind, with other numbers: another step or example, or asked."""
        key = (name.kind, name.head)
        before = exercise.matrices[key]
        words = " ".join([block.lead, *block.titles[:1]])
        scaled, second = ("scaled", name.head), (f"{name.kind}_2", None)
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
        if has_second(name.kind) and second not in exercise.matrices:
            return exercise, second
        section, section_before = map(self.outline.section, (block.start, before.start))
        if name.kind in ("query", "key") and section != section_before:
            self._start_anew(block)
            return self.main, key
        exercise.rivals.add(name.kind)
        printed = f"{before.symbol} is printed in line {before.line} already, with other numbers. "
        self.questions.append(_question(line, printed + "What is this one?"))
        return None

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    def finish(self) -> None:
        self.naming.must_be_used()
        self.exercises = [e for e in self.exercises if e.matrices] or self.exercises[:1]
        for exercise in self.exercises:
            settle_inputs(exercise)
        for exercise, block, name in self.later:
            self._place_later(exercise, block, name)
        if not self.outline.n_examples:
            own = (e for e in self.exercises if not e.borrowed)
            kinds = Counter(kind for e in own for kind in {kind for kind, _ in e.matrices})
            for exercise in self.exercises:
                exercise.rivals |= {kind for kind, _ in exercise.matrices if kinds[kind] > 1}
        self._add_identities(self.exercises[0])
        lines: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        statements: defaultdict[int, list[Value]] = defaultdict(list)
        for line in self.found.lines:
            lines[id(self.outline.owner(line[0]))].append(line)
        for statement in self.statements:
            statements[id(self.outline.owner(statement.start))].append(statement)
        borrows = any(e.borrowed for e in self.exercises)
        for exercise in self.exercises:
            own = lines[id(exercise)]
            text = "\n".join(line for _, line in own)
            if not borrows:
                exercise.says_unscaled = says_unscaled(text)
            exercise.says_causal = says_causal(text)
            add_claims(self.source, own, statements[id(exercise)], exercise, self.outline.head)
            settle_layer(exercise, text)

    def _add_identities(self, main: Exercise) -> None:
        """What is not printed, but said to be the identity."""
        x = main.get("input")
        if x is None:
            return
        unit, called = np.eye(x.shape[1]), "the identity, as the text says"
        for kind in identities("\n".join(line for _, line in self.found.lines)):
            matrix = Matrix(kind, 1, shape=unit.shape, called=called, exact=unit)
            main.matrices.setdefault(matrix.key, matrix)


def _question(line: int, question: str) -> str:
    how = f" Say it with --as {line}=K (or Q, V, X, W_Q, scores, weights, …, ignore)."
    return f"line {line}: {question}" + ("" if "--as" in question else how)


def _is_above_one(block: Value, called: str) -> bool:
    total = sum(figure.value for figure in block.rows[0])
    is_named_so = block.is_vector and called.casefold() in ("weight", "weights")
    return all(figure.value > 1 for figure in block.figures) or (is_named_so and total > 1.5)
