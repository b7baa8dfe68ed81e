"""What the names of a configuration do not tell: families whose sizes depend on one another."""

from __future__ import annotations

from typing import Any

_SECTIONS = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
}
_FEW_SECTIONS = {
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e4,
        "mrope_section": [1, 1, 0],
        "partial_rotary_factor": 0.5,
    }
}
_RESNET = {
    "model_type": "resnet",
    "depths": [1, 1, 1, 1],
    "hidden_sizes": [8, 16, 24, 32],
    "embedding_size": 8,
    "layer_type": "basic",
    "out_features": ["stage2", "stage3", "stage4"],
}
_DETR_RESNET = {
    "backbone_config": {
        "model_type": "rt_detr_resnet",
        "depths": [1, 1, 1, 1],
        "hidden_sizes": [8, 16, 24, 32],
        "embedding_size": 8,
        "layer_type": "basic",
        "out_features": ["stage2", "stage3", "stage4"],
    },
    "encoder_in_channels": [16, 24, 32],
    "decoder_in_channels": [32, 32, 32],
}
_SERIES = {"prediction_length": 5, "context_length": 12, "lags_sequence": [1, 2, 3]}
_MUSIC = {
    "text_encoder": {"model_type": "t5"},
    "audio_encoder": {"model_type": "encodec"},
    "decoder": {"model_type": "musicgen_decoder"},
}
_CONV_CODEC = {"num_filters": 8, "codebook_dim": 32}

_VQ = {"base_channels": 32, "resolution": 32, "num_res_blocks": 1, "num_embeddings": 64}
_FLORENCE = {
    "embed_dim": [16, 32, 32, 32],
    "num_heads": [2, 4, 4, 4],
    "num_groups": [2, 4, 4, 4],
    "depths": [1, 1, 1, 1],
    "window_size": 4,
}
_OCR2 = {
    "mlp_layer_types": ["dense", "sparse"],
    "num_hidden_layers": 2,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
}
_MAMBA = {"n_groups": 2, "mamba_num_heads": 4, "mamba_head_dim": 16}

