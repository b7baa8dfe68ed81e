"""Order: blind without positions, not with them; and not blind under a causal mask."""

from __future__ import annotations

import pytest

from regard.lab import Result, run
from regard.lab.order import EXPERIMENT


@pytest.fixture(scope="module")
def result() -> Result:
    return run("order", quick=True, seed=3)


def test_without_positions_a_shuffle_changes_nothing_but_places(result: Result) -> None:
    assert max(result.data["changes"]["none"]) < 1e-12
    assert result.outcome == "holds"
    assert result.verdict.answer == "same"


def test_every_kind_of_position_notices_a_shuffle(result: Result) -> None:
    for kind in ("sinusoidal", "learned", "rotary", "alibi"):
        assert max(result.data["changes"][kind]) > 1e-3, kind


def test_alibi_alone_cannot_tell_a_sentence_from_its_mirror_image(result: Result) -> None:
    backwards = {kind: found[0] for kind, found in result.data["changes"].items()}
    assert backwards["alibi"] < 1e-12
    assert min(backwards[kind] for kind in ("sinusoidal", "learned", "rotary")) > 1e-3
    assert "ALiBi" in result.verdict.notes[0].text()


def test_a_causal_mask_makes_it_false() -> None:
    broken = run("order", quick=True, seed=3, false=True)
    assert max(broken.data["changes"]["none"]) > 1e-3
    assert broken.outcome == "fails"
    assert broken.verdict.answer == "other"
    broken.document()


def test_data_in_which_positions_do_nothing_is_judged_so() -> None:
    none = {kind: [0.0, 0.0] for kind in ("none", "sinusoidal", "learned", "rotary", "alibi")}
    verdict = EXPERIMENT.judge({"words": ["a", "b"], "causal": False, "changes": none})
    assert [finding.outcome for finding in verdict.findings] == ["holds", "fails"]
    assert "only 0" in verdict.findings[1].said.text()


def test_words_of_any_script_can_be_shuffled() -> None:
    found = run("order", quick=True, sentence="나는 사과 폰을 좋아해 আমি আপেল ভালোবাসি")
    assert len(found.data["words"]) > 5
    assert found.outcome == "holds"


SENTENCE = "the dog bites the man"


def test_an_order_of_ones_own_is_measured_like_any_shuffle() -> None:
    backwards = " ".join(reversed(SENTENCE.split()))
    found = run("order", quick=True, sentence=SENTENCE, shuffled=backwards)
    yours = found.data["yours"]
    assert yours["words"] == backwards.split()
    # The first shuffle is the sentence read backwards: but here the first "the" stays the first.
    assert yours["changes"]["none"] < 1e-12
    assert min(yours["changes"][kind] for kind in ("sinusoidal", "learned", "rotary")) > 1e-3
    table = found.document()["tables"][0]
    assert table["columns"][-1] == "yours"
    assert [row[-1] for row in table["rows"]] == list(yours["changes"].values())
    assert "Your order, “man the bites dog the”" in found.verdict.notes[-1].text()


def test_a_mirror_image_of_ones_own_is_the_first_shuffle() -> None:
    found = run("order", quick=True, sentence="dogs chase cats", shuffled="cats  chase dogs")
    mirrored = {kind: changes[0] for kind, changes in found.data["changes"].items()}
    assert found.data["yours"]["changes"] == pytest.approx(mirrored, abs=1e-15)


def test_without_an_order_of_ones_own_nothing_is_said_of_it(result: Result) -> None:
    assert "yours" not in result.data
    assert len(result.document()["tables"][0]["columns"]) == 4


def test_an_order_of_ones_own_is_told_as_it_came_out() -> None:
    same = run("order", quick=True, sentence=SENTENCE, shuffled=SENTENCE)
    assert "is that of the sentence" in same.verdict.notes[-1].text()
    assert max(same.data["yours"]["changes"].values()) == 0
    broken = run(
        "order", quick=True, false=True, sentence=SENTENCE, shuffled="man the bites dog the"
    )
    assert "without positions the outputs change by 0." in broken.verdict.notes[-1].text()


@pytest.mark.parametrize(
    ("shuffled", "message"),
    [
        ("man the bites dog", "got no 'the'."),
        ("man the bites dog the the", "got 'the' too much."),
        ("man The bites cat the", "got no 'the', no 'dog', 'The' too much, 'cat' too much."),
    ],
)
def test_other_words_than_those_of_the_sentence_are_refused(shuffled: str, message: str) -> None:
    with pytest.raises(ValueError, match="lab order: shuffled must have the words") as error:
        EXPERIMENT.values({"sentence": SENTENCE, "shuffled": shuffled})
    assert str(error.value).endswith(message)
    with pytest.raises(ValueError, match="at most 64 words"):
        EXPERIMENT.values({"sentence": "a " * 67, "shuffled": "a " * 67})
