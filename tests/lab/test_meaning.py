"""The experiment `meaning`: words move with their context, and the verdict follows the figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers.lab_models import loaded_once

import regard.lab
from regard.lab.marked import data, find, unmark
from regard.lab.meaning import EXPERIMENT, judge
from regard.lab.meaning_own import read_own

LAYERS, PAIRS = 3, 7


@pytest.fixture(scope="module", autouse=True)
def _loaded_once() -> Iterator[None]:
    with loaded_once():
        yield


def figures(whole: float, others: float, cues: float, noise: float = 0.001) -> dict[str, Any]:
    """Of one word that moves so far towards its sense, with nothing, other words and cues cut."""
    random = np.random.default_rng(5)
    lean = {}
    for way, move in (("whole", whole), ("others", others), ("cues", cues), ("nobody", cues)):
        sides = []
        for sign in (1, -1):
            last = 0.2 + sign * move + noise * random.standard_normal(PAIRS)
            sides.append([[0.2, 0.2, x] for x in last.tolist()])
        lean[way] = sides
    word = {"senses": ["river", "money"], "lean": lean, "near": [0.3, 0.1]}
    return {"words": {"bank": word | {"weight": [[0.2, 0.1]] * (2 * PAIRS)}}}


def outcomes(found: dict[str, Any]) -> list[str]:
    return [finding.outcome for finding in judge(found).findings]


@pytest.mark.parametrize("word", ["apple", "bank", "creature"])
def test_every_word_has_twenty_sentences_a_sense_that_tell_it(word: str) -> None:
    senses = data("meaning")[word]
    named = [name for sense in senses.values() for name in sense["words"]]
    begins = set()
    for sense in senses.values():
        assert len(sense["sentences"]) == 20
        for marked in sense["sentences"]:
            sentence = unmark(marked, {"cue": "**"})
            assert "*" not in sentence.text
            assert len(find(sentence.text, word)) == 1, sentence.text
            cues = len(sentence.spans["cue"])
            assert 1 <= cues <= len(sentence.text.split()) - 1 - cues, sentence.text
            assert not any(find(sentence.text, name) for name in named), sentence.text
            begins.add(" ".join(sentence.text.split()[:3]))
    assert len(begins) >= 39  # no template begins them


def test_apple_moves_with_its_context_because_of_the_cues() -> None:
    result = regard.lab.run("meaning", word="apple", pairs=9)
    found = result.verdict.findings
    assert [finding.outcome for finding in found[:2]] == ["holds", "holds"]
    assert "fruit or technology" in result.document()["verdict"]["findings"][0]["said"]
    table = result.document()["tables"][0]["rows"][0]
    whole, others, cues = table[1:4]
    assert cues < others
    assert 0.05 < whole < 1


def test_by_lot_there_is_no_sense_to_move_to() -> None:
    result = regard.lab.run("meaning", quick=True, false=True, word="apple")
    assert result.outcome != "holds"
    assert result.verdict.answer == "stays"
    assert result.document()["false"]


def test_sentences_of_the_other_sense_move_a_word_the_wrong_way_and_the_verdict_says_so() -> None:
    senses = data("meaning")["apple"]
    parts = [", ".join(sense["words"]) for sense in senses.values()]
    parts += [" / ".join(sense["sentences"][:3]) for sense in reversed(senses.values())]
    result = regard.lab.run("meaning", own=" | ".join(["apple", *parts]))
    assert [finding.said.key for finding in result.verdict.findings] == [
        "meaning.finding.move.fails"
    ]
    assert result.outcome == "fails"
    assert result.verdict.answer == "stays"


def test_what_nobody_may_look_at_does_not_matter() -> None:
    runs = [
        regard.lab.run("meaning", word="creature", pairs=3, context=context).data
        for context in ("whole", "masked")
    ]
    leans = [run["words"]["creature"]["lean"] for run in runs]
    np.testing.assert_allclose(leans[0]["nobody"], leans[1]["nobody"], atol=1e-5)
    assert np.abs(np.subtract(leans[0]["whole"], leans[1]["whole"])).max() > 1e-3


def test_the_verdict_follows_the_figures() -> None:
    assert outcomes(figures(0.2, 0.19, 0.01)) == ["holds", "holds", "holds"]
    assert outcomes(figures(0.2, 0.19, 0.15)) == ["holds", "holds", "fails"]
    assert outcomes(figures(0.2, 0.1, 0.15)) == ["holds", "fails", "fails"]
    assert outcomes(figures(0.0, 0.0, 0.0)) == ["fails"]
    assert outcomes(figures(-0.2, 0.0, 0.0)) == ["fails"]
    assert outcomes(figures(0.05, 0.0, 0.0, noise=0.4)) == ["open"]
    assert judge(figures(0.2, 0.19, 0.01)).answer == "cues"
    assert judge(figures(0.2, 0.19, 0.15)).answer == "anyway"


def test_every_sentence_of_a_verdict_has_its_words() -> None:
    for found in (
        figures(0.2, 0.19, 0.01),
        figures(0.2, 0.1, 0.15),
        figures(0.2, 0.19, 0.1),
        figures(0.0, 0.0, 0.0),
        figures(0.05, 0.0, 0.0, noise=0.4),
    ):
        said = judge(found).document("en")
        assert all(finding["said"] for finding in said["findings"])
        assert all("{" not in note for note in said["notes"])


MOUSE = (
    "mouse | animal, rat | computer, keyboard"
    " | The mouse *nibbled* the *cheese*. / A **grey** mouse ran into its *hole*."
    " / An owl *swooped* down on the mouse."
    " | Click the *button* of the mouse twice. / My mouse needs new *batteries*."
    " / Move the mouse to the *icon*. / I lost my *wireless* mouse."
)
UNMARKED = MOUSE.replace("*", "").replace("mouse", "xylophones")


@pytest.fixture(scope="module")
def unmarked(_loaded_once: None) -> regard.lab.Result:
    return regard.lab.run("meaning", own=UNMARKED)


def test_a_word_of_ones_own_goes_the_way_of_the_shipped_ones() -> None:
    result = regard.lab.run("meaning", own=MOUSE)
    found = result.data["words"]["mouse"]
    assert list(result.data["words"]) == ["mouse"]
    assert found["senses"] == ["animal", "computer"]
    assert found["fewer"] == 0
    assert len(found["lean"]["whole"][0]) == len(found["lean"]["whole"][1]) == 3
    for language in regard.lab.LANGUAGES:
        said = result.document(language)["verdict"]["findings"][0]["said"]
        assert all(name in said for name in ("mouse", "animal", "computer"))


def test_a_shipped_word_written_as_ones_own_has_the_same_figures() -> None:
    senses = data("meaning")["bank"]
    parts = [", ".join(sense["words"]) for sense in senses.values()]
    parts += [" / ".join(sense["sentences"][:3]) for sense in senses.values()]
    own = regard.lab.run("meaning", own=" | ".join(["bank", *parts])).data["words"]["bank"]
    shipped = regard.lab.run("meaning", word="bank", pairs=3).data["words"]["bank"]
    assert own["lean"] == shipped["lean"]
    assert own["weight"] == shipped["weight"]


def test_without_marks_all_other_words_are_cues_and_nothing_is_left_to_compare_with(
    unmarked: regard.lab.Result,
) -> None:
    word, senses = read_own(UNMARKED)
    assert word == "xylophones"
    assert senses["animal"]["sentences"][0] == "*The* xylophones *nibbled* *the* *cheese*."
    assert unmarked.data["words"]["xylophones"]["fewer"] == 6
    document = unmarked.document()
    assert document["tables"][0]["rows"][0][2] is None
    is_none = [row[0] is None for row in document["charts"][1]["values"]]
    assert is_none == [False, True, False, False]


def test_figures_without_a_comparison_are_no_cause() -> None:
    found = figures(0.2, 0.19, 0.01)
    found["words"]["bank"]["fewer"] = 1
    assert outcomes(found) == ["holds", "open", "holds"]
    assert "not as many other words" in judge(found).findings[1].said.text()
    found["words"]["bank"]["weight"] = [[0.2, None]] * (2 * PAIRS)
    assert len(judge(found).notes) == 1


def test_a_word_of_several_tokens_is_read_as_one(unmarked: regard.lab.Result) -> None:
    from regard.models import load

    assert len(load("minilm", progress=False).reader().read("xylophones").tokens) > 3
    lean = unmarked.data["words"]["xylophones"]["lean"]
    assert np.isfinite(lean["cues"]).all()
    assert np.abs(np.subtract(lean["cues"], lean["whole"])).max() > 1e-3


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("mouse | animal | computer", "must be five parts with | between them"),
        (MOUSE.replace("mouse |", " |", 1), "must begin with a word; got none before the first |"),
        (MOUSE.replace("animal, rat", " , "), "must name each sense by at least one word"),
        (MOUSE.replace("animal", "computer"), "different words; got 'computer' twice"),
        (MOUSE.replace(" / A **grey** mouse ran into its *hole*.", ""), "got 2 of 'animal'"),
        (MOUSE.replace("My mouse", "My cat"), "got it 0 times in 'My cat needs new batteries.'"),
        (MOUSE.replace("An owl", "A mouse"), "once in each sentence; got it 2 times"),
        (MOUSE.replace("the mouse to", "the *mouse* to"), "mark other words than 'mouse' as cues"),
        (MOUSE.replace("*icon*", "*icon"), "have a star on either side of a cue"),
        (MOUSE.replace("I lost my *wireless* mouse.", "Mouse!"), "have other words than 'mouse'"),
    ],
)
def test_what_is_no_word_with_sentences_is_refused_and_told(own: str, message: str) -> None:
    with pytest.raises(ValueError, match="lab meaning: own must ") as error:
        EXPERIMENT.values({"own": own})
    assert message in str(error.value)