# `needs`: what the family's configuration cannot be made without. `sizes`: put over the shrink's.
CORRECTIONS: dict[str, dict[str, Any]] = {
    "nemotron_h": {"sizes": _MAMBA},
    "nemo_speechlm": {"sizes": {"text_config": _MAMBA}},
    "nemotron_h_omni": {"sizes": {"text_config": _MAMBA}},
    "mllama_vision_model": {
        "sizes": {"intermediate_layers_indices": [0, 1], "num_global_layers": 1}
    },
    "ernie4_5_vl_moe_text": {"sizes": {**_SECTIONS, "moe_intermediate_size": [16, 16]}},
    "ernie4_5_vl_moe": {"sizes": {"text_config": {**_SECTIONS, "moe_intermediate_size": [16, 16]}}},
    "clvp": {
        "sizes": {
            x: {"hidden_size": 128, "projection_dim": 128} for x in ("text_config", "speech_config")
        }
    },
    "dbrx": {"sizes": {"attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0}}},
    "cohere_compass_text": {
        "sizes": {"rope_parameters": {"full_attention": _SECTIONS["rope_parameters"]}}
    },
    "cohere_compass": {
        "sizes": {
            "text_config": {"rope_parameters": {"full_attention": _SECTIONS["rope_parameters"]}}
        }
    },
    "hunyuan_vl": {"sizes": {"text_config": {**_SECTIONS, "head_dim": 8}}},
    "hunyuan_vl_text": {"sizes": {**_SECTIONS, "head_dim": 8}},
    "granitemoehybrid": {
        "needs": {"layer_types": ["linear_attention", "full_attention"], "num_hidden_layers": 2}
    },
    "deepseek_ocr2": {"needs": {"text_config": _OCR2}},
    "deepseek_ocr2_text": {"needs": _OCR2},
    "florence2": {"sizes": {"vision_config": {**_FLORENCE, "projection_dim": 32}}},
    "florence_vision": {"sizes": _FLORENCE},
    "janus_vqgan": {"sizes": {**_VQ, "num_patches": 4}},
    "janus": {"sizes": {"vq_config": {**_VQ, "num_patches": 4}}},
    "emu3_vqgan": {"sizes": _VQ},
    "emu3": {
        "needs": {"vocabulary_map": {"<image>": 3}, "image_token_id": 3},
        "sizes": {"vq_config": _VQ},
    },
    "chameleon_vqgan": {"sizes": _VQ},
    "chameleon": {
        "needs": {"vocabulary_map": {"<image>": 3}, "image_token_id": 3},
        "sizes": {"vq_config": _VQ},
    },
    "instructblipvideo": {"sizes": {"video_token_index": 3}},
    "instructblip": {"sizes": {"image_token_index": 3}},
    "blip-2": {"sizes": {"image_token_index": 3}},
    "audio-spectrogram-transformer": {"sizes": {"max_length": 64, "num_mel_bins": 32}},
    "autoformer": {"needs": {**_SERIES, "moving_average": 3}},
    "bamba": {"needs": {"attn_layer_indices": [1]}},
    "bridgetower": {
        "sizes": {
            "hidden_size": 64,
            "text_config": {"hidden_size": 64},
            "vision_config": {"hidden_size": 64},
        }
    },
    "bridgetower_vision_model": {"sizes": {"hidden_size": 64}},
    "conditional_detr": {"needs": {"use_timm_backbone": False, "backbone_config": _RESNET}},
    "d_fine": {"sizes": {"num_queries": 7}},
    "dab-detr": {"needs": {"use_timm_backbone": False, "backbone_config": _RESNET}},
    "deepseek_v2": {"needs": {"num_experts_per_tok": 2}},
    "deformable_detr": {"needs": {"use_timm_backbone": False, "backbone_config": _RESNET}},
    "detr": {"needs": {"use_timm_backbone": False, "backbone_config": _RESNET}},
    "dia": {"sizes": {"decoder_config": {"num_channels": 3}, "delay_pattern": [0, 1, 2]}},
    "esm": {"needs": {"vocab_size": 97, "pad_token_id": 0, "mask_token_id": 3}},
    "fun_asr_nano": {"sizes": {"adaptor_config": {"intermediate_size": 8}}},
    "glm46v": {"sizes": {"text_config": _SECTIONS}},
    "glm4v": {"sizes": {"text_config": _SECTIONS}},
    "glm4v_moe": {"sizes": {"text_config": _FEW_SECTIONS}},
    "glm4v_moe_text": {"sizes": _FEW_SECTIONS},
    "glm4v_text": {"sizes": _SECTIONS},
    "glm5_next": {"sizes": {"text_config": {"index_topk": 16, "index_kpool": 4}}},
    "glm5_next_text": {"sizes": {"index_topk": 16, "index_kpool": 4}},
    "glm_image": {"sizes": {"text_config": _SECTIONS}},
    "glm_image_text": {"sizes": _SECTIONS},
    "glm_ocr": {"sizes": {"text_config": _SECTIONS}},
    "informer": {"needs": _SERIES},
    "led": {"sizes": {"attention_window": 4}},
    "lfm2_moe": {"needs": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2}},
    "llama4_vision_model": {
        "sizes": {
            "intermediate_size": 128,
            "vision_output_dim": 32,
            "projector_input_dim": 32,
            "projector_output_dim": 32,
        }
    },
    "mamba2": {"sizes": {"head_dim": 16, "n_groups": 2}},
    "mistral4": {"sizes": {"head_dim": 16}},
    "molmo2": {
        "sizes": {
            "adapter_config": {"vision_feature_layer": [1, 0], "text_hidden_size": 32},
            "vision_config": {"image_size": [32, 32], "num_position_embeddings": 16},
        }
    },
    "molmo2_vision": {"sizes": {"image_size": [32, 32], "num_position_embeddings": 16}},
    "moonshine_streaming": {"sizes": {"num_key_value_heads": 4}},
    "musicgen": {"needs": _MUSIC, "sizes": {"audio_encoder": _CONV_CODEC}},
    "musicgen_melody": {
        "needs": {**_MUSIC, "decoder": {"model_type": "musicgen_melody_decoder"}},
        "sizes": {"audio_encoder": _CONV_CODEC},
    },
    "nemotron": {"needs": {"num_key_value_heads": 2, "head_dim": 8}},
    "qwen2_5_omni_talker": {"sizes": _SECTIONS},
    "qwen2_5_omni_text": {"sizes": _SECTIONS},
    "qwen2_5_vl": {"sizes": {"text_config": _SECTIONS, "vision_config": {"out_hidden_size": 32}}},
    "qwen2_5_vl_text": {"sizes": _SECTIONS},
    "qwen2_vl": {"sizes": {"text_config": _SECTIONS}},
    "qwen2_vl_text": {"sizes": _SECTIONS},
    "qwen3_omni_moe_talker_text": {"needs": {"shared_expert_intermediate_size": 16}},
    "qwen4_exp_text": {
        "needs": {
            "indexer_n_heads": 2,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 256,
            "indexer_budget": 4,
            "indexer_compress_ratio": 2,
        },
        "sizes": {"indexer_head_dim": 8},
    },
    "qwen2_5_omni_thinker": {"sizes": {"text_config": _SECTIONS}},
    "qwen3_omni_moe_thinker": {"sizes": {"text_config": _SECTIONS}},
    "rt_detr": {"sizes": _DETR_RESNET},
    "rt_detr_v2": {"sizes": _DETR_RESNET},
    "t5gemma2_decoder": {"needs": {"dropout_rate": 0.0}},
    "t5gemma2_text": {"needs": {"dropout_rate": 0.0}},
    "t5gemma2_encoder": {"sizes": {"text_config": {"dropout_rate": 0.0}}},
    "table-transformer": {"needs": {"use_timm_backbone": False, "backbone_config": _RESNET}},
    "time_series_transformer": {"needs": _SERIES},
    "pvt": {"sizes": {"image_size": 64}},
    "upernet": {
        "needs": {
            "backbone_config": {**_RESNET, "out_features": ["stage1", "stage2", "stage3", "stage4"]}
        }
    },
    "clap": {"sizes": {"audio_config": {"patch_embeds_hidden_size": 32, "hidden_size": 256}}},
    "clap_audio_model": {"sizes": {"patch_embeds_hidden_size": 32, "hidden_size": 256}},
}
