"""Figures for print: of every view, in every kind of file, of any text, whole or not at all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.made_runs import ENGLISH, SENTENCES, long_text, made_run
from helpers.run_by_hand import make_run

import regard
from regard.run import Run
from regard.text import Token

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")

HOSTILE = SENTENCES["hostile"] + " $x_1$ $\\frac{ \\alpha ^ _ & \x00 \x1b"
RUN_VIEWS: dict[str, dict[str, Any]] = {
    "model": {},
    "head": {"layer": 1, "head": 3},
    "text": {"layer": 1, "head": 3, "token": 5},
    "links": {"layer": 1},
    "entropy": {},
}
BEGINNINGS = {"svg": b"<?xml", "pdf": b"%PDF-", "png": b"\x89PNG"}


def texts(path: Path) -> list[str]:
    """The texts of an SVG file, as they would be read aloud."""
    found = ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}text")
    return ["".join(each.itertext()) for each in found]


def svg(run: Run, tmp_path: Path, view: Any = "model", **options: Any) -> list[str]:
    run.figure(tmp_path / "a.svg", view, **options)
    return texts(tmp_path / "a.svg")


def named(run: Run, words: list[str]) -> Run:
    """The same run with other tokens."""
    return Run(
        run.layers,
        model="made up",
        tokens=[[Token(word, n, n + 1) for n, word in enumerate(words)]],
    )


# ── files ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", BEGINNINGS)
@pytest.mark.parametrize("view", RUN_VIEWS)
def test_every_view_is_written_as_every_kind_of_file(view: Any, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"figure.{kind.upper()}"
    made_run().figure(path, view, **RUN_VIEWS[view])
    assert path.read_bytes().startswith(BEGINNINGS[kind])
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("view", RUN_VIEWS)
@pytest.mark.parametrize("text", SENTENCES.values(), ids=SENTENCES)
def test_every_script_is_drawn_in_every_view_dark_or_light(
    view: Any, text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for dark in (False, True):
        made_run(text).figure(
            tmp_path / "a.png", view, **RUN_VIEWS[view], dark=dark, width=3.3, dpi=60, log=True
        )
    assert caplog.records == []  # a font that is not found is told there


def test_the_same_input_gives_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    script = """
import sys; sys.path.insert(0, sys.argv[2])
from helpers.made_runs import SENTENCES, made_run
run = made_run(SENTENCES["Korean"] + SENTENCES["Bengali"])
for kind in ("svg", "pdf", "png"):
    run.figure(f"{sys.argv[1]}.{kind}", "links", layer=1, dpi=50)
