"""A flow whose bands are traced when they are looked at; the numbers of few are in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from regard._flow.flow import Flow
from regard._flow.pictures import Picture, picture_of
from regard._rules.rule import Step, in_head
from regard.reference import Array

_OPEN = 3  # bands whose numbers are in memory


class Band(NamedTuple):
    """The steps of a band, with their numbers, and what they were made with."""

    steps: Mapping[str, Step]
    matrices: Mapping[str, Array]


class LazyFlow(Flow):
    """A flow whose steps are had band by band. Pictures of a band are made with it, and kept."""

    def __init__(self) -> None:
        self._bands: OrderedDict[str, Band] = OrderedDict()
        self._pictures: dict[tuple[str, int], Picture] = {}
        self._parameters: Mapping[str, Array] = {}

    @abstractmethod
    def _band_of(self, name: str) -> str:
        """The band that a step, or a matrix, is had with."""

    @abstractmethod
    def _traced(self, band: str) -> Band:
        """The steps of a band, computed."""

    def _band(self, band: str) -> Band:
        if band in self._bands:
            self._bands.move_to_end(band)
            return self._bands[band]
        found = self._bands[band] = self._traced(band)
        while len(self._bands) > _OPEN:
            self._bands.popitem(last=False)
        if any(name in found.steps for name, _ in self._pictures):
            return found  # it was looked at before
        for name, step in found.steps.items():
            stage = self.outline["stages"].get(name)
            if stage is None or step.array.strides == (0, 0):  # which stands for what is computed
                continue
            own: dict[int, Picture] = {}  # a key head may serve several
            for head in range(stage["heads"]):
                h = self._own_head(name, head)
                if h not in own:
                    array, weights = in_head(step.array, h), stage["part"] == "weights"
                    own[h] = picture_of(array, weights=weights)
                self._pictures[name, head] = own[h]
        return found

    @cached_property
    def steps(self) -> Mapping[str, Step]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Steps(self)

    @cached_property
    def matrices(self) -> Mapping[str, Array]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Matrices(self)

    def picture(self, stage: str, head: int = 0) -> Picture:
        if (stage, head) not in self._pictures:
            self._stage(stage)
            self._band(self._band_of(stage))
        if (stage, head) not in self._pictures:
            self._pictures[stage, head] = super().picture(stage, head)
        return self._pictures[stage, head]


class _Steps(Mapping[str, Step]):
    def __init__(self, flow: LazyFlow) -> None:
        self._flow = flow

    def __getitem__(self, name: str) -> Step:
        if name not in self._flow.sketch:
            raise KeyError(name)
        return self._flow._band(self._flow._band_of(name)).steps[name]

    def __contains__(self, name: object) -> bool:
        return name in self._flow.sketch

    def __iter__(self) -> Iterator[str]:
        return iter(self._flow.sketch)

    def __len__(self) -> int:
        return len(self._flow.sketch)


class _Matrices(Mapping[str, Array]):
    """Parameters of the model, and what bands have beside their steps."""

    def __init__(self, flow: LazyFlow) -> None:
        self._flow = flow

    def __getitem__(self, name: str) -> Array:
        if name in self._flow._parameters:
            return self._flow._parameters[name]
        for band in self._flow._bands.values():
            if name in band.matrices:
                return band.matrices[name]
        return self._flow._band(self._flow._band_of(name)).matrices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._flow._parameters)

    def __len__(self) -> int:
        return len(self._flow._parameters)
