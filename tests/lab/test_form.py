"""The form of all experiments: settings are checked, texts are complete, runs can be repeated."""

from __future__ import annotations

import inspect
import json
import re
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.figures_said import says_the_same_figures

import regard.lab
from regard.lab import (
    LANGUAGES,
    NAMES,
    Asked,
    Bars,
    Chart,
    Finding,
    Maps,
    Measured,
    Said,
    Series,
    Setting,
    Verdict,
    about,
    experiment,
)
from regard.lab.experiment import Experiment
from regard.lab.result import perform
from regard.lab.said import words

SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for path in sorted(Path(inspect.getfile(regard.lab)).parent.glob("*.py"))
)


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_every_text_that_its_form_needs(name: str) -> None:
    found = experiment(name)
    told = about(found)
    assert found.name == name
    assert all(told[key] for key in ("title", "claim", "question", "about"))
    assert told["make_false"]["about"]
    assert 2 <= len(told["guesses"]) <= 5
    assert {each["name"] for each in told["possible"]} >= set(found.false)
    assert found.false, "there is a way to make it false"


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_that_make_it_false_and_quick_are_allowed_ones(name: str) -> None:
    found = experiment(name)
    for setting in found.settings:
        for value in (setting.default, setting.quick, found.false.get(setting.name)):
            if value is not None:
                assert setting.read("lab", value) == value
                assert setting.read("lab", str(value)) == value
        if setting.kind in ("whole", "number"):
            assert setting.least is not None
            assert setting.most is not None


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_texts_with_the_same_figures_in_them(language: str) -> None:
    """What is filled in has the same name and as many digits; what stands there is the same."""
    english, other = words("en"), words(language)
    assert set(english) == set(other)
    for key, text in english.items():
        assert _filled(text) == _filled(other[key]), key
        assert says_the_same_figures(text, other[key]), key


def _filled(text: str) -> list[tuple[str, str | None]]:
    parsed = string.Formatter().parse(text)
    return sorted((name, digits) for _, name, digits, _ in parsed if name is not None)


def test_every_text_is_used() -> None:
    """A key is in the source as it is, or behind what is filled in when it is made."""
    pieces = re.findall(r'f?"([\w.{}\[\]\' ()-]+)"', SOURCES)
    patterns = [
        re.escape(re.sub(r"\{[^}]*\}", "\0", piece)).replace("\0", r"[\w.]+") for piece in pieces
    ]
    known = re.compile("|".join(f"(?:{pattern})" for pattern in set(patterns) if "." in pattern))
    form = re.compile(
        r"\w+\.(title|claim|question|about|false\.about|(guess|setting|choice\.\w+)\.\w+)"
        r"|lab\.frame\.\w+"
    )
    unused = [key for key in words("en") if not form.fullmatch(key) and not known.fullmatch(key)]
    assert unused == []


def test_every_text_that_is_used_is_there() -> None:
    """A key as it stands in the source, or at least one where a part of it is filled in."""
    rooms = "|".join((*NAMES, "lab"))
    for piece in re.findall(rf'"((?:{rooms})\.[\w.{{}}\[\]\']*[\w}}])"', SOURCES):
        pattern = re.escape(re.sub(r"\{[^}]*\}", "\0", piece)).replace("\0", r"[\w.]+")
        assert any(re.fullmatch(pattern, key) for key in words("en")), piece


def test_every_part_of_a_claim_can_hold_and_can_fail_in_words() -> None:
    told: dict[str, set[str]] = {}
    for key in words("en"):
        if found := re.fullmatch(r"(\w+\.finding\..+)\.(\w+)", key):
            told.setdefault(found[1], set()).add(found[2])
    # Those of `order` are called by what they say.
    assert {key.partition(".")[0] for key in told} == set(NAMES) - {"order"}
    assert {key: said for key, said in told.items() if not {"holds", "fails"} <= said} == {}


