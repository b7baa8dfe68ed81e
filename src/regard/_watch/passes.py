"""Many passes inside one watch: the layers of each are there as soon as it ends, and then go."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from torch import nn

from regard._watch.interventions import Interventions
from regard._watch.recording import Recording
from regard._watch.shares import NAMES
from regard._watch.watch import WatchContext
from regard._watch.watching import Watching
from regard.observation import See
from regard.run import Layer, Run


class Passes:
    """What was seen of the last pass of a model. A pass that fails leaves nothing."""

    shares: tuple[str, ...] = NAMES
    is_on = True
    lines = 0  # layers that were seen, of all passes

    def __init__(self) -> None:
        self.layers: dict[str, Layer] = {}

    def begin(self) -> None:
        self.layers = {}

    def end(self, layers: Mapping[str, Layer]) -> None:
        self.layers = dict(layers)
        self.lines += len(layers)


def watch_passes(model: nn.Module, see: See, passes: Passes) -> AbstractContextManager[Run]:
    """`watch`, which keeps no layer: `passes` has those of the last pass. In the `Run`, when it
    ends, is what could not be seen.

    Setting a watch up takes as long as a short text takes a small model: here it is done once.
    """
    interventions = Interventions(model, None, None)
    recording = Recording(model, see, frozenset(), None, interventions, passes, None)
    return WatchContext(Watching(model, recording, None))
