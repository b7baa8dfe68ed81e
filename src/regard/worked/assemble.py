"""Blocks to exercises: which matrix is which, which row is whose, what belongs together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from regard.worked.blocks import Block, Found
from regard.worked.claims import add_claims, identities, says_causal, says_unscaled
from regard.worked.exercise import HEAD_KINDS, Exercise, Matrix, Remark
from regard.worked.names import SYMBOLS, Name, head_in, name_of, named_kind, plain
from regard.worked.source import Source, Unreadable

__all__ = ["assemble"]

_SQUARE = ("scores", "scaled", "weights")  # kinds whose columns are tokens
_SECTION = re.compile(
    r"^\s{0,3}(?:#{1,6}\s|\d+[.)]\s+\S|(?:step|part|example|단계|예제|ধাপ|উদাহরণ)\s*\d)",
    re.IGNORECASE,
)


def assemble(
    source: Source, found: Found, taken_as: Mapping[str, str]
) -> tuple[list[Exercise], list[str]]:
    """The exercises in what was found, in the order of the text, and questions about the rest.

    `taken_as` says what matrices are, by what the text calls them or by their line, overriding what
    their names say.
    """
    builder = _Builder(source, found, taken_as)
    for block in found.blocks:
        builder.place(block)
    builder.finish()
    return builder.exercises, builder.questions


class _Builder:
    def __init__(self, source: Source, found: Found, taken_as: Mapping[str, str]) -> None:
        self.source, self.found = source, found
        self.taken_as = {key.strip().casefold(): value for key, value in taken_as.items()}
        self.used: set[str] = set()
        self.main = Exercise(tokens=list(found.tokens))
        self.exercises = [self.main]
        self.side: Exercise | None = None  # an exercise of one section only
        self.spans = [(0, len(source.text), self.exercises[0])]  # the last that holds decides
        self.heads = _head_marks(source) if found.is_prose else []
        self.sections = [
            m.start()
            for m in re.finditer(r"^.*$", source.text, re.MULTILINE)
            if _SECTION.match(m[0])
        ]
        self.questions: list[str] = []

    # ── what a block is ──────────────────────────────────────────────────────────────────────

    def place(self, block: Block) -> None:
        line = self.source.line(block.start)
        name, called, reason = self._name(block, line)
        if name is None:
            return
        if name.head is None and name.kind in HEAD_KINDS:
            name = replace(name, head=block.head or self._head_at(block.start) or 1)
        if name.kind not in HEAD_KINDS:
            name = replace(name, head=None)
        if name.transposed:
            block.rows = [list(column) for column in zip(*block.rows, strict=True)]
            block.row_labels, block.column_labels = block.column_labels, block.row_labels
        if not block.is_vector and name.row is not None and name.row.isdigit():
            # A whole matrix Q₁ is the first head's, where a vector q₁ is the first token's.
            head = int(name.row) if name.kind in HEAD_KINDS else None
            name = replace(name, head=head, row=None)
        exercise = self._exercise(block, name)
        _add(self.source, exercise, block, name, called, line, reason)

    def _name(self, block: Block, line: int) -> tuple[Name | None, str, str]:
        nearest = block.titles[0] if block.titles else ""
        called = _clean(block.lead) or _clean(nearest)
        for key in (str(line), f"line {line}", _clean(block.lead), _clean(nearest)):
            if key and key.casefold() in self.taken_as:
                self.used.add(key.casefold())
                wanted = self.taken_as[key.casefold()]
                if wanted.casefold() in ("ignore", "-", "none"):
                    return None, called, ""
                named = named_kind(wanted)
                if named is None:
                    raise Unreadable(
                        f"--as: there is no kind {wanted!r}. There are: "
                        f"{', '.join(dict.fromkeys(SYMBOLS.values()))}, ignore."
                    )
                own = name_of(block.lead)
                row = own.row if own is not None and block.is_vector else None
                return replace(named, row=row), called, "as asked for by --as"
        for text in (block.lead, *block.titles):
            name = name_of(text) if text else None
            if name is None:
                continue
            if text is not block.lead:
                called = _clean(text)
                name = replace(name, row=None, column=None)
            return self._settle_ambiguous(name, text, block, called)
        if block.is_vector and not re.search(r"[=:>→]\s*[$\\(\s]*$", block.sentence):
            self.main.remarks.append(
                Remark(f"The numbers in brackets in line {line} were not taken for a matrix.")
            )
            return None, called, ""
        rows, columns = block.shape
        title = f" below “{_clean(nearest)}”" if nearest else ""
        self.questions.append(
            f"line {line}: what is the {rows}×{columns} matrix{title}? "
            f"Say it with --as {line}=K (or Q, V, X, W_Q, scores, weights, …, ignore)."
        )
        return None, called, ""

    def _settle_ambiguous(
        self, name: Name, text: str, block: Block, called: str
    ) -> tuple[Name, str, str]:
        """“Attention score” means the raw scores to some and the weights to others."""
        says_attention = re.search(r"attention|어텐션|অ্যাটেনশন|注意", text, re.IGNORECASE)
        if name.kind == "scores" and says_attention and block.shape[1] > 1:
            values = np.array([[figure.value for figure in row] for row in block.rows])
            slack = min(sum(figure.unit for figure in block.rows[0]) / 2, 0.05)
            if (
                (values >= 0).all()
                and (values <= 1).all()
                and (np.abs(values.sum(axis=1) - 1) <= slack).all()
            ):
                return replace(name, kind="weights"), called, "every row sums to 1"
        return name, called, ""

    def _head_at(self, offset: int) -> int | None:
        before = [head for start, head in self.heads if start <= offset]
        return before[-1] if before else None

    # ── where it belongs ─────────────────────────────────────────────────────────────────────

    def _exercise(self, block: Block, name: Name) -> Exercise:
        if self._owner(block.start) is not self.side:
            self.side = None
        if self.side is not None and name.kind not in ("W_Q", "W_K", "W_V", "W_O"):
            return self.side
        main = self.main
        if self._is_aside(block, name, main):
            self.side = Exercise()
            self._open(self.side, block.start, to_section_end=True)
            return self.side
        before = main.matrices.get((name.kind, name.head))
        of_a_token = name.row or (
            block.is_vector and _label_in(block.sentence, main.tokens or _known(main))
        )
        starts_anew = name.kind in ("input", "embeddings") and not of_a_token
        if starts_anew and before is not None and before.figures and not _same(before, block):
            self.main = Exercise()
            self._open(self.main, block.start, to_section_end=False)
        return self.main

    def _open(self, exercise: Exercise, offset: int, *, to_section_end: bool) -> None:
        end = len(self.source.text)
        start = max((s for s in self.sections if s <= offset), default=offset)
        if to_section_end:
            end = min((s for s in self.sections if s > offset), default=end)
        self.exercises.append(exercise)
        self.spans.append((start, end, exercise))

    def _owner(self, offset: int) -> Exercise:
        return next(e for start, end, e in reversed(self.spans) if start <= offset < max(end, 1))

    @staticmethod
    def _is_aside(block: Block, name: Name, main: Exercise) -> bool:
        """A lone query among several tokens, which names none of them: an example within."""
        of_tokens = main.matrices.get(("input", None)) or main.matrices.get(("embeddings", None))
        return (
            block.is_vector
            and name.kind in ("query", "scores", "scaled")
            and name.row is None
            and of_tokens is not None
            and len(of_tokens.row_labels) > 1
            and _label_in(block.sentence, of_tokens.row_labels) is None
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
            _settle_inputs(exercise)
        main = self.exercises[0]
        for kind in identities(self.source.text):
            if (kind, 1) not in main.matrices and main.get("input") is not None:
                width = main.matrices[("input", None)].shape[1]
                called = "the identity, as the text says"
                main.matrices[(kind, 1)] = Matrix(
                    kind, 1, shape=(width, width), called=called, exact=np.eye(width)
                )
        lines = list(re.finditer(r"[^\n]+", self.source.text))
        for exercise in self.exercises:
            own = [line for line in lines if self._owner(line.start()) is exercise]
            text = "\n".join(line[0] for line in own)
            exercise.says_unscaled = says_unscaled(text)
            exercise.says_causal = says_causal(text)
            statements = [s for s in self.found.statements if self._owner(s.start) is exercise]
            add_claims(self.source, own, statements, exercise)


def _add(
    source: Source,
    exercise: Exercise,
    block: Block,
    name: Name,
    called: str,
    line: int,
    reason: str,
) -> None:
    key = (name.kind, name.head)
    matrix = exercise.matrices.setdefault(
        key, Matrix(name.kind, name.head, called=called, line=line, reason=reason)
    )
    labels = list(block.row_labels or [])
    if block.is_vector:
        label = name.row or _label_in(block.sentence, exercise.tokens or _known(exercise))
        labels = [label] if label is not None else []
    if labels and name.kind not in ("W_Q", "W_K", "W_V", "W_O"):
        rows = [_row_index(exercise, matrix, label) for label in labels]
    elif block.is_vector and block.shape[0] == 1 and not matrix.figures:
        rows = [0]
    else:
        rows = list(range(block.shape[0]))
    columns = list(range(block.shape[1]))
    if block.column_labels and name.kind in _SQUARE:
        known = exercise.key_tokens or exercise.tokens or _known(exercise)
        found = [_find(label, known) for label in block.column_labels]
        if None not in found and len(set(found)) == len(found):
            columns = [index for index in found if index is not None]
        matrix.column_labels = matrix.column_labels or (
            list(known) if columns != list(range(block.shape[1])) else list(block.column_labels)
        )
    width = max(columns) + 1
    if matrix.figures and matrix.shape[1] != width:
        raise Unreadable(
            f"{source.name}: a ragged matrix: {matrix.symbol} has {matrix.shape[1]} columns in "
            f"line {matrix.line} and {width} in line {line}."
        )
    for i, row in zip(rows, block.rows, strict=True):
        for j, figure in zip(columns, row, strict=True):
            matrix.figures.setdefault((i, j), []).append(figure)
    if block.sums:
        matrix.sums |= dict(zip(rows, block.sums, strict=True))
    matrix.shape = (max([matrix.shape[0], *(i + 1 for i in rows)]), width)


def _row_index(exercise: Exercise, matrix: Matrix, label: str) -> int:
    """The row of a token: where the tokens are known theirs, else the next one."""
    known = exercise.tokens or _known(exercise)
    if matrix.kind in ("key", "value") and exercise.key_tokens:
        known = exercise.key_tokens
    index = _find(label, known)
    if index is None:
        index = _find(label, matrix.row_labels)
    if index is None:
        index = len(matrix.row_labels)
    while len(matrix.row_labels) <= index:
        matrix.row_labels.append(known[len(matrix.row_labels)] if len(known) > index else label)
    return index


def _find(label: str, known: list[str]) -> int | None:
    folded = [plain(other).casefold() for other in known]
    if folded.count(plain(label).casefold()) == 1:
        return folded.index(plain(label).casefold())
    count = re.fullmatch(r"(?:[a-zA-Z]|token|word|토큰|단어)?[ _]*(\d+)", label)
    if count and 1 <= int(count[1]) <= len(known):
        return int(count[1]) - 1
    return None


def _known(exercise: Exercise) -> list[str]:
    """The tokens that the rows of the first matrix with labels name."""
    for kind in ("input", "embeddings", "query"):
        for (other, _), matrix in exercise.matrices.items():
            if other == kind and len(matrix.row_labels) > 1:
                return matrix.row_labels
    return []


def _label_in(sentence: str, labels: list[str]) -> str | None:
    """The one token that a sentence speaks of: at its start, or anywhere in it."""
    words = re.sub(r"^\s*(?:[-*+•]|\d+[.)])\s+", "", sentence)
    for label in labels:
        if re.match(rf"[\s\"'“*_`$]*{re.escape(label)}(?!\w)", words):
            return label
    found = [label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", words)]
    return found[0] if len(found) == 1 else None


def _same(matrix: Matrix, block: Block) -> bool:
    """Whether a block repeats what is printed already."""
    values = matrix.values
    printed = [[figure.value for figure in row] for row in block.rows]
    return values.shape == block.shape and bool(np.isclose(values, printed).mean() > 0.5)


def _settle_inputs(exercise: Exercise) -> None:
    """Embeddings without positions are the input; an output of one head is that head's."""
    matrices = exercise.matrices
    if ("embeddings", None) in matrices and ("positions", None) not in matrices:
        embeddings = matrices.pop(("embeddings", None))
        embeddings.kind = "input"
        before = matrices.setdefault(("input", None), embeddings)
        if before is not embeddings and before.shape[1] == embeddings.shape[1]:
            for cell, figures in embeddings.figures.items():
                before.figures.setdefault(cell, []).extend(figures)
            before.shape = (max(before.shape[0], embeddings.shape[0]), before.shape[1])
        elif before is not embeddings:
            remark = f"{embeddings.describe()} is not the input, and was left out."
            exercise.remarks.append(Remark(remark))
    lonely = ("concatenated", None) not in matrices and ("W_O", None) not in matrices
    of_head = ("head_output", exercise.heads[0])
    if ("output", None) in matrices and of_head not in matrices:
        concatenated = matrices.get(("concatenated", None))
        output = matrices[("output", None)]
        if lonely or (
            concatenated is not None
            and concatenated.line > output.line
            and ("W_O", None) not in matrices
        ):
            matrices.pop(("output", None))
            output.kind, output.head = of_head
            matrices[of_head] = output
    source = matrices.get(("input", None)) or matrices.get(("query", exercise.heads[0]))
    if not exercise.tokens and source is not None:
        exercise.tokens = list(source.row_labels)


def _head_marks(source: Source) -> list[tuple[int, int]]:
    """Where the text speaks of one head, and which: that head's matrices follow."""
    marks = []
    for line in re.finditer(r"[^\n]+", source.text):
        head = head_in(line[0])
        if head is not None:
            marks.append((line.start(), head))
    return marks


def _clean(text: str) -> str:
    """A name as a person would type it: without marks, and without what follows `=`."""
    text = re.sub(r"^\s*(?:[-*+•#]+|\d+[.)])\s+", "", text.strip())
    text = re.split(r"=|≈", text)[0] if not re.search(r"\([^)]*=", text) else text
    return re.sub(r"[$*`]|:\s*$", "", text).strip()
