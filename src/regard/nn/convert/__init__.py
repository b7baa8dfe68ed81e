"""Weights from elsewhere, as tables of names: PyTorch's modules and Hugging Face's models."""

from regard.nn.convert.hugging_face import from_hugging_face
from regard.nn.convert.pytorch import from_torch, to_torch
from regard.nn.convert.to_hugging_face import to_hugging_face

__all__ = ["from_hugging_face", "from_torch", "to_hugging_face", "to_torch"]
