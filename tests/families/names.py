"""Every family that the installed transformers has, and the classes that a model of it may have."""

from __future__ import annotations

import importlib
from typing import Any

# In the order in which they are tried: what writes text first, as it computes most. A base model
# comes before the heads on top of it, which compute no attention.
_WRITERS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)


def families() -> list[str]:
    """The type of every configuration that transformers knows."""
    from transformers import CONFIG_MAPPING

    return sorted(CONFIG_MAPPING.keys())


def classes_of(family: str) -> list[type[Any]]:
    """The classes of a family's models, the one to be tried first at the head; [] if the type names
    a part of other models only."""
    import transformers
    from transformers import CONFIG_MAPPING, PreTrainedModel
    from transformers.models.auto import modeling_auto

    found: dict[str, type[Any]] = {}
    mappings = {
        name: mapping
        for name, mapping in vars(modeling_auto).items()
        if name.startswith("MODEL_") and name.endswith("_MAPPING_NAMES")
    }
    is_encoder = family in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    for name in (*(_WRITERS[-1:] if is_encoder else _WRITERS), *sorted(mappings)):
        known: Any = mappings[name].get(family, ())
        for each in (known,) if isinstance(known, str) else known:
            kind = getattr(transformers, each, None)
            if isinstance(kind, type):
                found.setdefault(each, kind)
    config: type[Any] = CONFIG_MAPPING[family]
    module = importlib.import_module(config.__module__.replace(".configuration_", ".modeling_"))
    for name, kind in vars(module).items():
        if isinstance(kind, type) and issubclass(kind, PreTrainedModel):
            own = kind.__module__ == module.__name__ and "PreTrainedModel" not in name
            if own and kind.config_class is config:
                found.setdefault(name, kind)
    # What is mapped to a part of a model is made from the part's configuration.
    return sorted(found.values(), key=lambda kind: kind.config_class is not config)
