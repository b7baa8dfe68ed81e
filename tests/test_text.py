"""`regard.text`: tokens of any script, each with its span."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.text import Token, tokenize


def words(text: str) -> list[str]:
    return [token.text for token in tokenize(text)]


# ── words and marks ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I love apple phones", ["I", "love", "apple", "phones"]),
        ("The cat sat.", ["The", "cat", "sat", "."]),
        ("  two\n\nwords\t", ["two", "words"]),
        ("wait... what?!", ["wait", ".", ".", ".", "what", "?", "!"]),
        ("a-b_c/d", ["a", "-", "b", "_", "c", "/", "d"]),
        ("R2D2 has 3½ legs", ["R2D2", "has", "3½", "legs"]),
        ("1,024 = 2^10", ["1", ",", "024", "=", "2", "^", "10"]),
        ("“quoted”", ["“", "quoted", "”"]),
        ("", []),
        (" \t\n\u00a0\u3000\u2028", []),
    ],
)
def test_words_and_punctuation_marks_are_tokens_and_spaces_are_not(
    text: str, expected: list[str]
) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't", ["don't"]),
        ("don’t l’homme", ["don’t", "l’homme"]),
        ("rock'n'roll", ["rock'n'roll"]),
        ("'tis", ["'", "tis"]),
        ("dogs' tails", ["dogs", "'", "tails"]),
        ("'quoted'", ["'", "quoted", "'"]),
        ("a''b", ["a", "'", "'", "b"]),
        ("5'3", ["5'3"]),
        ("我'我", ["我", "'", "我"]),
    ],
)
def test_an_apostrophe_belongs_to_a_word_only_inside_it(text: str, expected: list[str]) -> None:
    assert words(text) == expected


# ── scripts ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("আমি বাংলায় গান গাই।", ["আমি", "বাংলায়", "গান", "গাই", "।"]),
        ("ক্ষুধা র‍্যাব", ["ক্ষুধা", "র‍্যাব"]),  # a conjunct, and one that a joiner holds open
        ("나는 사과폰을 사랑해.", ["나는", "사과폰을", "사랑해", "."]),
        (
            unicodedata.normalize("NFD", "한국어 말"),
            [*unicodedata.normalize("NFD", "한국어 말").split()],
        ),
        ("我爱苹果。", ["我", "爱", "苹", "果", "。"]),
        ("りんごフォン", ["り", "ん", "ご", "フ", "ォ", "ン"]),
        ("GPT模型2号", ["GPT", "模", "型", "2", "号"]),
        ("が", ["が"]),  # a kana and its combining mark
        ("می‌خواهم بروم", ["می‌خواهم", "بروم"]),  # a non-joiner inside a word
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("Привет, мир", ["Привет", ",", "мир"]),
        ("naïve café", ["naïve", "café"]),
        (
            unicodedata.normalize("NFD", "naïve café"),
            [*unicodedata.normalize("NFD", "naïve café").split()],
        ),
        ("סָלוֹם", ["סָלוֹם"]),
        ("آية\u06dd", ["آية", "\u06dd"]),  # drawn, though its category says format
    ],
)
def test_text_in_any_script_splits_where_a_reader_would(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    "emoji",
    [
        "😀",
        "👩‍🔬",  # joined
        "👩🏽‍🔬",  # with a skin tone, joined
        "👨‍👩‍👧‍👦",
        "❤️‍🔥",
        "🏳️‍🌈",
        "🙂‍↔️",  # joined to a mathematical sign
        "👍🏿",
        "1️⃣",
        "🇧🇩",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # Scotland
    ],
)
def test_an_emoji_of_several_code_points_is_one_token(emoji: str) -> None:
    assert words(emoji) == [emoji]
    assert words(f"so {emoji}!") == ["so", emoji, "!"]
    assert words(emoji * 2) in ([emoji, emoji], [emoji * 2])


def test_flags_are_read_two_letters_at_a_time() -> None:
    assert words("🇰🇷🇧🇩") == ["🇰🇷", "🇧🇩"]
    assert words("🇰🇷🇧") == ["🇰🇷", "🇧"]
    assert words("🇰x") == ["🇰", "x"]


@pytest.mark.parametrize(
    "invisible", ["\x00", "\x1b", "\x7f", "\u200b", "\u2060", "\ufeff", "\u200e"]
)
def test_control_and_format_characters_are_no_tokens(invisible: str) -> None:
    assert words(invisible) == []
    assert words(f"a {invisible} b") == ["a", "b"]
    assert words(f"{invisible}a") == ["a"]
    assert words(f"a{invisible}") == ["a"]


@pytest.mark.parametrize("before", ["", " ", "\n", "\x00", "\u200b"])
def test_a_mark_with_nothing_to_stand_on_is_a_token_of_its_own(before: str) -> None:
    assert tokenize(before + "\u0301") == [Token("\u0301", len(before), len(before) + 1)]


def test_a_mark_before_letters_belongs_to_their_word() -> None:
    assert words("\u09bfকছু") == ["\u09bfকছু"]  # a vowel sign cut off from its consonant


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"])
def test_a_joiner_with_nothing_before_it_hides_nothing_after_it(joiner: str) -> None:
    assert [word.strip(joiner) for word in words(f"{joiner}abc")] == ["abc"]
    assert [word.strip(joiner) for word in words(f" {joiner}❤")] == ["❤"]
    assert words(joiner) == []


def test_a_token_knows_where_it_stands() -> None:
    assert tokenize("I  don't 爱!") == [
        Token("I", 0, 1),
        Token("don't", 3, 8),
        Token("爱", 9, 10),
        Token("!", 10, 11),
    ]


# ── any text at all ───────────────────────────────────────────────────────────────────────────

DIFFICULT = [
    *"aZ5 '’_-.\t\n\x00\u00a0",
    *"ক্ষা한가我がカー",
    *"\u0301\u0308\u200b\u200c\u200d\ufe0f\u20e3\u00ad\ufeff",
    *"❤👩🔬🏽🇧🇩🏴↔\U000e0067\U000e007f",
    *"\u06dd\u0600\ud800\udfff\ue000\U0010ffff",
]
any_text = st.text() | st.text(st.sampled_from(DIFFICULT), max_size=12)


# Unicode's Prepended_Concatenation_Mark: format characters that one can see.
SEEN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


def is_visible(character: str) -> bool:
    hidden = character.isspace() or unicodedata.category(character) in ("Cc", "Cf")
    return not hidden or ord(character) in SEEN


def joins_the_one_before(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Mn", "Mc", "Me")
        or character in "\u200c\u200d"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


@given(text=any_text)
@example(text="\u200c")
@example(text=" \u0301")
def test_spans_index_the_text_in_order_and_never_overlap(text: str) -> None:
    at = 0
    for token in tokenize(text):
        assert at <= token.start < token.end <= len(text)
        assert token.text == text[token.start : token.end]
        at = token.end


@given(text=any_text)
def test_every_visible_character_is_in_a_token(text: str) -> None:
    covered = {i for token in tokenize(text) for i in range(token.start, token.end)}
    left_out = [text[i] for i in range(len(text)) if i not in covered]
    assert not any(map(is_visible, left_out))


@given(text=any_text)
def test_every_token_has_something_to_see_and_no_space_in_it(text: str) -> None:
    for token in tokenize(text):
        assert any(map(is_visible, token.text))
        assert not any(c.isspace() for c in token.text)


@given(text=any_text)
def test_no_token_ends_inside_a_character_of_several_code_points(text: str) -> None:
    for token in tokenize(text):
        if token.end < len(text):
            assert not joins_the_one_before(text[token.end])
            joined = text[token.end - 1] == "\u200d"
            assert not (joined and unicodedata.category(text[token.end]) == "So")


@given(text=any_text)
def test_no_token_starts_inside_a_character_of_several_code_points(text: str) -> None:
    for token in tokenize(text):
        if joins_the_one_before(token.text[0]) and token.start:
            before = text[token.start - 1]
            assert not is_visible(before)


@given(text=any_text)
def test_splitting_a_token_again_gives_the_token(text: str) -> None:
    for token in tokenize(text):
        assert words(token.text) == [token.text]


@given(left=any_text, right=any_text)
def test_a_space_separates_what_stands_left_and_right_of_it(left: str, right: str) -> None:
    assert words(f"{left} {right}") == words(left) + words(right)
