"""The tokens of a run by name: how views write them, and which one a reader means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.view.labels import visible

if TYPE_CHECKING:
    from regard.run import Run
    from regard.text import Token

_MOST_SHOWN = 12  # tokens, where one is asked for that is not there
_MOST_DIGITS = 9  # of a number that is looked at


def model_name(run: Run) -> str:
    """What the model of a run is called: as it was loaded, if that is known, or else its class.

    >>> from regard.run import Run
    >>> model_name(Run(model="BertModel"))
    'BertModel'
    """
    return run.model if run.again is None else Path(run.again.args[0].name).name


def token_labels(run: Run) -> tuple[str, ...]:
    """The tokens of the first sequence, without blanks around them; numbers if they are not known.

    >>> from regard.run import Run
    >>> from regard.text import Token
    >>> token_labels(Run(tokens=[[Token("I", 0, 1), Token(" love", 1, 6), Token(" ", 6, 7)]]))
    ('I', 'love', ' ')
    """
    if run.tokens:
        return tuple(token.label for token in run.tokens[0])
    n_keys = max((layer.shape[3] for layer in run.layers.values()), default=0)
    return tuple(str(place + 1) for place in range(n_keys))


def label_at(labels: Sequence[str], place: int) -> str:
    """The label of the token at a place, or its number from 1."""
    return labels[place] if 0 <= place < len(labels) else str(place + 1)


def token_names(run: Run) -> list[str]:
    """The labels as `find_token` takes them: the second of several alike is `it#2`.

    >>> from regard.run import Run
    >>> from regard.text import Token
    >>> token_names(Run(tokens=[[Token("it", 0, 2), Token("is", 3, 5), Token("it", 6, 8)]]))
    ['it#1', 'is', 'it#2']
    """
    labels = token_labels(run)
    times = Counter(labels)
    alike: Counter[str] = Counter()
    names: list[str] = []
    for label in labels:
        alike[label] += 1
        names.append(label if times[label] == 1 else f"{label}#{alike[label]}")
    return names


def find_token(tokens: Sequence[Token], name: str, text: str | None = None) -> int:
    """The place of a token, by its text, by `it#2`, or by its number from 1.

    A name stands for the tokens that are written so, or in any case where none is; `#2` takes the
    second of these. A token that is not as it stands in `text`, as [UNK] is, has the name of what
    does, too. KeyError says what there is instead.

    >>> from regard.text import tokenize
    >>> tokens = tokenize("it is it")
    >>> find_token(tokens, "it#2"), find_token(tokens, "is"), find_token(tokens, "1")
    (2, 1, 0)
    """
    labels = [visible(token.label) for token in tokens]
    pieces: list[str] = []  # what stands in the text where each token does
    if text is not None:
        pieces = [visible(text[token.start : token.end].strip()) for token in tokens]

    def places(word: str) -> list[int]:
        for names in (labels, pieces):
            for written in (str, str.casefold):
                same = [n for n, each in enumerate(names) if written(each) == written(word) != ""]
                if same:
                    return same
        return []

    asked = visible(name.strip() or name)
    found, word, number = places(asked), asked, ""
    if len(found) == 1:
        return found[0]
    if not found:
        word, _, number = asked.rpartition("#")
        found = places(word) if number.isdecimal() else []
    if 1 <= _number(number) <= len(found):
        return found[_number(number) - 1]
    if len(found) == 1:
        raise KeyError(f"find_token(): {word!r} occurs once: say {word}.")
    if found:
        between = "or" if len(found) == 2 else "to"
        ways = f"{word}#1 {between} {word}#{len(found)}"
        raise KeyError(f"find_token(): {word!r} occurs {len(found):,} times: say {ways}.")
    if 1 <= _number(asked) <= len(labels):
        return _number(asked) - 1
    shown = ", ".join(labels[:_MOST_SHOWN]) + (", …" if len(labels) > _MOST_SHOWN else "")
    raise KeyError(f"find_token(): there is no token {asked!r}. There are: {shown}.")


def _number(text: str) -> int:
    """The number that is written there; 0 if there is none, or a very large one."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0
