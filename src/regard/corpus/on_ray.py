"""Units shared out among the machines of a Ray cluster, by Ray Data: each actor has the model.

The folder of the corpus, the texts and the model must be where every machine finds them under the
same path. An actor writes the shards itself, so that what travels are numbers of units; one that
dies is started again by Ray, and its unit given to another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard._checkpoint.errors import plain
from regard._extras import need
from regard.corpus.errors import CorpusError
from regard.corpus.plan import Plan

LOCAL = "local"


class _Actor:
    """A model that reads units, in a process of Ray's.

    Ray hands on what an error said, not the error: so one of ours comes back as a row, its number
    (of an OSError, else 0), its words and its file.
    """

    def __init__(self, out: str) -> None:
        self._out = Path(out)
        self._worker: Any = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        errors = [self._do(unit) for unit in batch["unit"].tolist()]
        numbers, said, files = zip(*errors, strict=True)
        return {"unit": batch["unit"], "error": [*numbers], "said": [*said], "file": [*files]}

    def _do(self, unit: int) -> tuple[int, str, str]:
        try:
            if self._worker is None:
                from regard.corpus.unit import Worker

                self._worker = Worker(self._out)
            self._worker.do(unit)
        except OSError as error:
            return error.errno or 0, error.strerror or str(error), str(error.filename or "")
        except (ValueError, ImportError) as error:
            return 0, str(error), ""
        return 0, "", ""


def on_ray(
    address: str,
    out: Path,
    plan: Plan,
    units: Sequence[int],
    workers: int,
    tell: Callable[[int], None],
) -> None:
    """Do the units with so many actors of the cluster at `address`; "local" starts one here.

    Raises what an actor raised: an OSError, a ValueError, or a RuntimeError with what Ray says.
    """
    ray = need("corpus()", "ray", "ray")
    data: Any = need("corpus()", "ray.data", "ray")
    threads = plan.recipe.threads
    environment = {"OMP_NUM_THREADS": str(threads)}
    started = not ray.is_initialized()
    if started:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
        here: dict[str, Any] = {"address": LOCAL, "include_dashboard": False}
        if address == LOCAL:
            here["num_cpus"] = max(workers * threads, len(os.sched_getaffinity(0)))
        try:
            ray.init(
                **(here if address == LOCAL else {"address": address}),
                runtime_env={"env_vars": environment},
                log_to_driver=False,
                logging_level="error",
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise CorpusError(
                f"corpus(): ray must be the address of a cluster, or local; {plain(address)} gives "
                f"{plain(' '.join(str(error).split()), 200)}. ray start --head starts one."
            ) from error
    try:
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.max_errored_blocks = 0
        listed = data.from_items([{"unit": unit} for unit in units], override_num_blocks=len(units))
        done = listed.map_batches(
            _Actor,
            fn_constructor_args=(str(out),),
            batch_size=1,
            compute=data.ActorPoolStrategy(size=min(workers, len(units))),
            num_cpus=threads,
        )
        for row in done.iter_rows():
            if row["error"]:
                raise OSError(row["error"], row["said"], row["file"] or None)
            if row["said"]:
                raise CorpusError(row["said"])
            tell(plan.count(row["unit"]))
    except ray.exceptions.RayError as error:
        said = plain(" ".join(str(error).split()), 400)
        raise RuntimeError(f"corpus(): Ray could not do the work: {said}") from error
    finally:
        if started:
            ray.shutdown()
