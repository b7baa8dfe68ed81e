"""Configurations: frozen, checked field by field, and the same after a way through JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.nn import (
    ALiBi,
    EncoderModelConfig,
    LanguageModelConfig,
    Learned,
    MaskedLanguageModelConfig,
    NoPosition,
    NotesNorm,
    Position,
    PostNorm,
    PreNorm,
    RelativeBias,
    Residual,
    Rotary,
    SequenceClassifierConfig,
    Sinusoidal,
    StackConfig,
    TransformerConfig,
)
from regard.nn.serialization import Described

KINDS: list[type[StackConfig]] = [
    StackConfig,
    LanguageModelConfig,
    EncoderModelConfig,
    MaskedLanguageModelConfig,
    SequenceClassifierConfig,
    TransformerConfig,
]
NEEDED: dict[str, Any] = {"width": 12, "heads": 3, "vocabulary": 11, "classes": 5}


def made(kind: type[StackConfig], **changes: Any) -> StackConfig:
    own = {field.name for field in dataclasses.fields(kind)}
    values = {name: value for name, value in NEEDED.items() if name in own}
    return kind(**(values | changes))


# ── what is filled in ─────────────────────────────────────────────────────────────────────────


def test_what_is_left_out_follows_from_the_rest() -> None:
    config = StackConfig(width=12, heads=3)
    assert (config.kv_heads, config.head_width, config.value_width, config.hidden) == (3, 4, 4, 48)
    assert config.attention_bias is True
    assert config.final_norm is True
    config = StackConfig(width=12, heads=5, head_width=7, bias=False, residual=PostNorm())
    assert (config.head_width, config.value_width) == (7, 7)
    assert config.attention_bias is False
    assert config.final_norm is False
    assert TransformerConfig(width=12, heads=3, vocabulary=11, layers=5).decoder_layers == 5


def test_a_config_cannot_be_changed_and_may_be_a_key() -> None:
    config = StackConfig(width=12, heads=3, position=Rotary())
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.width = 13  # pyright: ignore[reportAttributeAccessIssue]
    assert {config: 1}[StackConfig(width=12, heads=3, position=Rotary())] == 1
    assert config != StackConfig(width=12, heads=3, position=Rotary(base=3.0))


# ── what is refused ───────────────────────────────────────────────────────────────────────────

NO_COUNTS: list[Any] = [-1, 1.0, "3", True, None, [3], float("nan"), {}]
NO_FLAGS: list[Any] = [0, 1, "true", [], 0.0]
NO_NAMES: list[Any] = ["Whole", "", 3, True, ["whole"], b"whole", None]
NO_SHARES: list[Any] = [-0.1, 1.0, 1.5, float("nan"), float("inf"), "0.1", True, [0.1], 10**400]

WRONG: dict[str, list[Any]] = {
    name: values
    for names, values in (
        ("width heads layers vocabulary classes", [*NO_COUNTS, 0]),
        ("kv_heads head_width value_width hidden", NO_COUNTS),
        ("segments target_vocabulary decoder_layers", NO_COUNTS),
        ("value_rank window", [0, *(value for value in NO_COUNTS if value is not None)]),
        ("bias tied head_bias causal embedding_norm embedding_scale pooler", [*NO_FLAGS, None]),
        ("attention_bias final_norm", NO_FLAGS),
        ("split activation norm pooling", NO_NAMES),
        ("norm_eps", [-1e-5, float("nan"), float("inf"), "1e-5", True, None, 10**400]),
        ("dropout", [*NO_SHARES, None]),
        ("attention_dropout hidden_dropout", NO_SHARES),
        ("residual", [None, "PreNorm", PreNorm, Rotary(), {}]),
        ("position", [None, "Rotary", Rotary, PreNorm(), {}]),
    )
    for name in names.split()
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_checked_and_named_in_the_error(kind: type[StackConfig]) -> None:
    for field in dataclasses.fields(kind):
        for value in WRONG[field.name]:
            with pytest.raises(ValueError, match=rf"^{kind.__name__}\(\): {field.name} must be "):
                made(kind, **{field.name: value})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heads": 5}, "width must be a multiple of the 5 heads; got 12. Or give head_width."),
        ({"kv_heads": 2}, "kv_heads must be a divisor of the 3 heads; got 2."),
        ({"kv_heads": 6}, "kv_heads must be a divisor of the 3 heads; got 6."),
        ({"activation": "tanh"}, "activation must be one of relu, gelu"),
        ({"dropout": 1}, "dropout must be a number of at least 0 and below 1; got 1."),
        ({"position": "Rotary"}, "position must be a Position (ALiBi, Learned, NoPosition"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_words(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=r"^StackConfig\(\): ") as caught:
        made(StackConfig, **changes)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Rotary(width=3), "Rotary(): width must be even; got 3."),
        (lambda: Rotary(width=0), "Rotary(): width must be at least 1; got 0."),
        (lambda: Rotary(base=0.5), "Rotary(): base must be at least 1; got 0.5. It is a number of"),
        (lambda: Rotary(base=math.nan), "Rotary(): base must be a finite number; got nan."),
        (lambda: Rotary(base=10**400), "Rotary(): base must be a number that a float can hold"),
        (lambda: Rotary(pairing="odd"), "Rotary(): pairing must be one of halves, neighbours"),  # pyright: ignore[reportArgumentType]
        (lambda: Sinusoidal(base=math.inf), "Sinusoidal(): base must be a finite number"),
        (lambda: Sinusoidal(layout=3), "Sinusoidal(): layout must be one of interleaved"),  # pyright: ignore[reportArgumentType]
        (lambda: Learned(0), "Learned(): length must be at least 1; got 0."),
        (lambda: Learned(True), "Learned(): length must be a whole number"),
        (lambda: RelativeBias(6), "RelativeBias(): buckets must be a multiple of 4; got 6."),
        (lambda: RelativeBias(0), "RelativeBias(): buckets must be at least 1; got 0."),
        (lambda: RelativeBias(32, 16), "distance must be more than half of the 32 buckets; got 16"),
    ],
)
def test_positions_are_checked_too(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "a description must be an object with a type; got None"),
        ([], "an object with a type"),
        ({}, "an object with a type"),
        ({"type": 3}, "an object with a type"),
        ({"type": "int"}, "type must be one of EncoderModelConfig, LanguageModelConfig"),
        ({"type": "Rotary"}, "StackConfig, TransformerConfig; got 'Rotary'"),
        ({"type": "_TokenConfig", "width": 3}, "type must be one of"),
        ({"type": "StackConfig", "width": 3}, "a value for heads"),
        ({"type": "StackConfig", "width": 3, "heads": 1, "x": 1, "y": 2}, "no 'x' and no 'y'"),
        ({"type": "StackConfig", "width": 3, "heads": 1, "position": {}}, "object with a type"),
        ({"type": "StackConfig", "width": {"type": "ALiBi"}, "heads": 1}, "width must be a whole"),
    ],
)
def test_a_description_of_something_else_is_refused(content: Any, words: str) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        StackConfig.from_dict(content)
    assert words in str(caught.value)
    with pytest.raises(ValueError, match="must"):
        StackConfig.from_json(json.dumps(content))


@pytest.mark.parametrize("base", ["Position", "Residual", "Described"])
def test_a_base_is_no_description(base: str) -> None:
    with pytest.raises(ValueError, match="type must be one of ALiBi, EncoderModelConfig"):
        Described.from_dict({"type": base})


def test_what_is_nested_deeply_is_refused_in_words() -> None:
    deep: Any = {"type": "Rotary"}
    for _ in range(100_000):
        deep = {"type": "Rotary", "base": deep}
    with pytest.raises(ValueError, match="nothing described inside it; got"):
        Described.from_dict(deep)
    with pytest.raises(ValueError, match="an object with a type; got"):
        Described.from_dict([[deep]])
    with pytest.raises(ValueError, match="not JSON"):
        Described.from_json("[" * 100_000)
    while "base" in deep:  # taken apart by hand: to free it all at once may need a deep stack
        deep = deep["base"]
    with pytest.raises(ValueError, match="not JSON"):
        Described.from_json("{'type': 'Rotary'}")


# ── through JSON and back ─────────────────────────────────────────────────────────────────────

finite = st.floats(1.0, 1e300)
positions: st.SearchStrategy[Position] = st.one_of(
    st.just(NoPosition()),
    st.just(ALiBi()),
    st.builds(Learned, st.integers(1, 10**6)),
    st.builds(Sinusoidal, finite, st.sampled_from(["interleaved", "halves"])),
    st.builds(
        Rotary,
        finite,
        st.sampled_from(["halves", "neighbours"]),
        st.none() | st.integers(1, 99).map(lambda n: 2 * n),
    ),
    st.builds(lambda n: RelativeBias(4 * n, 8 * n), st.integers(1, 99)),
)
residuals: st.SearchStrategy[Residual] = st.sampled_from([PostNorm(), PreNorm(), NotesNorm()])
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("layers", "classes", "vocabulary"), st.integers(1, 10**6)),
    **dict.fromkeys(
        ("head_width", "value_width", "hidden", "segments", "target_vocabulary", "decoder_layers"),
        st.integers(0, 10**6),
    ),
    **dict.fromkeys(("value_rank", "window"), st.none() | st.integers(1, 10**6)),
    **dict.fromkeys(
        ("bias", "tied", "head_bias", "causal", "embedding_norm", "embedding_scale", "pooler"),
        st.booleans(),
    ),
    **dict.fromkeys(("attention_bias", "final_norm"), st.none() | st.booleans()),
    "split": st.sampled_from(["whole", "slices"]),
    "activation": st.sampled_from(["relu", "gelu", "gelu_tanh", "silu", "swiglu"]),
    "norm": st.sampled_from(["layer", "rms"]),
    "pooling": st.sampled_from(["mean", "first"]),
    "norm_eps": st.floats(0.0, 1e300),
    "dropout": st.floats(0.0, 1.0, exclude_max=True),
    **dict.fromkeys(
        ("attention_dropout", "hidden_dropout"), st.none() | st.floats(0.0, 1.0, exclude_max=True)
    ),
    "residual": residuals,
    "position": positions,
}


@st.composite
def configs(draw: st.DrawFn) -> StackConfig:
    kind = draw(st.sampled_from(KINDS))
    own = {field.name for field in dataclasses.fields(kind)}
    values = draw(st.fixed_dictionaries({}, optional={n: s for n, s in FIELDS.items() if n in own}))
    kv_heads, group = draw(st.integers(1, 99)), draw(st.integers(1, 99))
    heads = kv_heads * group
    sizes = {"width": heads * draw(st.integers(1, 99)), "heads": heads, "kv_heads": kv_heads}
    return made(kind, **(values | sizes))


@settings(max_examples=150, deadline=None)
@given(configs())
def test_a_config_is_the_same_after_a_way_through_json(config: StackConfig) -> None:
    for indent in (None, 2):
        again = StackConfig.from_json(config.to_json(indent))
        assert type(again) is type(config)
        assert again == config
    assert type(config).from_dict(config.to_dict()) == config
    assert json.loads(config.to_json()) == config.to_dict()


everything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["Rotary", "StackConfig", "PreNorm", "Learned", "relu"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "width", "heads", "base"]), inner, max_size=4)
    ),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), everything, max_size=3))
def test_whatever_stands_in_a_description_is_taken_or_refused_in_words(
    values: dict[str, Any],
) -> None:
    content = {"type": "StackConfig", "width": 12, "heads": 3} | values
    said = ""
    try:
        config = StackConfig.from_dict(content)
        assert StackConfig.from_json(config.to_json()) == config
    except ValueError as error:
        said = str(error)
    assert not said or ("must" in said and len(said) < 700)


def test_every_field_of_every_config_is_tried_here() -> None:
    own = {field.name for kind in KINDS for field in dataclasses.fields(kind)}
    assert own == set(FIELDS) | {"width", "heads", "kv_heads"}
    assert own == set(WRONG)