"""
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", script, tmp_path / seed, Path(__file__).parents[1]],
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
    for kind in BEGINNINGS:
        assert (tmp_path / f"1.{kind}").read_bytes() == (tmp_path / f"2.{kind}").read_bytes()


@pytest.mark.parametrize("name", ["figure.gif", "figure", "svg", "figure.svg.gz", ""])
def test_any_other_kind_of_file_is_refused_in_words(name: str, tmp_path: Path) -> None:
    for one in (made_run(), regard.trace("I love")):
        with pytest.raises(ValueError, match=r"path must end in \.svg, \.pdf or \.png; got"):
            one.figure(tmp_path / name if name else "")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figure.png"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        made_run().figure(path, "entropy", dpi=30)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["figure.png"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        made_run().figure(tmp_path / "nowhere" / "a.svg")


def test_text_is_text_in_svg_and_fonts_are_in_the_pdf(tmp_path: Path) -> None:
    run = made_run(SENTENCES["Korean"])
    found = svg(run, tmp_path, "head", layer=1, head=2)
    assert {"동물은", "피곤해서"} <= set(found)
    run.figure(tmp_path / "a.pdf", "head", layer=1, head=2)
    content = (tmp_path / "a.pdf").read_bytes()
    parts = [_unpacked(each) for each in re.findall(rb"stream\r?\n(.*?)endstream", content, re.S)]
    whole = content + b"".join(parts)
    assert b"/FontFile2" in whole or b"/FontFile3" in whole
    assert b"/Type3" not in whole
    assert b"CreationDate" not in whole


def _unpacked(part: bytes) -> bytes:
    try:
        return zlib.decompress(part)
    except zlib.error:
        return b""


def test_a_png_has_the_size_that_was_asked_for(tmp_path: Path) -> None:
    from matplotlib.image import imread

    for width, dpi in ((3.3, 100), (7.0, 300)):
        made_run().figure(tmp_path / "a.png", "entropy", width=width, dpi=dpi)
        assert imread(tmp_path / "a.png").shape[1] == round(width * dpi)


def test_no_figure_is_taller_than_a_page(tmp_path: Path) -> None:
    runs = {
        "model": made_run(layers=31, heads=3),
        "head": made_run(long_text(61)),
        "text": made_run(long_text(2003), layers=1, heads=1),
        "links": made_run(long_text(61)),
        "entropy": made_run(layers=61, heads=2),
    }
    for view, run in runs.items():
        options = {**RUN_VIEWS[view]}
        if "head" in options:
            options |= {"layer": 0, "head": 0}
        for width in (3.3, 7.0):
            run.figure(tmp_path / "a.svg", view, **options, width=width)  # pyright: ignore[reportArgumentType]
            root = ElementTree.parse(tmp_path / "a.svg").getroot()
            assert float(root.attrib["height"].removesuffix("pt")) / 72 < 10, (view, width)


# ── matplotlib ────────────────────────────────────────────────────────────────────────────────


def test_matplotlibs_settings_are_neither_changed_nor_obeyed(tmp_path: Path) -> None:
    from matplotlib import rcParams

    run = made_run()
    run.figure(tmp_path / "plain.svg", "head", layer=1, head=2)
    before = dict(rcParams)
    with matplotlib.rc_context({"text.usetex": True, "font.size": 31, "svg.fonttype": "path"}):
        within = dict(rcParams)
        run.figure(tmp_path / "other.svg", "head", layer=1, head=2)
        assert dict(rcParams) == within
    assert dict(rcParams) == before
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


def test_pyplot_is_not_imported_nor_torch_for_a_trace() -> None:
    script = """
import sys, tempfile, regard
with tempfile.TemporaryDirectory() as folder:
    regard.trace("I love apple phones").figure(folder + "/a.pdf")