def test_every_guess_setting_and_choice_has_its_text_and_there_is_none_without() -> None:
    expected = set()
    for name in NAMES:
        found = experiment(name)
        expected |= {f"{name}.guess.{each}" for each in found.guesses}
        expected |= {f"{name}.setting.{each.name}" for each in found.settings}
        for setting in found.settings:
            expected |= {f"{name}.choice.{setting.name}.{each}" for each in setting.choices}
    kinds = re.compile(r"\w+\.(guess|setting|choice)\..*")
    assert {key for key in words("en") if kinds.fullmatch(key)} == expected


def test_choices_are_told_in_the_language_that_is_asked_for() -> None:
    for language, said in (("en", "trained"), ("ko", "학습한 것"), ("bn", "শেখা")):
        (setting,) = (
            each for each in about(experiment("heads"), language)["possible"] if each["choices"]
        )
        assert setting["choices"] == ["trained", "random"]
        assert setting["named"]["trained"] == said


def test_an_experiment_says_every_model_that_it_reads_with() -> None:
    for name in NAMES:
        found = experiment(name)
        models = {"minilm", "smollm2"} & {str(each.default) for each in found.settings}
        assert models <= set(found.needs), name
    said = [each["said"] for each in about(experiment("reference"))["needs"]]
    assert said == ["MiniLM", "SmolLM2"]


def test_that_a_model_is_loaded_is_said_before_and_over_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import regard.models

    said: list[str | None] = []

    def load(name: str, progress: bool) -> str:
        said.append(f"load {name}")
        return name

    def say(told: Said | None) -> None:
        said.append(told and told.text("ko"))

    monkeypatch.setattr(regard.models, "load", load)
    assert Asked({}, say=say).load("smollm2") == "smollm2"
    assert said == ["모델 SmolLM2 불러오는 중 …", "load smollm2", None]


def test_the_first_share_is_told_before_anything_is_measured() -> None:
    told: list[float] = []
    perform(_some(), {"shuffles": 7, "causal": False}, tell=told.append)
    assert told == [0.0, 0.5]


def test_a_text_may_be_empty_where_its_least_is_0() -> None:
    assert Setting("own", "", least=0, most=5).read("lab", "  ") == ""
    with pytest.raises(ValueError, match="own must be a text of 0 to 5 characters; got 'abcdef'"):
        Setting("own", "", least=0, most=5).read("lab", "abcdef")
    with pytest.raises(ValueError, match="a text of 1 to 5 characters; got ''"):
        Setting("own", "a", most=5).read("lab", "")


def test_settings_that_do_not_go_together_are_refused_before_anything_is_measured() -> None:
    def check(values: Any) -> None:
        if values["causal"] and values["shuffles"] > 10:
            raise ValueError("lab order: at most 10")

    some = _some(check=check)
    assert some.values({"shuffles": 11}) == {"shuffles": 11, "causal": False}
    with pytest.raises(ValueError, match="at most 10"):
        some.values({"shuffles": 11}, false=True)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_chart_is_told_with_its_ends_its_bars_and_its_largest_cell(language: str) -> None:
    line = Series("lab.axis.seconds", [2, 3, 5], [0.25, None, 7.0], [0.0] * 3, [8.0] * 3)
    lines = Chart("order.chart", "lab.axis.megabytes", "lab.axis.seconds", [line])
    bars = Bars("order.chart", "order.column.mean", [Said("order.kind.alibi")], ["a"], [[0.125]])
    bars = replace(bars, groups=["order.kind.rotary"])
    maps = Maps("order.chart", [("order.table", [[0.5, 0.75], [0.25, 0.125]])], ["u", "v"], "xy")
    told = [each.document(language)["told"] for each in (lines, bars, maps)]
    pane = maps.document(language)["panes"][0]["told"]
    for text, parts in zip(
        (*told, pane),
        (
            [words(language)["lab.axis.seconds"], "MB", "0.25", "2", "7", "5"],
            ["ALiBi 0.125"],
            ["0.125", "0.75", "u → y"],
            ["0.125", "0.75", "u → y", words(language)["order.table"]],
        ),
        strict=True,
    ):
        assert all(part in text for part in parts), text
    assert all(text.startswith(words(language)["order.chart"]) for text in told)


