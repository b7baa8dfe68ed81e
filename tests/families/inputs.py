"""Inputs for any model: made from what its `forward` takes, tried until one is taken."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from families.odd_inputs import ODD

B, N, M, SAMPLES, FRAMES = 2, 11, 7, 4001, 64
MOST_PLACES = 300  # of an image in a text
FIRST_WORD = 40  # ids below may be special tokens


@dataclass
class Inputs:
    """What a model is called with. `length` is that of what its attention mask is of; None: it has
    no mask that says which tokens are padding."""

    given: dict[str, Any]
    mask: str | None = None  # the name of the mask, (B, length)

    @property
    def length(self) -> int | None:
        return None if self.mask is None else int(self.given[self.mask].shape[1])


def inputs_for(family: str, model: Any) -> Inputs:
    """The first of many that the model takes. Raises what became of the first, if none is."""
    first: Exception | None = None
    for given in _candidates(family, model):
        last: Exception | None = None
        for _ in range(4):  # the model's errors say how many places an image wants
            try:
                with torch.no_grad():
                    torch.manual_seed(3)
                    model(**given)
                return Inputs(given, _mask_of(given))
            except Exception as error:  # noqa: BLE001 — whatever the model raises
                last = error
                more = _with_places(model, given, str(error))
                if more is None:
                    break
                given = more
        first = first or last
    raise first or ValueError("nothing is known that it would take")


def varied(given: dict[str, Any], seed: int) -> dict[str, Any]:
    """The same with other words and other noise, of the same shapes."""
    random = torch.Generator().manual_seed(seed)
    found = dict(given)
    for name, x in given.items():
        if isinstance(x, Tensor) and x.is_floating_point():
            found[name] = x + 0.3 * torch.randn(x.shape, generator=random)
        elif isinstance(x, Tensor) and name.endswith("input_ids"):
            others = torch.randint(FIRST_WORD, 97, x.shape, generator=random)
            found[name] = torch.where(x >= FIRST_WORD, others.clamp(max=int(x.max())), x)
    return found


def in_type(given: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    return {
        name: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x
        for name, x in given.items()
    }


def _mask_of(given: dict[str, Any]) -> str | None:
    mask = given.get("attention_mask")
    return "attention_mask" if isinstance(mask, Tensor) and mask.dim() == 2 else None


def _candidates(family: str, model: Any) -> Iterator[dict[str, Any]]:
    if family in ODD:
        yield from ODD[family](model)
        return
    parameters = inspect.signature(model.forward).parameters
    kinds = inspect.Parameter
    required = [
        name
        for name, p in parameters.items()
        if p.default is kinds.empty and p.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
    ]
    unknown = [name for name in required if name not in _MAKE]
    if unknown:
        raise ValueError(f"its forward needs {', '.join(unknown)}")
    usual = [name for name in _USUAL if name in parameters and name not in required]
    usual += [name for name in ("image_grid_thw", "mm_token_type_ids") if name in parameters]
    names = required + usual
    text = {"input_ids", "attention_mask", "decoder_input_ids", "mm_token_type_ids"}
    sets = [
        names,
        [x for x in names if x in text or x in required],
        [x for x in names if x not in text or x in required],
        [x for x in names if x != "attention_mask" or x in required],
    ]
    has_grid = not {"grid_thw", "image_grid_thw"}.isdisjoint(names)
    for chosen in dict.fromkeys(map(tuple, sets)):
        if not chosen:
            continue
        makers = [_patches if has_grid and name in _PATCHED else _MAKE[name] for name in chosen]
        alternatives = [list(make(model.config)) for make in makers]
        for values in itertools.islice(itertools.product(*alternatives), 12):
            given = dict(zip(chosen, values, strict=True))
            yield from _with_masks(given, [n for n in _MASKS if n in parameters])


def _with_masks(given: dict[str, Any], names: list[str]) -> Iterator[dict[str, Any]]:
    """The same with masks of the sound: of its samples, or of its frames on either axis."""
    sound = given.get("input_values", given.get("input_features"))
    has_text = "input_ids" in given
    if not isinstance(sound, Tensor) or (has_text and "attention_mask" in names and len(names) < 2):
        yield given
        return
    names = [n for n in names if n != "attention_mask" or not has_text]
    for axis in (1,) if sound.dim() == 2 else (1, 2):
        mask = torch.ones(B, sound.shape[axis], dtype=torch.int64)
        yield {**given, **dict.fromkeys(names, mask)}
    yield {name: x for name, x in given.items() if name not in _MASKS or has_text}


# ── the parts ─────────────────────────────────────────────────────────────────────────────────


def part(config: Any, *names: str) -> Any:
    """The first that a configuration or a part of it has of these names; None if there is none."""
    places = [config, *(getattr(config, name, None) for name in getattr(config, "sub_configs", ()))]
    for name in names:
        for place in places:
            found = getattr(place, name, None)
            if isinstance(found, int | list | tuple) and not isinstance(found, bool):
                return found
    return None


def words(config: Any, length: int = N, seed: int = 3) -> Tensor:
    text = config.get_text_config()
    count = part(text, "vocab_size") or part(config, "vocab_size") or 97
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(min(FIRST_WORD, count // 2), count, (B, length), generator=random)
    if hasattr(config, "projection_dim"):  # a text and an image beside each other: it ends here
        ids[:, length // 2] = part(text, "eos_token_id") or 2
    return ids


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5))


def image_size(config: Any) -> tuple[int, int]:
    found = part(config, "image_size", "img_size", "input_size") or 32
    height, width = found[-2:] if isinstance(found, list | tuple) else (found, found)
    return int(height), int(width)


def _pixels(config: Any) -> Iterator[Any]:
    channels = part(config, "num_channels", "in_channels", "in_chans") or 3
    channels = channels if isinstance(channels, int) else 3
    size = image_size(config)
    frames = part(config, "num_frames", "frames_per_clip")
    if frames is not None:
        yield noise(B, frames, channels, *size)
    yield noise(B, channels, *size)
    yield noise(B, 1, channels, *size)
    if size < (64, 64):
        yield noise(B, channels, 64, 64)
    if size < (224, 224):
        yield noise(B, channels, 224, 224)


def _patches(config: Any) -> Iterator[Any]:
    """Images of 4 × 4 patches, one after the other, each patch a vector."""
    patch = part(config, "patch_size") or 8
    depth = part(config, "temporal_patch_size", "patch_temporal") or 1
    channels = part(config, "in_channels", "num_channels", "in_chans") or 3
    yield noise(B * 16, channels * depth * patch * patch)
    yield noise(B * 16, channels * patch * patch)
    yield noise(B * 16, channels, patch, patch)
    yield noise(1, B * 16, channels, patch, patch)


def _features(config: Any) -> Iterator[Any]:
    bins = part(
        config, "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim",
        "input_feat_size", "mel_dim", "feature_size", "input_dim", "n_mels",
    ) or 80  # fmt: skip
    places = part(config, "max_source_positions") or FRAMES
    yield noise(B, bins, 2 * places)
    yield noise(B, FRAMES, bins)
    yield noise(B, bins, FRAMES)
    yield noise(B, 1, FRAMES, bins)


def _sound(config: Any) -> Iterator[Any]:
    length, bins = part(config, "max_length"), part(config, "num_mel_bins")
    if isinstance(length, int) and isinstance(bins, int):
        yield noise(B, length, bins)
    yield noise(B, SAMPLES)
    yield noise(B, 80 * 50)
    yield noise(B, 1, 4 * 960)


def _boxes(config: Any) -> Iterator[Any]:
    corners = torch.arange(B * N * 4).reshape(B, N, 4) % 31
    yield torch.cat((corners[..., :2], corners[..., 2:] + 31), -1)


def _text_mask(config: Any) -> Iterator[Any]:
    yield torch.ones(B, N, dtype=torch.int64)


def _just(make: Callable[[Any], Any]) -> Callable[[Any], Iterator[Any]]:
    return lambda config: iter([make(config)])


_MAKE: dict[str, Callable[[Any], Iterator[Any]]] = {
    "input_ids": _just(words),
    "attention_mask": _text_mask,
    "decoder_input_ids": _just(lambda config: words(config, M, 4)),
    "pixel_values": _pixels,
    "pixel_values_videos": _pixels,
    "input_features": _features,
    "input_values": _sound,
    "bbox": _boxes,
    "grid_thw": _just(lambda config: torch.tensor([[1, 4, 4]] * B)),
    "mm_token_type_ids": _just(lambda config: torch.zeros(B, N, dtype=torch.int64)),
    "image_grid_thw": _just(lambda config: torch.tensor([[1, 4, 4]] * B)),
    "inputs_embeds": _just(lambda c: noise(B, N, part(c, "hidden_size", "d_model") or 32)),
    "input_features_mask": _just(lambda config: None),  # _with_masks makes it
    "hidden_states": _just(lambda c: noise(B, N, part(c, "hidden_size", "d_model") or 32)),
}
_MASKS = ("attention_mask", "input_features_mask", "feature_attention_mask", "padding_mask")
_PATCHED = ("pixel_values", "hidden_states", "pixel_values_images")
# What is given though it need not be.
_USUAL = (
    "input_ids", "attention_mask", "decoder_input_ids", "pixel_values", "input_features",
    "input_values", "bbox",
)  # fmt: skip


# ── places for images and sounds in a text ────────────────────────────────────────────────────

_COUNTS = re.compile(r"tokens:? (?P<tokens>\d+).*?features:? (?P<features>\d+)", re.IGNORECASE)


def _with_places(model: Any, given: dict[str, Any], error: str) -> dict[str, Any] | None:
    """The same with as many places in the text as the error says there are features."""
    found = _COUNTS.search(error)
    ids = given.get("input_ids")
    if found is None or ids is None:
        return None
    kind = "audio" if "audio" in error.lower() else "video" if "video" in error.lower() else "image"
    token = part(model.config, f"{kind}_token_id", f"{kind}_token_index")
    count, width = int(found["features"]) // B, part(model.config.get_text_config(), "hidden_size")
    if int(found["tokens"]) or count > MOST_PLACES:  # some count all numbers of the features
        count //= width or 1
    if token is None or not 0 < count <= MOST_PLACES or ids.shape[1] == N + count:
        return None
    words = ids[ids != int(token)].view(B, -1)
    places = torch.full((B, count), int(token))
    ids = torch.cat((words[:, :2], places, words[:, 2:]), 1)
    more: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        more["mm_token_type_ids"] = (ids == int(token)).long()
    return {**given, **more}
