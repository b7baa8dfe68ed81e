"""`regard.watch`: any PyTorch model, and where every head of it looked; `monitor`, `install`."""

from regard._watch.installing import install, uninstall
from regard._watch.training import monitor
from regard._watch.watch import watch

__all__ = ["install", "monitor", "uninstall", "watch"]
