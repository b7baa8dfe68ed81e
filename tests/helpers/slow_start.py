"""A process of the studio that takes a second to start, and no time to answer."""

from __future__ import annotations

import time

from regard.studio.process import Teller

__all__ = ["SECONDS", "main"]

SECONDS = 1.0


def main(handle: int) -> None:
    teller = Teller(handle)
    time.sleep(SECONDS)
    teller.tell({"asked": teller.begin()["number"]})
    teller.hear()
