"""<regard-text>: the text itself, shaded by attention; its numbers are those of Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.browser_page import Opened
from helpers.made_runs import ENGLISH, SENTENCES, long_text, made_run

from regard.run import Run
from regard.text import Token
from regard.view.html.run import run_page

OpenPage = Callable[..., Opened]

IT = 8  # “it” in the sentence

# The same run with other facts about its layers.
OTHER = """(facts) => {
    const element = document.querySelector("regard-text");
    const { source } = element;
    const layers = source.info.layers.map((layer) => ({ ...layer, ...facts }));
    const ask = (name) => [name, (...asked) => source[name](...asked)];
    element.source = {
        info: { ...source.info, layers },
        ...Object.fromEntries(["row", "column", "links", "rollout"].map(ask)),
    };
}"""


def tokens(opened: Opened) -> Any:
    return opened.page.locator("regard-text .text .token")


def place(opened: Opened, number: int) -> Any:
    return opened.page.locator(f'regard-text .text [data-place="{number}"]')


def readout(opened: Opened, number: int) -> str:
    place(opened, number).hover()
    return str(opened.page.locator("regard-text .readout").text_content())


def shade(opened: Opened, number: int) -> str:
    return str(place(opened, number).evaluate("(each) => getComputedStyle(each).backgroundColor"))


def brightness(colour: str) -> int:
    """The sum of red, green and blue; no colour is that of the page, white."""
    if colour == "rgba(0, 0, 0, 0)":
        return 3 * 255
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3])


def strongest(opened: Opened) -> list[tuple[int, str]]:
    """The list below the text: places, and numbers as they are written."""
    found = opened.page.locator("regard-text ol button").evaluate_all(
        "(all) => all.map((one) => [one.dataset.place, one.lastChild.textContent])"
    )
    return [(int(number), text) for number, text in found]


def expected_strongest(weights: torch.Tensor, count: int = 5) -> list[tuple[int, str]]:
    best = weights.topk(min(count, len(weights)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [(key, f"{weight:.4f}") for key, weight in pairs]


def close(found: list[tuple[int, str]], expected: list[tuple[int, str]]) -> None:
    """The same places; numbers to the last digit, which 16 bits of a weight may turn."""
    assert [number for number, _ in found] == [number for number, _ in expected]
    numbers = [float(text) for _, text in found]
    assert numbers == pytest.approx([float(text) for _, text in expected], abs=1.1e-4)


def test_it_says_what_to_do_and_a_click_shows_where_a_word_looks(open_page: OpenPage) -> None:
    run = made_run(causal=False)
    opened = open_page(run_page(run), address="#layer=1&head=2")
    lead = opened.page.locator("regard-text .lead")
    assert lead.text_content() == "Click a word to see where it looks."
    place(opened, IT).click()
    opened.settle()
    assert opened.state() == {"layer": "1", "head": "2", "token": str(IT)}
    assert "Where “it” looks, in head 2 of layer 1." in str(lead.text_content())
    weights = run.weights(1, 2)[0, IT]
    close(strongest(opened), expected_strongest(weights))
    assert "chosen" in str(place(opened, IT).get_attribute("class"))
    assert readout(opened, 1).startswith("it → animal ")
    assert float(readout(opened, 1).split()[-1]) == pytest.approx(float(weights[1]), abs=1.1e-4)


@pytest.mark.parametrize("of", ["layer", "all", "rollout"])
def test_the_numbers_of_a_layer_of_all_and_by_rollout_are_those_of_python(
    open_page: OpenPage, of: str
) -> None:
    run = made_run()
    opened = open_page(run_page(run), address=f"#layer=2&token=11&of={of}")
    layers = [run.weights(n)[0].mean(0)[11] for n in range(3)]
    expected = {
        "layer": layers[2],
        "all": torch.stack(layers).mean(0),
        "rollout": run.rollout(11),
    }
    close(strongest(opened), expected_strongest(expected[of]))
    pressed = opened.page.locator(f'regard-text [data-value="{of}"]').get_attribute("aria-pressed")
    assert pressed == "true"


def test_who_looks_at_a_word_is_its_column(open_page: OpenPage) -> None:
    run = made_run(causal=False)
    opened = open_page(run_page(run), address=f"#layer=1&head=2&token={IT}")
    opened.page.get_by_role("button", name="who looks at it").click()
    opened.settle()
    assert opened.state()["way"] == "to"
    column = run.weights(1, 2)[0, :, IT]
    close(strongest(opened), expected_strongest(column))
    assert readout(opened, 1).startswith("animal → it ")


def test_the_switches_are_in_the_address_and_choose_a_head(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#layer=1&token=5")
    for name, state in (
        ("one head", {"head": "0"}),
        ("all layers", {"head": "0", "of": "all"}),
        ("layer 1", {}),
        ("log", {"shades": "log"}),
        ("linear", {}),
    ):
        opened.page.get_by_role("button", name=name, exact=True).click()
        opened.settle()
        assert opened.state() == {"layer": "1", "token": "5", **state}


def test_log_shades_tell_small_weights_apart(open_page: OpenPage) -> None:
    run = made_run(causal=False, sharpness=5.0)
    opened = open_page(run_page(run), address=f"#layer=1&head=2&token={IT}")
    row = run.weights(1, 2)[0, IT]
    small = int(((row < row.max() / 100) & (row > row.max() / 500)).nonzero()[0])
    linear = brightness(shade(opened, small))
    opened.page.get_by_role("button", name="log", exact=True).click()
    opened.settle()
    assert brightness(shade(opened, small)) < linear - 30


def test_causal_heads_dim_what_cannot_be_seen(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#layer=1&head=2&token=5")
    dimmed = opened.page.locator("regard-text .token.dimmed").evaluate_all(
        "(all) => all.map((one) => Number(one.dataset.place))"
    )
    assert dimmed == list(range(6, tokens(opened).count()))
    assert readout(opened, 7).endswith("0.0000 (cannot be seen)")


def test_a_long_text_is_short_work_and_says_what_is_not_there(open_page: OpenPage) -> None:
    run = made_run(long_text(2003), layers=2, heads=3, keep=False)
    opened = open_page(run_page(run), address="#layer=1&head=2&token=1999")
    assert tokens(opened).count() == 2003
    nodes = opened.ask("element.shadowRoot.querySelectorAll('*').length")
    assert nodes < 2003 + 200
    layer = run.layer(1)
    assert layer.top_keys is not None
    assert layer.top_weights is not None
    keys, weights = layer.top_keys[0, 2, 1999], layer.top_weights[0, 2, 1999]
    found = strongest(opened)
    assert [number for number, _ in found] == keys[:5].tolist()
    notes = opened.page.locator("regard-text .notes").text_content()
    said = re.search(r"(0\.\d+) of the weight is on tokens not listed in this file", notes or "")
    assert said is not None
    assert float(said[1]) == pytest.approx(1 - float(weights.sum()), abs=3e-4)
    # The text scrolls, the page does not; the strongest is gone to from the list.
    assert opened.ask("document.documentElement.scrollHeight - innerHeight") < 200
    opened.page.locator("regard-text ol button").first.click()
    opened.settle()
    focus = "Number(element.shadowRoot.activeElement.dataset.place)"
    assert opened.ask(focus) == int(keys[0])
    seen = """[element.shadowRoot.activeElement, element.shadowRoot.querySelector(".text")]
        .map((each) => each.getBoundingClientRect())"""
    inner, outer = opened.ask(seen)
    assert outer["top"] <= inner["top"]
    assert inner["bottom"] <= outer["bottom"]


def test_only_the_shades_that_changed_are_touched(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(long_text(503), layers=1, heads=2)), address="#token=400")
    opened.page.evaluate(
        """() => {
            window.touched = new Set();
            const text = document.querySelector("regard-text").shadowRoot.querySelector(".text");
            window.kept = text.querySelector(".token");
            new MutationObserver((all) => all.forEach((one) => touched.add(one.target)))
                .observe(text, { attributes: true, subtree: true, childList: true });
        }"""
    )
    opened.page.evaluate("location.hash = '#token=401'")
    opened.settle()
    assert opened.page.evaluate("touched.size") < 503 / 2
    assert opened.page.evaluate("kept.isConnected")


@pytest.mark.parametrize("name", SENTENCES)
def test_every_language_is_set_as_its_text(open_page: OpenPage, name: str) -> None:
    opened = open_page(run_page(made_run(SENTENCES[name], layers=1, heads=2)), address="#token=2")
    shown = opened.page.locator("regard-text .text").text_content()
    assert shown == SENTENCES[name].replace("\u202e", "")
    assert opened.page.locator("regard-text .text b, regard-text .text script").count() == 0


def test_special_tokens_are_chips_and_pieces_of_a_letter_follow_their_word(
    open_page: OpenPage,
) -> None:
    text = "물이 unbelievable\nx"
    spans = [(0, 0), (0, 1), (0, 1), (0, 1), (1, 2), (2, 7), (7, 15), (15, 16), (16, 17), (0, 0)]
    names = [text[start:end] or "[CLS]" for start, end in spans]
    run = made_run(" ".join("x" * len(spans)), layers=1, heads=2, causal=False)
    read = [Token(name, *span) for name, span in zip(names, spans, strict=True)]
    run = Run(run.layers, model="made up", text=text, tokens=[read])
    opened = open_page(run_page(run), address="#token=6")
    kinds = tokens(opened).evaluate_all(
        "(all) => all.map((one) => [one.className, one.textContent])"
    )
    assert kinds == [
        ["token special", "[CLS]"],
        ["token", "물"],
        ["token", "이"],
        ["token part", "물 2/3"],
        ["token part", "물 3/3"],
        ["token", "unbe"],
        ["token chosen", "lievable"],
        ["token blank", "⏎\n"],
        ["token", "x"],
        ["token special", "[CLS]"],
    ]
    assert readout(opened, 3).startswith("lievable → 물 (3/3) ")
    # Pieces of a word stand together.
    left, right = (place(opened, n).bounding_box() for n in (5, 6))
    assert left["x"] + left["width"] == pytest.approx(right["x"], abs=0.6)


def test_keys_alone_choose_a_word_and_let_it_go(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(ENGLISH)), address="#layer=1&head=2")
    stops = "element.shadowRoot.querySelectorAll('.text [tabindex]').length"
    assert opened.ask(stops) == 1
    opened.page.locator('regard-text [data-value="log"]').focus()
    opened.page.keyboard.press("Tab")
    focus = "Number(element.shadowRoot.activeElement.dataset.place)"
    assert opened.ask(focus) == 0
    for key, number in (("ArrowRight", 1), ("ArrowRight", 2), ("End", 12), ("ArrowLeft", 11)):
        opened.page.keyboard.press(key)
        assert opened.ask(focus) == number
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert opened.state()["token"] == "11"
    assert opened.ask(focus) == 11
    opened.page.keyboard.press("Home")
    assert opened.ask(stops) == 1
    assert str(opened.page.locator("regard-text .readout").text_content()).startswith(
        "tired → The "
    )
    opened.page.keyboard.press("Escape")
    opened.settle()
    assert "token" not in opened.state()


def test_arrows_go_to_the_line_below_and_back(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(long_text(97), layers=1)), address="#layer=0", width=700)
    place(opened, 0).focus()
    opened.page.keyboard.press("ArrowDown")
    below = opened.ask("element.shadowRoot.activeElement.getBoundingClientRect()")
    first = place(opened, 0).bounding_box()
    assert below["top"] > first["y"]
    assert below["left"] == pytest.approx(first["x"], abs=8)
    opened.page.keyboard.press("ArrowUp")
    assert opened.ask("element.shadowRoot.activeElement.dataset.place") == "0"


def test_it_can_be_read_in_the_light_and_in_the_dark(open_page: OpenPage) -> None:
    html = run_page(made_run(causal=False))
    seen: list[set[str]] = []
    for dark in (False, True):
        opened = open_page(html, address=f"#layer=1&head=2&token={IT}", dark=dark)
        pairs = tokens(opened).evaluate_all(
            """(all) => all.map((one) => {
                const luminance = (text) => {
                    const parts = text.match(/[\\d.]+/g).slice(0, 3).map((x) => x / 255);
                    const [r, g, b] = parts.map(
                        (x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
                    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
                };
                const { color, backgroundColor } = getComputedStyle(one);
                const page = getComputedStyle(document.body).backgroundColor;
                const back = backgroundColor === "rgba(0, 0, 0, 0)" ? page : backgroundColor;
                const [low, high] = [luminance(color), luminance(back)].sort((a, b) => a - b);
                return [back, (high + 0.05) / (low + 0.05)];
            })"""
        )
        assert min(contrast for _, contrast in pairs) > 4
        seen.append({colour for colour, _ in pairs})
    assert not seen[0] & seen[1]


def test_shades_follow_when_the_system_turns_dark(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(causal=False)), address=f"#layer=1&head=2&token={IT}")
    best = strongest(opened)[0][0]
    light = shade(opened, best)
    opened.page.emulate_media(color_scheme="dark")
    opened.settle()
    assert shade(opened, best) != light


def test_padding_is_not_shown(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()))
    opened.page.evaluate(OTHER, {"real": [[n >= 3 for n in range(13)]]})
    opened.settle()
    first = tokens(opened).first.get_attribute("data-place")
    assert (first, tokens(opened).count()) == ("3", 10)
    assert "Padding is not shown." in str(opened.page.locator("regard-text .notes").text_content())


def test_a_layer_that_looks_at_another_text_has_numbers_and_says_so(open_page: OpenPage) -> None:
    run = made_run(causal=False)
    opened = open_page(run_page(run), address="#token=5&head=1")
    opened.page.evaluate(OTHER, {"cross": True, "named": False})
    opened.settle()
    n = len(run.weights(0, 1)[0])
    close(
        [(number - n, text) for number, text in strongest(opened)],
        expected_strongest(run.weights(0, 1)[0, 5]),
    )
    assert readout(opened, n + 3).startswith("query 5 → key 3 ")
    assert "they have numbers" in str(opened.page.locator("regard-text .notes").text_content())


def test_an_answer_that_comes_late_is_not_drawn(open_page: OpenPage) -> None:
    run = made_run(causal=False)
    opened = open_page(run_page(run), address="#layer=1&head=2")
    opened.page.evaluate(
        """async () => {
            const element = document.querySelector("regard-text");
            const { source } = element;
            const row = async (...asked) => {
                const answer = await source.row(...asked);
                if (asked[3] === 3) await new Promise((done) => setTimeout(done, 150));
                return answer;
            };
            element.source = { info: source.info, row };
            element.state = { ...element.state, token: 3 };
            await new Promise((done) => setTimeout(done, 50));
            element.state = { ...element.state, token: 7 };
            await new Promise((done) => setTimeout(done, 250));
        }"""
    )
    opened.settle()
    close(strongest(opened), expected_strongest(run.weights(1, 2)[0, 7]))


def test_a_narrow_window_holds_it(open_page: OpenPage) -> None:
    html = run_page(made_run(long_text(211)))
    opened = open_page(html, address="#layer=1&head=2&token=90", width=400, height=700)
    assert opened.ask("document.documentElement.scrollWidth") <= 400
