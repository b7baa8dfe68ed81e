"""`regard.watch`: any PyTorch model, and where every head of it looked."""

from regard._watch.watch import watch

__all__ = ["watch"]
