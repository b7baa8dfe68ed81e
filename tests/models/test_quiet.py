"""transformers is silenced for a while, and says again afterwards what it said before."""

from __future__ import annotations

import threading

from transformers.utils import logging

from regard.models.progress import quiet


def test_the_last_of_several_threads_puts_back_what_the_first_found() -> None:
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    first_is_in, second_is_in = threading.Event(), threading.Event()

    def first() -> None:
        with quiet():
            first_is_in.set()
            second_is_in.wait(20)

    def second() -> None:
        first_is_in.wait(20)
        with quiet():
            second_is_in.set()
            one.join(20)  # the first one leaves before

    one, two = threading.Thread(target=first), threading.Thread(target=second)
    one.start()
    two.start()
    one.join(20)
    two.join(20)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