print([name for name in ("matplotlib.pyplot", "torch") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert done.stdout.decode().strip() == "[]"


def test_without_matplotlib_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for one in (made_run(), regard.trace("I love")):
        with pytest.raises(ImportError, match=r'matplotlib must be installed.*regard\[figures\]"'):
            one.figure(tmp_path / "a.svg")


# ── tokens ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("view", ["head", "links", "text"])
def test_marks_in_tokens_mean_nothing(view: Any, tmp_path: Path) -> None:
    words = ["$x_1$", "$\\frac{", "<b>&amp;", "\\alpha", "a\nb", "\x1b[31m", "$$", "{}", "%", "#"]
    run = named(made_run(long_text(10)), words)
    found = svg(run, tmp_path, view, **RUN_VIEWS[view])
    assert {"$x_1$", "$\\frac{", "<b>&amp;", "\\alpha", "␛[31m", "$$", "{}"} <= set(found)
    run.figure(tmp_path / "a.png", view, **RUN_VIEWS[view], dpi=50)


def test_what_no_font_has_is_a_box_and_the_figure_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = named(made_run(long_text(5)), ["a\u0378b", "plain", "\ud800", "한", "ক্ষ"])
    found = svg(run, tmp_path, "links", layer=1)
    assert "a□b" in found
    assert "<U+D800>" in found
    assert {"한", "ক্ষ"} <= set(found)
    assert any("no font installed here has" in each for each in found)
    assert caplog.records == []
    assert not any("no font" in each for each in svg(made_run(), tmp_path, "links", layer=1))


def test_names_stand_on_both_sides_where_they_are_few(tmp_path: Path) -> None:
    words = [f"w{n}" for n in range(61)]
    run = named(made_run(long_text(61)), words)
    found = svg(run, tmp_path, "head", layer=1, head=2)
    assert all(found.count(word) == 2 for word in words)
    longer = [f"w{n}" for n in range(67)]
    found = svg(named(made_run(long_text(67)), longer), tmp_path, "head", layer=1, head=2)
    assert not set(longer) & set(found)
    assert {"0", "10", "60"} <= set(found)


# ── numbers ───────────────────────────────────────────────────────────────────────────────────


def test_the_numbers_of_a_head_are_its_weights(tmp_path: Path) -> None:
    run = made_run(causal=False)
    found = svg(run, tmp_path, "head", layer=2, head=4)
    weights = run.weights(2, 4)[0].flatten().tolist()
    expected = [f"{weight:.2f}" for weight in weights if weight >= 0.005]
    first = found.index(expected[0])
    assert found[first : first + len(expected)] == expected


def test_a_long_head_is_an_exact_picture_of_blocks() -> None:
    from regard.view.figure.head import _picture
    from regard.view.figure.places import Place

    run = made_run(long_text(1031), layers=1, heads=2)
    picture = _picture(Place(run, 0, run.layer(0), 0), 1)
    assert picture.array.shape == (512, 512)
    weights = run.weights(0, 1)[0].double().numpy()
    bins = np.arange(1031) * 512 // 1031
    sums = np.zeros((512, 512))
    np.add.at(sums, (bins[:, None], bins[None, :]), weights)
    np.testing.assert_allclose(
        picture.array, sums / np.bincount(bins)[:, None], atol=1e-6, rtol=1e-5
    )
    np.testing.assert_allclose(picture.array.sum(1), 1.0, atol=1e-5)


def test_without_q_and_k_a_head_is_the_map_that_was_kept(tmp_path: Path) -> None:
    run = made_run(keep=False, size=(64, 64))
    whole = made_run()
    assert svg(run, tmp_path, "head", layer=1, head=2) == svg(
        whole, tmp_path, "head", layer=1, head=2
    )
    found = svg(made_run(keep=False, size=(5, 7)), tmp_path, "head", layer=1, head=2)
    assert any("the weight on 1 or 2 keys, the mean over 2 or 3 queries" in x for x in found)


def test_the_words_of_a_text_are_shaded_by_their_weights(tmp_path: Path) -> None:
    run = made_run()
    found = svg(run, tmp_path, "text", layer=1, head=3, token="it")
    words = [token.text for token in (run.tokens or [[]])[0]]
    first = found.index("The", 1)
    assert found[first : first + len(words)] == words
    row = run.weights(1, 3)[0, words.index("it")]
    strongest = words[int(row.argmax())]
    assert any(each.startswith(f"Most at {strongest} {float(row.max()):.2g}") for each in found)


def test_where_a_token_looks_is_the_mean_over_heads_and_layers() -> None:
    from regard.view.figure.places import Place
    from regard.view.figure.text import _weights

    run = made_run()
    places = [Place(run, n, layer, 0) for n, layer in enumerate(run.layers.values())]
    weights, partial = _weights(places, None, 7)
    rows = [layer.weights()[0, :, 7].double().mean(0) for layer in run.layers.values()]
    np.testing.assert_allclose(weights, torch.stack(rows).mean(0), atol=1e-6)
    assert not partial


def test_a_text_of_strongest_keys_says_how_much_is_not_there(tmp_path: Path) -> None:
    run = made_run(keep=False, top=2)
    found = svg(run, tmp_path, "text", layer=1, head=3, token=11)
    top = run.layer(1).top_weights
    assert top is not None
    assert any(f"shaded is {float(top[0, 3, 11].sum()):.2f} of" in each for each in found)


def test_a_long_text_keeps_the_lines_that_count_and_says_what_it_leaves_out(
    tmp_path: Path,
) -> None:
    run = made_run(long_text(3001), layers=1, heads=2)
    found = svg(run, tmp_path, "text", layer=0, head=1, token=2999)
    assert any("lines left out, with" in each for each in found)


def test_links_are_those_of_the_table_of_edges(tmp_path: Path) -> None:
    run = made_run()
    for least in (0.1, 0.53):
        number = run.edges(least, layers=1).num_rows
        found = svg(run, tmp_path, "links", layer=1, min_weight=least)
        assert any(f"{number} links of a weight of at least {least}" in x for x in found)
        (root,) = [ElementTree.parse(tmp_path / "a.svg").getroot()]
        groups = [g for g in root.iter() if g.attrib.get("id", "").startswith("LineCollection")]
        paths = [len([x for x in group.iter() if x.tag.endswith("}path")]) for group in groups]
        assert number in paths


def test_the_entropy_is_the_mean_of_the_real_tokens(tmp_path: Path) -> None:
    run, made = make_run("left padding", "right padding")
    found = svg(run, tmp_path, "entropy", sequence=1)
    for each in made:
        assert each.layer.queries is not None
        assert each.layer.entropy is not None
        means = each.layer.entropy[1][:, each.layer.queries[1]].double().mean(1)
        assert {f"{mean:.2f}" for mean in means.tolist()} <= set(found)


def test_the_kinds_of_heads_are_counted_and_told(tmp_path: Path) -> None:
    run, _ = make_run("causal", "plain")
    kinds = [row["kind"] for row in run.heads()]
    found = svg(run, tmp_path)
    for kind in set(kinds):
        assert f"{kind} {kinds.count(kind)}" in found


# ── layers of every kind ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "kind",
    ["window", "left padding", "right padding", "grouped", "sinks", "mask", "cached", "cross"],
)
@pytest.mark.parametrize("view", RUN_VIEWS)
def test_layers_of_every_kind_are_drawn(view: Any, kind: str, tmp_path: Path) -> None:
    run, _ = make_run(kind)
    options = {**RUN_VIEWS[view]}
    if "layer" in options:
        options["layer"] = 0
    if "head" in options:
        options["head"] = 2
    if view == "text":
        options["token"] = 6
    found = svg(run, tmp_path, view, **options, sequence=1)
    assert len(found) > 5


def test_padding_is_not_drawn(tmp_path: Path) -> None:
    run, made = make_run("left padding")
    tokens = run.tokens
    assert tokens is not None
    run.tokens = [tokens[0], [Token(f"b{n}", n, n + 1) for n in range(7)]]
    found = svg(run, tmp_path, "head", layer=0, head=1, sequence=1)
    assert all(found.count(f"b{n}") == 2 for n in range(7))
    weights = made[0].weights[1, 1, 4:, 4:].flatten()
    numbers = [x for x in found if re.fullmatch(r"\d\.\d\d", x)]
    assert numbers[: (weights >= 0.005).sum()] == [f"{w:.2f}" for w in weights if w >= 0.005]


def test_numbers_that_are_none_are_grey_and_break_nothing(tmp_path: Path) -> None:
    run = made_run()
    layer = run.layer(1)
    q = layer.q
    assert q is not None
    q = q.clone()
    q[0, 3, 5] = torch.nan
    seen = replace(layer.seen, lse=layer.lse.clone())
    seen.lse[0, 3, 5] = torch.nan
    run.layers[layer.name] = replace(layer, q=q, seen=seen)
    for view, options in RUN_VIEWS.items():
        run.figure(tmp_path / "a.png", view, **options, dpi=50)  # pyright: ignore[reportArgumentType]


def test_one_token_alone_and_many_heads_fit(tmp_path: Path) -> None:
    for view, options in RUN_VIEWS.items():
        options = {**options, **({"token": 0} if "token" in options else {})}
        made_run("one").figure(tmp_path / "a.png", view, **options, dpi=50)  # pyright: ignore[reportArgumentType]
        made_run(layers=2, heads=61).figure(tmp_path / "b.png", view, **options, dpi=50)  # pyright: ignore[reportArgumentType]


# ── what is refused ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"view": "atlas"}, r"view must be one of 'model', .*; got 'atlas'"),
        ({"view": "head"}, r"view 'head' must be told a layer; got None"),
        ({"view": "head", "layer": 1}, r"view 'head' must be told a head; got None"),
        ({"view": "head", "layer": 1, "head": 5}, r"head must be from -5 to 4; got 5"),
        ({"view": "head", "layer": 3, "head": 0}, r"layer must be from -3 to 2; got 3"),
        ({"view": "links", "layer": "nothing"}, r"layer must be the name of a layer"),
        ({"view": "links", "layer": 1, "min_weight": 2}, r"min_weight must be from 0"),
        ({"view": "text"}, r"view 'text' must be told a token; got None"),
        ({"view": "text", "token": 13}, r"token must be from -13 to 12; got 13"),
        ({"view": "text", "token": "cat"}, r"there is no token 'cat'"),
        ({"sequence": 1}, r"sequence must be from -1 to 0; got 1"),
        ({"width": 0.1}, r"width must be from 2 to 40; got 0.1"),
        ({"dpi": float("nan")}, r"dpi must be from 30 to 2400; got nan"),
    ],
)
def test_what_is_not_there_is_refused_in_words(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=rf"^figure\(\): {said}"):
        made_run().figure(tmp_path / "a.svg", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options", [{"width": "7"}, {"dpi": True}, {"dark": 1}, {"view": "text", "token": 1.5}]
)
def test_what_is_no_number_is_refused_in_words(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^figure\(\): .* must be .*; got"):
        made_run().figure(tmp_path / "a.svg", **options)


@pytest.mark.parametrize("view", RUN_VIEWS)
def test_what_was_not_kept_is_named(view: Any, tmp_path: Path) -> None:
    run = made_run(keep=False, top=0, size=None)
    for name, layer in run.layers.items():
        run.layers[name] = replace(layer, seen=replace(layer.seen, entropy=None))
    with pytest.raises(ValueError, match=r"^figure\(\): .* must have been .*regard\.watch"):
        run.figure(tmp_path / "a.svg", view, **RUN_VIEWS[view])


def test_a_run_without_layers_says_why(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the run must have seen a layer; it has none"):
        Run().figure(tmp_path / "a.svg")


# ── traces ────────────────────────────────────────────────────────────────────────────────────


def test_the_numbers_of_a_step_are_in_its_cells(tmp_path: Path) -> None:
    trace = regard.trace("I love apple phones")
    for name in trace.steps:
        trace.figure(tmp_path / "a.svg", name)
        numbers = [x for x in texts(tmp_path / "a.svg") if re.fullmatch(r"−?\d+\.\d+", x)]
        values = [float(x.replace("−", "-")) for x in numbers]
        array = trace.steps[name].array.ravel()
        assert values[: len(array)] == pytest.approx(array, abs=0.006)


def test_all_steps_are_in_one_figure_with_their_formulas(tmp_path: Path) -> None:
    trace = regard.trace(ENGLISH, causal=True)
    trace.figure(tmp_path / "a.svg", "all")
    found = texts(tmp_path / "a.svg")
    for number, step in enumerate(trace.steps.values(), 1):
        assert f"{number} {step.title}   {step.formula}" in found


@pytest.mark.parametrize("text", [*SENTENCES.values(), HOSTILE, long_text(101), "one"])
def test_a_trace_of_any_text_is_drawn(text: str, tmp_path: Path) -> None:
    trace = regard.trace(text, heads=3, width=6)
    for view in ("weights", "all"):
        trace.figure(tmp_path / "a.png", view, width=3.3, dpi=60, dark=True)


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_a_trace_is_written_as_every_kind_of_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"steps.{kind}"
    regard.trace(HOSTILE).figure(path, "all")
    assert path.read_bytes().startswith(BEGINNINGS[kind])


def test_a_step_is_found_by_its_symbol_and_an_unknown_one_refused(tmp_path: Path) -> None:
    trace = regard.trace("I love apple phones")
    trace.figure(tmp_path / "a.svg", "A")
    trace.figure(tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    for view in ("nothing", 3):
        with pytest.raises(ValueError, match=r"^figure\(\): view must be a step or 'all'"):
            trace.figure(tmp_path / "a.svg", view)  # pyright: ignore[reportArgumentType]


def test_a_token_that_is_a_blank_is_shown_as_one(tmp_path: Path) -> None:
    run = named(made_run("one two three four five"), ["one", " ", "three", "  ", "five"])
    found = svg(run, tmp_path, "head", layer=0, head=0)
    assert "␣" in found
    assert "␣␣" in found
