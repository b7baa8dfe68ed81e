"""`Monitor`: what is done with the signs of a step: lines for a function or a file, and alarms."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from regard._arguments import shown, whole
from regard._files import naming
from regard._tensorboard import Events
from regard._watch.alarms import Alarms
from regard._watch.signs import REPORTED, Signs, signs_of, table_of
from regard.run import Layer

Report = Callable[[dict[str, Any]], object] | str | Path | None


class Listener(Protocol):
    """Who is told the layers of each pass of a model, which are not kept then."""

    is_on: bool  # is this pass looked at?
    lines: int  # that were told
    shares: tuple[str, ...]  # those that it wants to know

    def begin(self) -> None: ...

    def end(self, layers: Mapping[str, Layer]) -> None: ...


class Monitor:
    """Counts the steps of a model, and reports what its heads do at every n-th."""

    shares: tuple[str, ...] = ("first",)

    def __init__(
        self,
        every: int | None,
        report: Report,
        call: str = "watch()",
        say: Callable[[str], None] | None = None,
        tensorboard: str | Path | None = None,
    ) -> None:
        remedy = "It is how often a step is watched."
        self.every = 1 if every is None else whole(call, "every", every, 1, remedy=remedy)
        if isinstance(report, str | Path):
            report = Path(report).absolute()
            if not report.parent.is_dir():
                raise FileNotFoundError(
                    f"{call}: report must be a file in a folder that exists; got {report}. "
                    "Lines are added to it, and it is made if it is not there."
                )
        elif report is not None and not callable(cast("object", report)):
            raise TypeError(
                f"{call}: report must be a function or the path of a file; got {shown(report)}. "
                "A function gets one dictionary a layer."
            )
        if tensorboard is not None and not isinstance(cast("object", tensorboard), str | Path):
            raise TypeError(
                f"{call}: tensorboard must be the path of a folder; got {shown(tensorboard)}. "
                "TensorBoard is started with it as its --logdir."
            )
        self._report = report
        self._folder = None if tensorboard is None else Path(tensorboard).absolute()
        self._events: Events | None = None
        self._alarms = Alarms(say or (lambda text: warnings.warn(f"{call}: {text}", stacklevel=2)))
        self.lines = 0
        self.step = 0
        self.is_on = False

    def begin(self) -> None:
        """One more step of the model begins."""
        self.is_on = self.step % self.every == 0
        self.step += 1

    def end(self, layers: Mapping[str, Layer]) -> None:
        """A step that was watched has ended."""
        self.tell(self.step - 1, {name: signs_of([table_of(x)]) for name, x in layers.items()})

    def tell(self, step: int, layers: Mapping[str, Signs]) -> None:
        """Report what was measured of the layers at a step, and warn of what is wrong there."""
        found = {name: signs.line() for name, signs in layers.items()}
        for name, line in found.items():
            self.lines += 1
            line = {"step": step, "layer": name, **line}
            if callable(self._report):
                self._report(line)
            elif self._report is not None:
                with naming(self._report), self._report.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if self._folder is not None and found:
            with naming(self._folder):
                self._events = self._events or Events(self._folder, step)
                self._events.add({"step": step, **by_sign(layers)})
                self._events.flush()
        self._alarms.hear(step, layers)

    def close(self) -> None:
        """No step follows."""
        if self._events is not None:
            self._events.close()
            self._events = None


def by_sign(layers: Mapping[str, Signs]) -> dict[str, dict[str, list[float | None]]]:
    """{sign: {layer: a number for each head}}."""
    lines = {name: signs.line() for name, signs in layers.items()}
    return {sign: {name: line[sign] for name, line in lines.items()} for sign in REPORTED}