def _some(judge: Any = None, **more: Any) -> Experiment:
    def measure(asked: Any) -> Measured:
        asked.progress(1, 2)
        return Measured(
            {"drawn": float(asked.random().standard_normal()), "shuffles": asked["shuffles"]}
        )

    verdict = Verdict([Finding("holds", Said("lab.plain", {"text": "so"}))], "a")
    settings = (Setting("shuffles", 100, quick=10, least=1, most=1000), Setting("causal", False))
    return Experiment(
        "order",
        ("same",),
        settings,
        {"causal": True},
        measure,
        judge or (lambda _: verdict),
        **more,
    )


def test_the_same_seed_draws_the_same_numbers() -> None:
    some = _some()
    values = some.values({})
    first, second, other = (perform(some, values, seed=seed).data["drawn"] for seed in (3, 3, 4))
    assert first == second != other


def test_a_verdict_sees_nothing_but_what_a_file_would_hold() -> None:
    seen: list[Any] = []

    def judge(data: Any) -> Verdict:
        seen.append(data)
        return Verdict([])

    result = perform(_some(judge), {"shuffles": 7, "causal": False})
    assert seen == [json.loads(json.dumps(result.data))]
    assert result.outcome == "open"


@pytest.mark.parametrize(
    ("findings", "outcome"),
    [
        ([], "open"),
        (["holds", "holds"], "holds"),
        (["holds", "open"], "open"),
        (["open", "fails"], "fails"),
        (["fails", "holds"], "fails"),
    ],
)
def test_a_claim_holds_if_all_its_parts_do(findings: list[Any], outcome: str) -> None:
    assert Verdict([Finding(each, Said("lab.plain")) for each in findings]).outcome == outcome


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shuffles": 0}, "shuffles must be a whole number from 1 to 1000; got 0"),
        ({"shuffles": "2.5"}, "shuffles must be a whole number from 1 to 1000; got '2.5'"),
        ({"shuffles": "many"}, "got 'many'"),
        ({"shuffles": True}, "got True"),
        ({"shuffles": "nan"}, "got 'nan'"),
        ({"causal": "maybe"}, "causal must be on or off; got 'maybe'"),
        ({"depth": 3}, "depth must be one of its settings, which are shuffles, causal; got 3"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        _some().values(given)


def test_given_settings_count_before_those_that_make_it_quick_or_false() -> None:
    some = _some()
    assert some.values({}, quick=True, false=True) == {"shuffles": 10, "causal": True}
    assert some.values({"shuffles": "7", "causal": "off"}, quick=True, false=True) == {
        "shuffles": 7,
        "causal": False,
    }


def test_a_document_is_plain_json_with_what_made_it() -> None:
    document = perform(_some(), {"shuffles": 7, "causal": True}, seed=5, is_false=True).document()
    again = json.loads(json.dumps(document, allow_nan=False))
    assert again == document
    assert again["format"] == "regard.lab"
    assert again["seed"] == 5
    assert again["false"] is True
    assert again["settings"] == {"shuffles": 7, "causal": True}
    assert {"regard", "numpy", "torch", "python"} <= set(again["versions"])


def test_work_that_is_no_longer_wanted_ends() -> None:
    from regard._wanted import asking

    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with asking(stop), pytest.raises(Stopped):
        perform(_some(), {"shuffles": 7, "causal": False})


def test_what_is_unknown_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(ValueError, match="there must be an experiment of that name"):
        regard.lab.run("gravity")
    with pytest.raises(ValueError, match=r"guess must be one of same, other, words; got 'maybe'"):
        regard.lab.run("order", guess="maybe")
