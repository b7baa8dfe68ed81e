"""The studio's check page in the browser: findings beside the text, menus, the difference."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.slides import pdf

from regard.worked import check_text, fix_text

Visit = Callable[..., Any]

WRONG = """# Three tokens

X = [[1, 0], [0, 1], [1, 1]]
W_Q = [[1, 2], [0, 1]]
W_K = [[1, 0], [1, 1]]

q_the = [1, 2]
q_cat = [0, 1]
q_sat = [1, 3]

K = [[1, 0], [1, 1], [2, 5]]

Raw scores, Q Kᵀ

| | the | cat | sat |
|---|---|---|---|
| the | 1 | 3 | 12 |
| cat | 0 | 1 | 5 |
| sat | 1 | 4 | 17 |

By hand: 3·1 + 2·(−1) + 4·2 = 10.

Another one

[[1, 2], [3, 4]]
"""
# A mark is where it should be only if letters beyond 2¹⁶ are counted once.
HOSTILE = (
    "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">\n\n"
    "😀 אבג \u202e abc\n\n"
    "Q = [[2, 3]]\nK = [[1, 0], [0, 1]]\n"
    "😀😀 <b onclick=x>שלום</b> scores = [[2, 4]] 😀\n\n"
)


def _paste(page: Any, text: str) -> None:
    page.get_by_role("textbox", name="Worked example").fill(text)
    page.get_by_role("button", name="Check it").click()
    page.wait_for_selector(".beside")


def _open(page: Any, path: Path, content: str | bytes) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    page.set_input_files("input[type=file]", path)


def _is_in_sight(page: Any, selector: str) -> bool:
    return page.evaluate(
        """(selector) => {
            const found = document.querySelector(selector).getBoundingClientRect();
            const frame = document.querySelector(".numbered").getBoundingClientRect();
            const bottom = Math.min(innerHeight, frame.bottom);
            return found.top >= Math.max(0, frame.top) && found.bottom <= bottom;
        }""",
        selector,
    )


def _menu(page: Any, line: int) -> Any:
    return page.locator(f".line[data-line='{line}'] select")


def _say(page: Any, line: int, kind: str) -> None:
    """Choose in the menu of a line, and wait until the text was checked again."""
    page.evaluate("document.querySelector('.verdict').classList.add('before')")
    _menu(page, line).select_option(kind)
    page.wait_for_selector(".verdict:not(.before)")


def test_first_causes_and_what_follows_from_them_are_marked_where_they_stand(visit: Visit) -> None:
    page = visit("#page=check")
    _paste(page, WRONG)
    report = check_text(WRONG)
    for origin in ("first", "inherited"):
        cells = [cell for cell in report.wrong if cell.origin == origin]
        cells.sort(key=lambda cell: cell.figure.start)
        assert cells
        marks = page.locator(f"mark.{origin}")
        assert marks.all_text_contents() == [cell.figure.text for cell in cells]
        lines = marks.evaluate_all("all => all.map((m) => Number(m.closest('.line').dataset.line))")
        assert lines == [cell.line for cell in cells]
    words = page.locator("main").text_content()
    assert f"{len(report.wrong)} of {report.checked} checked numbers are wrong" in words
    assert f"{report.checked} numbers in {report.statements} statements checked" in words
    assert page.locator(".said").all_text_contents() == WRONG.splitlines()


def test_a_finding_leads_to_its_line_and_a_marked_cell_to_its_finding(visit: Visit) -> None:
    page = visit("#page=check")
    _paste(page, WRONG.replace("\n\nBy hand", "\n\n" + "So it goes on.\n\n" * 60 + "By hand"))
    assert not _is_in_sight(page, ".numbered .block:last-child mark")
    page.locator(".findings button", has_text="3·1").click()
    assert _is_in_sight(page, ".numbered .block:last-child mark")
    assert page.locator("mark[aria-current]").text_content() == "10"
    assert page.locator(".line.here mark").text_content() == "10"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    current = page.locator(".findings [aria-current]")
    assert "scores[sat, sat]" in current.text_content()
    assert current.evaluate("found => found === document.activeElement")
    page.locator("mark", has_text="12").click()
    assert "12 should be 4" in page.locator(".findings [aria-current]").text_content()


def test_what_a_matrix_was_taken_for_is_said_anew_in_its_menu(visit: Visit) -> None:
    page = visit("#page=check")
    _paste(page, WRONG)
    menus = page.locator(".numbered select")
    values = "all => all.map((menu) => [Number(menu.closest('.line').dataset.line), menu.value])"
    read = [[3, "X"], [4, "W_Q"], [5, "W_K"], [7, "Q"], [11, "K"], [17, "scores"], [25, ""]]
    assert menus.evaluate_all(values) == read
    before = page.locator(".verdict").text_content()
    page.locator(".findings button", has_text="Another one").click()
    assert _menu(page, 25).evaluate("menu => menu === document.activeElement")
    _say(page, 25, "ignore")
    assert page.locator(".findings", has_text="Another one").count() == 0
    # The rows of Q are written one by one, and are named together; its menu has the focus again.
    _say(page, 7, "ignore")
    assert _menu(page, 7).evaluate("menu => [menu.value, menu === document.activeElement]") == [
        "ignore",
        True,
    ]
    taken = {"25": "ignore", **dict.fromkeys("789", "ignore")}
    expected = check_text(WRONG, taken_as=taken)
    words = f"{len(expected.wrong)} of {expected.checked} checked"
    assert page.locator(".verdict").text_content().startswith(words)
    _say(page, 7, "take back")
    _say(page, 25, "take back")
    assert page.locator(".verdict").text_content() == before
    assert menus.evaluate_all(values) == read
    # What cannot be is refused in words, and all stays as it was.
    _menu(page, 11).evaluate("menu => { menu.options[1].value = 'nonsense'; }")
    _say(page, 11, "nonsense")
    assert "there is no kind 'nonsense'" in page.get_by_role("alert").text_content()
    assert menus.evaluate_all(values) == read


def test_fix_shows_the_difference_then_hands_out_the_fixed_text(
    visit: Visit, tmp_path: Path
) -> None:
    page = visit("#page=check")
    text = "\ufeff" + WRONG.replace("\n", "\r\n")  # which a field would not keep
    _open(page, tmp_path / "notes.of-mine.md", text)
    page.get_by_role("button", name="Fix …").click()
    page.wait_for_selector(".change")
    fixed = fix_text(check_text(text))
    changed = [
        (old.strip(), new.strip())
        for old, new in zip(text.splitlines(), fixed.splitlines(), strict=True)
        if old != new
    ]
    shown = [
        [
            row.strip()
            for row in page.locator(f".changes tr.{side} td:last-child").all_text_contents()
        ]
        for side in ("old", "new")
    ]
    assert list(zip(*shown, strict=True)) == changed
    assert page.locator(".changes del").all_text_contents() == ["5", "12", "5", "17", "10"]
    assert page.locator(".changes ins").all_text_contents() == ["1", "4", "1", "5", "9"]
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "notes.of-mine-fixed.md"
    assert download.value.path().read_bytes() == fixed.encode()
    page.get_by_role("button", name="Go on with the fixed text").click()
    page.get_by_text("Nothing wrong").wait_for()
    assert page.locator("mark").count() == 0


def test_a_dropped_file_and_pasted_texts_are_checked_and_what_was_not_understood_is_told(
    visit: Visit,
) -> None:
    page = visit("#page=check")
    page.wait_for_selector("textarea")
    page.evaluate(
        """() => {
            const dropped = new DataTransfer();
            const text = '{"Q": [[2, 3]], "K": [[1, 0], [0, 1]], "scores": [[2, 7]]}';
            dropped.items.add(new File([text], "notes.json"));
            const options = { dataTransfer: dropped, bubbles: true, cancelable: true };
            for (const kind of ["dragover", "drop"]) {
                document.querySelector("textarea").dispatchEvent(new DragEvent(kind, options));
            }
        }"""
    )
    page.wait_for_selector("mark.first")
    assert page.locator("mark").all_text_contents() == ["7"]
    assert "notes.json: 2 numbers" in page.locator("main").text_content()
    assert page.locator(".dropping").count() == 0
    page.get_by_role("button", name="Edit the text, or check another").click()
    page.get_by_role("textbox", name="Worked example").fill("")
    _paste(page, "Nothing but words.")  # no JSON any more
    assert "Nothing could be checked" in page.locator(".verdict").text_content()
    assert page.get_by_role("button", name="Fix …").count() == 0
    page.get_by_role("button", name="Edit the text, or check another").click()
    text = "Q = [[2, 3]]\nK = [[1, 0], [0, 1]]\nscores = [[2, 3]]\n\nM = [[1, a], [2, b]]\n"
    _paste(page, text)
    assert "Nothing wrong: all 2 numbers" in page.locator(".verdict").text_content()
    assert "1 statement not understood (line 5)" in page.locator("main").text_content()
    ((line, what),) = check_text(text).passed_over
    assert page.locator(".findings button", has_text=what).count() == 1
    assert page.locator(f".line.passed[data-line='{line}']").count() == 1


def test_a_file_that_cannot_be_read_is_refused_in_words(visit: Visit, tmp_path: Path) -> None:
    page = visit("#page=check")
    for name, content, words in (
        ("broken.json", b'{"Q": [[1, 2]', "broken.json is not JSON"),
        ("broken.pdf", b"%PDF-1.4 nothing", "broken.pdf: no PDF that can be read"),
        ("large.pptx", b"a" * 2_900_001, "large.pptx has 2.9 MB"),
        ("picture.md", b"\x89PNG\0\0", "picture.md is no text"),
        ("latin.txt", "é = [[1]]".encode("latin-1"), "latin.txt is not UTF-8"),
        ("large.md", b"a" * 4_000_001, "large.md has 4.0 MB"),
        ("long.md", b"a" * 250_001, "over 250,000 characters"),
    ):
        _open(page, tmp_path / name, content)
        page.get_by_role("alert").filter(has_text=words).wait_for()
        assert page.get_by_role("button", name="Check it").is_enabled()


def test_slides_are_read_as_text(visit: Visit, tmp_path: Path) -> None:
    page = visit("#page=check")
    _open(page, tmp_path / "notes.pdf", pdf("Slide one\n1 + 2 = 4"))
    page.locator(".verdict + p", has_text="notes.pdf.txt").wait_for()
    assert page.locator("mark").all_text_contents() == ["4"]


def test_hostile_text_stays_text_with_its_marks_in_place(visit: Visit, tmp_path: Path) -> None:
    page = visit("#page=check")
    _paste(page, HOSTILE)
    page.get_by_role("button", name="Fix …").click()
    page.wait_for_selector(".change")
    assert page.locator(".changes ins").all_text_contents() == ["3"]
    assert page.locator("main :is(script, img, b[onclick])").count() == 0
    text = HOSTILE + "So <i>it</i> 😀 goes on and on, without any number in it.\n" * 3_500
    _open(page, tmp_path / "<img src=x onerror=alert(1)>.md", text)
    page.locator(".verdict + p", has_text="<img").wait_for()
    assert page.locator("mark").all_text_contents() == ["4"]
    before = "mark => mark.previousSibling.textContent"
    assert page.locator("mark").evaluate(before).endswith("</b> scores = [[2, ")
    assert page.locator("main :is(script, img, i)").count() == 0
    assert page.locator(".line").count() == text.count("\n")
    assert page.title() == "Check · Regard studio"


def test_text_and_findings_can_be_read_side_by_side_or_below_light_or_dark(visit: Visit) -> None:
    page = visit("#page=check")
    _paste(page, WRONG)
    for width, scheme in ((1280, "light"), (640, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        text, found = (page.locator(name).bounding_box() for name in (".numbered", ".findings"))
        is_beside = found["x"] >= text["x"] + text["width"]
        is_below = found["y"] >= text["y"] + text["height"]
        assert (is_beside, is_below) == ((True, False) if width == 1280 else (False, True))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ink, paper = page.locator("mark.inherited").first.evaluate(
            "mark => [getComputedStyle(mark).color, getComputedStyle(mark).backgroundColor]"
        )
        light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
        assert (light[0] > light[1]) is (scheme == "dark")
        assert abs(light[0] - light[1]) > 350
