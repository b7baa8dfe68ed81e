"""Inputs of families whose `forward` takes what no name tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

B, N, M = 2, 11, 7  # sequences, tokens, tokens of a decoder


def _noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5))


def _ids(*shape: int, most: int = 97) -> Tensor:
    return torch.randint(
        min(40, most // 2), most, shape, generator=torch.Generator().manual_seed(4)
    )


def _series(model: Any) -> Iterator[dict[str, Any]]:
    config = model.config
    past = config.context_length + max(config.lags_sequence)
    yield {
        "past_values": _noise(B, past),
        "past_time_features": _noise(B, past, config.num_time_features),
        "past_observed_mask": torch.ones(B, past),
        "future_values": _noise(B, config.prediction_length),
        "future_time_features": _noise(B, config.prediction_length, config.num_time_features),
    }


def _past(model: Any) -> Iterator[dict[str, Any]]:
    config = model.config
    channels = getattr(config, "num_input_channels", 1)
    yield {"past_values": _noise(B, config.context_length, channels)}
    yield {"past_values": [_noise(64), _noise(64)]}


def _timesfm(model: Any) -> Iterator[dict[str, Any]]:
    length = model.config.context_length
    yield {
        "past_values": _noise(B, length),
        "past_values_padding": torch.zeros(B, length),
        "freq": torch.zeros(B, 1, dtype=torch.int64),
    }
    yield {"past_values": [_noise(64), _noise(64)]}


def _music(model: Any) -> Iterator[dict[str, Any]]:
    decoder = getattr(model.config, "decoder", model.config)
    codes = _ids(B * decoder.num_codebooks, M, most=min(decoder.vocab_size, 97))
    if decoder is model.config:
        yield {"input_ids": codes}
    mask = torch.ones(B, N, dtype=torch.int64)
    yield {"input_ids": _ids(B, N), "attention_mask": mask, "decoder_input_ids": codes}


def _dia(model: Any) -> Iterator[dict[str, Any]]:
    channels = model.config.decoder_config.num_channels
    yield {
        "input_ids": _ids(B, N),
        "attention_mask": torch.ones(B, N, dtype=torch.int64),
        "decoder_input_ids": _ids(B, M, channels),
    }


def _pairs(model: Any) -> Iterator[dict[str, Any]]:
    yield {"pixel_values": _noise(B, 2, 3, 64, 64)}


def _lxmert(model: Any) -> Iterator[dict[str, Any]]:
    config = model.config
    yield {
        "input_ids": _ids(B, N),
        "attention_mask": torch.ones(B, N, dtype=torch.int64),
        "visual_feats": _noise(B, 5, config.visual_feat_dim),
        "visual_pos": _noise(B, 5, config.visual_pos_dim).sigmoid(),
    }


def _qformer(model: Any) -> Iterator[dict[str, Any]]:
    config = model.config
    yield {
        "query_embeds": _noise(B, 5, config.hidden_size),
        "encoder_hidden_states": _noise(B, N, config.encoder_hidden_size),
    }


def _instruct(model: Any) -> Iterator[dict[str, Any]]:
    size = model.config.vision_config.image_size
    frames = (4,) if "Video" in type(model).__name__ else ()
    tokens = model.config.num_query_tokens * (4 if frames else 1)
    names = ("image_token_id", "image_token_index", "video_token_index")
    token = next((x for n in names if (x := getattr(model.config, n, None)) is not None), 3)
    ids = torch.cat((torch.full((B, tokens), token), _ids(B, N)), 1)
    yield {
        "pixel_values": _noise(B, *frames, 3, size, size),
        "qformer_input_ids": _ids(B, 5),
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
    }


def _flattened(model: Any) -> Iterator[dict[str, Any]]:
    vision = getattr(model.config, "vision_config", model.config)
    width = 2 + vision.patch_embed_hidden_size
    patches = _noise(B, 13, width)
    patches[..., :2] = torch.arange(13)[:, None] % 5 + 1.0
    yield {"flattened_patches": patches, "decoder_input_ids": _ids(B, M)}
    yield {"flattened_patches": patches}


def _deformed(model: Any) -> Iterator[dict[str, Any]]:
    yield {"pixel_values": _noise(B, 3, 64, 64)}
    yield {"pixel_values": _noise(B, 3, 64, 64), "pixel_mask": torch.ones(B, 64, 64)}


def _siglip2(model: Any) -> Iterator[dict[str, Any]]:
    vision = getattr(model.config, "vision_config", model.config)
    image = {
        "pixel_values": _noise(B, 16, 3 * vision.patch_size**2),
        "pixel_attention_mask": torch.ones(B, 16, dtype=torch.int64),
        "spatial_shapes": torch.tensor([[4, 4]] * B),
    }
    if vision is not model.config:
        yield {"input_ids": _ids(B, N), **image}
    yield image


def _aspects(model: Any) -> Iterator[dict[str, Any]]:
    config = model.config
    tiles, size = config.max_num_tiles, config.image_size
    yield {
        "pixel_values": _noise(B, 1, tiles, 3, size, size),
        "aspect_ratio_ids": torch.ones(B, 1, dtype=torch.int64),
        "aspect_ratio_mask": torch.ones(B, 1, tiles, dtype=torch.int64),
    }


def _context(model: Any) -> Iterator[dict[str, Any]]:
    width = getattr(model.config, "hidden_size", 32)
    mask = torch.ones(B, N, dtype=torch.int64)
    yield {"context": _noise(B, N, width), "attention_mask": mask}
    yield {"context": _noise(B, N, width)}


def _spectrogram(model: Any) -> Iterator[dict[str, Any]]:
    yield {"spectrogram": _noise(B, 13, model.config.model_in_dim)}


def _latents(model: Any) -> Iterator[dict[str, Any]]:
    yield {"latents": _noise(B, model.config.hidden_size, 9)}
    yield {"latents": _noise(B, 9, model.config.hidden_size)}


def _frames(name: str, width: int, *masks: str) -> Callable[[Any], Iterator[dict[str, Any]]]:
    def make(model: Any) -> Iterator[dict[str, Any]]:
        for value in (True, False):  # of a frame that is real, by one usage or the other
            mask = torch.full((B, 64), value)
            yield {name: _noise(B, 64, width), **dict.fromkeys(masks, mask)}

    return make


def _idefics(model: Any) -> Iterator[dict[str, Any]]:
    size = model.config.vision_config.image_size
    yield {
        "input_ids": _ids(B, N),
        "attention_mask": torch.ones(B, N, dtype=torch.int64),
        "pixel_values": _noise(B, 1, 3, size, size),
        "image_attention_mask": torch.ones(B, N, 1, dtype=torch.int64),
    }


def _image(model: Any) -> Iterator[dict[str, Any]]:
    size = model.config.image_size
    yield {"image": _noise(B, 3, size, size)}


def _seggpt(model: Any) -> Iterator[dict[str, Any]]:
    size = model.config.image_size
    height, width = size if isinstance(size, list | tuple) else (size, size)
    image = _noise(B, 3, height // 2, width)
    yield {"pixel_values": image, "prompt_pixel_values": image, "prompt_masks": image}


def _oneformer(model: Any) -> Iterator[dict[str, Any]]:
    length = model.config.task_seq_len
    yield {"pixel_values": _noise(B, 3, 64, 64), "task_inputs": _ids(B, length)}


def _embeds(model: Any) -> Iterator[dict[str, Any]]:
    mask = torch.ones(B, N, dtype=torch.int64)
    yield {"inputs_embeds": _noise(B, N, model.config.hidden_size), "attention_mask": mask}


def _kosmos(model: Any) -> Iterator[dict[str, Any]]:
    ids, size = _ids(B, 80), model.config.vision_config.image_size
    places = torch.zeros(B, 80, dtype=torch.int64)
    places[:, 2 : 2 + model.config.latent_query_num] = 1
    yield {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": _noise(B, 3, size, size),
        "image_embeds_position_mask": places,
    }


ODD: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "autoformer": _series,
    "blip_2_qformer": _qformer,
    "blip-2": _instruct,
    "conditional_detr": _deformed,
    "d_fine": _deformed,
    "dab-detr": _deformed,
    "deformable_detr": _deformed,
    "detr": _deformed,
    "dia": _dia,
    "fastspeech2_conformer_hifigan": _spectrogram,
    "bridgetower_vision_model": _image,
    "fun_asr_nano_encoder": _frames("input_features", 560, "input_features_mask"),
    "gemma3n_audio": _frames("audio_mel", 128, "audio_mel_mask"),
    "granite_speech5_ctc": _frames("input_features", 320),
    "granite_speech5_encoder": _frames("input_features", 320),
    "granite_speech_encoder": _frames("hidden_states", 160),
    "granite_speech_plus_encoder": _frames("hidden_states", 160),
    "idefics": _idefics,
    "phi4_multimodal_audio": _frames("hidden_states", 80, "mask"),
    "idefics2_perceiver": _context,
    "informer": _series,
    "instructblip": _instruct,
    "instructblipvideo": _instruct,
    "kosmos-2": _kosmos,
    "lightglue": _pairs,
    "lxmert": _lxmert,
    "mimi_decoder": _latents,
    "mllama_vision_model": _aspects,
    "musicgen": _music,
    "musicgen_decoder": _music,
    "musicgen_melody": _music,
    "musicgen_melody_decoder": _music,
    "oneformer": _oneformer,
    "patchtsmixer": _past,
    "patchtst": _past,
    "pix2struct": _flattened,
    "pix2struct_vision_model": _flattened,
    "pocket_tts_audio_tokenizer_decoder": _latents,
    "qwen3_omni_moe_talker_code_predictor": _embeds,
    "rt_detr": _deformed,
    "rt_detr_v2": _deformed,
    "seggpt": _seggpt,
    "siglip2": _siglip2,
    "siglip2_vision_model": _siglip2,
    "speecht5_hifigan": _spectrogram,
    "superglue": _pairs,
    "table-transformer": _deformed,
    "time_series_transformer": _series,
    "timesfm": _timesfm,
    "timesfm2_5": _timesfm,
    "upernet": _deformed,
}
