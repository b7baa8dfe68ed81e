"""A run in the terminal: what stands out is what was measured, and it fits the width."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from rich.cells import cell_len
from rich.text import Text

import regard
from regard import Run, See
from regard.run import Layer, Options
from regard.run.links import links_of_heads, mean_looks, strongest_links
from regard.text import Token
from regard.view import names
from regard.view.effect import render_effect
from regard.view.lines import fit_name
from regard.view.looks import render_head, render_token
from regard.view.names import token_labels, token_names
from regard.view.run import render_run, render_summary
from regard.view.table import render_table

HEADS, WIDTH = 3, 5


def tokens_of(words: Sequence[str], special: Sequence[str] = ("[CLS]", "[SEP]")) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    for word in words:
        end = at if word in special else at + len(word)
        tokens.append(Token(word, at, end))
        at = end
    return tokens


def make_run(
    words: Sequence[str], *, layers: int = 2, causal: bool = False, keep: bool = True, side: int = 8
) -> Run:
    """A run of random attention, sharp enough to have strong links."""
    made: dict[str, Layer] = {}
    generator = torch.Generator().manual_seed(len(words))
    for number in range(layers):
        q, k, v = (torch.randn(1, HEADS, len(words), WIDTH, generator=generator) for _ in range(3))
        look = See(entropy=True, top=8, map=(side, side), distance=True)
        _, seen = regard.attention(q, k, v, causal=causal, scale=1.5, see=look)
        options = Options(causal=causal, scale=1.5)
        kept = (q, k) if keep else (None, None)
        name = f"layer.{number}"
        made[name] = Layer(name, seen, options, kv_heads=HEADS, q=kept[0], k=kept[1])
    return Run(made, model="random", text=" ".join(words), tokens=[tokens_of(words)])


def find_token(run: Run, name: str) -> int:
    assert run.tokens is not None
    assert not isinstance(run.text, list)
    return names.find_token(run.tokens[0], name, run.text)


def plain(lines: Sequence[Text]) -> list[str]:
    return [line.plain for line in lines]


def everything_of(run: Run, width: int) -> list[str]:
    """All that can be shown of a run."""
    return plain(
        [
            *render_summary(run, width, seconds=1.25, why="A reason.", unknown=["🍎", "🍏"]),
            *render_run(run, width),
            *render_head(run, 0, 1, width),
            *render_token(run, 1, width),
        ]
    )


# ── tokens ────────────────────────────────────────────────────────────────────────────────────


def test_a_token_is_found_without_the_blank_that_it_begins_with() -> None:
    run = make_run(["it", " is", " it", " "])
    assert token_labels(run) == ("it", "is", "it", " ")
    assert find_token(run, "is") == 1
    assert find_token(run, "it#2") == 2
    assert find_token(run, "4") == 3
    with pytest.raises(KeyError, match="'it' occurs 2 times: say it#1 or it#2"):
        find_token(run, "it")
    with pytest.raises(KeyError, match="There are: it, is"):
        find_token(run, "was")


def test_a_name_counts_the_same_words_with_and_without_a_number() -> None:
    run = make_run(["The", " the", " cat", " THE", " the"])
    assert find_token(run, "The") == find_token(run, "The#1") == 0
    assert [find_token(run, f"the#{n}") for n in (1, 2)] == [1, 4]
    assert [find_token(run, f"tHE#{n}") for n in (1, 2, 3, 4)] == [0, 1, 3, 4]
    assert token_names(run) == ["The", "the#1", "cat", "THE", "the#2"]
    for name, ways in (("the", "the#1 or the#2"), ("tHE", "tHE#1 to tHE#4")):
        with pytest.raises(KeyError, match=f"say {ways}"):
            find_token(run, name)
    with pytest.raises(KeyError, match="'the' occurs 2 times: say the#1 or the#2"):
        find_token(run, "the#3")
    with pytest.raises(KeyError, match="'cat' occurs once: say cat"):
        find_token(run, "cat#2")


def test_a_name_of_many_tokens_says_the_first_and_the_last() -> None:
    run = Run(tokens=[tokens_of(["fox"] * 1483)])
    with pytest.raises(KeyError, match=r"'fox' occurs 1,483 times: say fox#1 to fox#1483\."):
        find_token(run, "fox")


@pytest.mark.parametrize("name", ["#", "it#", "it#0", "it#" + "9" * 5000, "9" * 5000, "#1", "0"])
def test_a_name_that_is_nobodys_is_refused_in_words(name: str) -> None:
    with pytest.raises(KeyError, match=r"find_token\(\): "):
        find_token(make_run(["it", " is", " so"]), name)


def test_a_token_is_found_by_its_piece_of_the_text_where_its_own_is_another() -> None:
    run = Run(text="a 🍎 b", tokens=[[Token("a", 0, 1), Token("[UNK]", 2, 3), Token("b", 4, 5)]])
    assert find_token(run, "🍎") == find_token(run, "[UNK]") == find_token(run, "2") == 1


def test_what_the_model_does_not_know_is_counted_and_each_is_named_once() -> None:
    run = make_run(["a", "b"])
    text = " ".join(" ".join(plain(render_summary(run, name="m", unknown=["🍎"]))).split())
    assert "1 token is unknown to m, which reads [UNK] for it: 🍎." in text
    many = [chr(0x1F34E + n) for n in range(11)]
    text = " ".join(plain(render_summary(run, 200, name="m", unknown=[*many, *many], sign="<unk>")))
    assert "22 tokens are unknown to m, which reads <unk> for each: 🍎, 🍏" in text
    assert text.count("🍎") == 1
    assert text.endswith("….")


def test_tokens_that_are_not_known_are_numbers() -> None:
    run = make_run(["a", "b", "c"])
    run.tokens = None
    assert token_labels(run) == ("1", "2", "3")
    assert everything_of(run, 80)


# ── links ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("causal", [False, True])
def test_links_are_the_strongest_weights_that_are_not_trivial(causal: bool) -> None:
    words = ["[CLS]", *(f"w{i}" for i in range(11)), "[SEP]"]
    run = make_run(words, causal=causal)
    expected: dict[tuple[int, int], float] = {}
    for layer in range(2):
        for head in range(HEADS):
            weights = run.weights(layer, head)[0].numpy().copy()
            weights[:, [0, -1]] = 0
            weights[[0, -1]] = 0
            np.fill_diagonal(weights, 0)
            query, key = np.unravel_index(weights.argmax(), weights.shape)
            pair = int(query), int(key)
            expected[pair] = max(expected.get(pair, 0.0), float(weights.max()))
    links = strongest_links(run)
    assert {(link.query, link.key): link.weight for link in links} == pytest.approx(expected)
    assert sum(link.heads for link in links) == 2 * HEADS
    assert [link.weight for link in links] == sorted((x.weight for x in links), reverse=True)


def test_links_of_one_layer_head_or_query_only() -> None:
    run = make_run([f"w{i}" for i in range(9)])
    assert {link.layer for link in strongest_links(run, layer=1)} == {1}
    assert {link.head for link in strongest_links(run, head=2)} == {2}
    assert {link.query for link in strongest_links(run, query=4)} == {4}


def test_links_name_a_token_as_it_can_be_asked_for() -> None:
    run = make_run(["The", " the", " cat", " the", " mat", " cat"])
    shown = "\n".join(plain(render_run(run))).partition("Strongest links")[2].partition("Left")[0]
    rows = [line.split() for line in shown.splitlines()[1:] if " → " in line]
    names = {name for row in rows for name in (row[0], row[2])}
    assert names <= {"The", "the#1", "cat#1", "the#2", "mat", "cat#2"}
    links = strongest_links(run)
    assert {find_token(run, name) for name in names} == {
        place for link in links for place in (link.query, link.key)
    }


def test_trivial_links_are_shown_where_there_are_no_others_and_that_is_said() -> None:
    run = make_run(["[CLS]", "a", "[SEP]"])
    assert strongest_links(run) == []
    text = " ".join(" ".join(plain(render_run(run))).split())
    assert "are among these: no other has a weight of 0.1 or more" in text
    assert "Left out: links on the first token" not in text
    text = " ".join(plain(render_run(make_run(["a", "b", "c", "d"]))))
    assert "Left out: links on the first token" in text


# ── one token ─────────────────────────────────────────────────────────────────────────────────


def test_looks_of_a_token_are_the_largest_weights_of_its_row() -> None:
    run = make_run([f"w{i}" for i in range(12)], causal=True)
    links = links_of_heads(run, query=7)
    assert [(link.layer, link.head) for link in links] == [
        (layer, head) for layer in range(2) for head in range(HEADS)
    ]
    for link in links:
        row = run.weights(link.layer, link.head)[0, 7]
        assert link.key == int(row.argmax())
        assert link.weight == pytest.approx(float(row.max()), abs=1e-6)


def test_mean_looks_are_means_over_heads_and_sum_to_one() -> None:
    run = make_run([f"w{i}" for i in range(12)], causal=True)
    means = mean_looks(run, 7)
    assert means.shape == (2, 12)
    assert means.sum(1) == pytest.approx(1.0)
    assert means[1] == pytest.approx(run.weights(1)[0, :, 7].mean(0).numpy())


def test_one_layer_or_head_of_a_token_leaves_out_the_others() -> None:
    run = make_run([f"w{i}" for i in range(6)])
    text = "\n".join(plain(render_token(run, 3, 80, layer=1)))
    assert "layer 1" in text
    assert "layer 0" not in text
    assert "all layers" not in text
    text = "\n".join(plain(render_token(run, 3, 80)))
    assert (
        text.index("    all layers  ") < text.index("    layer 0  ") < text.index("    layer 1  ")
    )
    assert "Mean over heads" not in "\n".join(plain(render_token(run, 3, 80, layer=1, head=2)))


# ── maps ──────────────────────────────────────────────────────────────────────────────────────


def map_of(lines: list[str]) -> list[str]:
    return [line.partition("│")[2] for line in lines if "│" in line]


def shade_of(share: float) -> str:
    return next(
        (s for least, s in ((0.7, "█"), (0.4, "▓"), (0.2, "▒"), (0.05, "░")) if share >= least), " "
    )


@pytest.mark.parametrize("causal", [False, True])
def test_a_map_of_a_short_text_shows_every_weight(causal: bool) -> None:
    run = make_run([f"w{i}" for i in range(7)], causal=causal)
    weights = run.weights(1, 2)[0].tolist()
    rows = map_of(plain(render_head(run, 1, 2)))
    assert rows == ["".join(shade_of(share) * 2 for share in row) for row in weights]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("causal", [False, True])
def test_a_map_of_a_long_text_is_that_of_groups_and_that_is_said(keep: bool, causal: bool) -> None:
    n = 53
    run = make_run([f"w{i}" for i in range(n)], causal=causal, keep=keep, side=24)
    lines = plain(render_run(run, layer=1, head=2))
    truth = run.layer(1).map
    assert truth is not None
    rows = map_of(lines)
    assert rows == ["".join(shade_of(share) * 2 for share in row) for row in truth[0, 2].tolist()]
    assert "mean of 2 or 3 queries, a column the sum of 2 or 3 keys" in " ".join(
        " ".join(lines).split()
    )


def test_a_map_numbers_the_tokens_that_are_alike() -> None:
    run = make_run(["우", "우", "리", " a", "리", "Donaudampfschiff", " Donaudampfschiff"])
    lines = plain(render_head(run, 1, 2))
    names = [line.partition("│")[0].strip() for line in lines if "│" in line]
    assert names == ["우#1", "우#2", "리#1", "a", "리#2", "Donaudampfs…#1", "Donaudampfs…#2"]
    rows = "\n".join(lines).partition("Where each token looks")[2].splitlines()[1:]
    assert [row.partition("→")[0].strip() for row in rows] == names


def test_the_keys_of_a_token_are_numbered_where_there_is_room() -> None:
    run = make_run(["우", "우", "리", "리", "리"])
    lines = plain(render_token(run, 1, 80))
    names = {"우#1", "우#2", "리#1", "리#2", "리#3"}
    assert set(re.findall(r"\S+#\d|[우리]", "\n".join(lines[2:]))) <= names
    assert fit_name("love#2", 5) == "love"
    assert fit_name("animals#2", 8) == "anima…#2"


def test_a_map_that_was_not_kept_is_said_to_be_missing() -> None:
    run = make_run([f"w{i}" for i in range(80)], keep=False, side=64)
    assert "    No map of it was kept." in plain(render_run(run))


# ── one head, a cut, a table ──────────────────────────────────────────────────────────────────


def test_a_long_text_lists_forty_tokens_of_a_head_and_says_so() -> None:
    lines = plain(render_head(make_run([f"w{i}" for i in range(50)]), 0, 0))
    listed = "\n".join(lines).partition("Where each token looks")[2]
    assert listed.count(" → ") == 40
    assert "40 of 50 tokens shown; --token shows any one" in listed


def test_an_effect_names_the_token_that_changed_most() -> None:
    before = torch.ones(1, 3, 4)
    after = before.clone()
    after[0, 1] *= 0.5
    one, other = (
        Run(hidden_states={"block.0": before, "block.1": x}, output=x[..., :2])
        for x in (before, after)
    )
    lines = plain(render_effect(one.effect(other), [(1, 0)], ["a", "b", "c"]))
    assert lines[1].startswith("Without 1.0")
    assert [line.split() for line in lines[3:6]] == [
        ["0", "0.00%", "0.00%"],
        ["1", "16.67%", "50.00%", "b"],
        ["output", "16.67%", "50.00%", "b"],
    ]


def test_a_table_is_cut_to_the_width_and_says_how_many_rows_it_has() -> None:
    table = Run().sql(f"select 1.5 as x, '{'long ' * 40}' as words, null as nothing")
    lines = plain(render_table(table, 60))
    assert max(map(cell_len, lines)) <= 60
    assert lines[1].split()[0] == "1.5"
    assert "…" in lines[1]
    assert lines[-1] == "1 row"
    lines = plain(render_table(Run().sql("select * from range(1500)"), 60))
    assert len(lines) == 1 + 1000 + 1
    assert lines[-1] == "1,000 of 1,500 rows shown; --json FILE writes all"
    many = ", ".join(f"{n} as column_{n}" for n in range(40))
    assert max(map(cell_len, plain(render_table(Run().sql(f"select {many}"), 60)))) <= 60


# ── whatever the tokens are ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("width", [40, 80, 100])
@pytest.mark.parametrize(
    "words",
    [
        ["I", " love", " apple", " phones"],
        ["나는", " 전화기를", " 사랑한다", "전화기입니다전화기입니다"],
        ["আমি", " ভাত", " খাই"],
        ["x" * 300, "👩‍👩‍👧", "a"],
        [f"w{i}" for i in range(60)],
        ["one"],
    ],
)
def test_no_line_is_wider_than_the_width(words: list[str], width: int) -> None:
    lines = everything_of(make_run(words) if len(words) > 1 else make_run([*words, "two"]), width)
    assert max(map(cell_len, lines)) <= width


def test_hostile_tokens_are_shown_and_obeyed_by_nobody() -> None:
    words = [
        "\x1b[31mred",
        "a\u202eb",
        "\u200b",
        "line\nbreak",
        "\x00\x7f",
        "[red]x[/red]",
        "\ud800",
    ]
    run = make_run(words)
    lines = everything_of(run, 80)
    text = "\n".join(lines)
    assert "␛[31mred" in text
    assert "[red]x[/red]" in text
    forbidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not {c for c in text if unicodedata.category(c) in forbidden and c != "\n"}
    assert find_token(run, "a\u202eb") == 1
    assert find_token(run, "a<U+202E>b") == 1


def test_a_run_of_nothing_is_said_to_be_one() -> None:
    run = Run(text="love", unseen=["a: computes attention in its own way"])
    text = "\n".join(plain([*render_summary(run), *render_run(run)]))
    assert "no attention was seen" in text
    assert "Not seen: a: computes attention in its own way" in text
    assert "No head was seen." in text
