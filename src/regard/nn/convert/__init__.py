"""Weights from elsewhere, as tables of names: PyTorch's modules both ways, Hugging Face's in."""

from regard.nn.convert.hugging_face import from_hugging_face
from regard.nn.convert.pytorch import from_torch, to_torch

__all__ = ["from_hugging_face", "from_torch", "to_torch"]
