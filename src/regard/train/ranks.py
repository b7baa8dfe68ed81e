"""Several processes that train one model: who does what, and what they tell one another.

Started by `torchrun`. Each takes its part of every batch; the first one, rank 0, evaluates, logs
and saves. With one process all of this does nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from regard.nn import DecoderLayer, EncoderLayer, Model
from regard.train.settings import Wrong

_PATIENCE = timedelta(minutes=30)  # that a process waits for another: rank 0 evaluates meanwhile


class Alone(ValueError):
    """Another process is gone, or has failed: this one cannot go on without it."""


class Ranks:
    """This process among all of them."""

    def __init__(self, strategy: str = "none") -> None:
        self.strategy = strategy
        self.rank, self.count = 0, 1
        if dist.is_initialized():
            self.rank, self.count = dist.get_rank(), dist.get_world_size()

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    # ── the model ────────────────────────────────────────────────────────────────────────────

    def share(self, model: Model) -> nn.Module:
        """What is called in training in place of the model: it tells the others its gradients."""
        if self.count == 1:
            return model
        if self.strategy == "ddp":
            return nn.parallel.DistributedDataParallel(model)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (self.count,))
        for part in list(model.modules()):
            if isinstance(part, EncoderLayer | DecoderLayer):
                fully_shard(part, mesh=mesh)
        return cast("nn.Module", fully_shard(model, mesh=mesh))

    @contextlib.contextmanager
    def quiet(self, forward: nn.Module, is_last: bool) -> Generator[None]:
        """Gradients are told with the last part of a batch only."""
        if self.count > 1 and not is_last and self.strategy == "ddp":
            with cast("nn.parallel.DistributedDataParallel", forward).no_sync():
                yield
            return
        if self.count > 1 and self.strategy == "fsdp":
            cast("Any", forward).set_requires_gradient_sync(is_last)
        yield

    def whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors of which each process has a piece, put together; all must ask."""
        return {name: _full(tensor) for name, tensor in tensors.items()}

    def pieces(self, weight: Tensor, whole: Tensor) -> Tensor:
        """The piece of a whole tensor that this process has, cut as a weight is."""
        from torch.distributed.tensor import DTensor, distribute_tensor

        if not isinstance(weight, DTensor) or not whole.dim():
            return whole
        return distribute_tensor(whole, weight.device_mesh, weight.placements)

    # ── what is told ─────────────────────────────────────────────────────────────────────────

    def summed(self, *numbers: float) -> list[float]:
        """Numbers of all processes, each added up."""
        if self.count == 1:
            return list(numbers)
        found = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(found)
        return found.tolist()

    def told(self, make: Callable[[], Any]) -> Any:
        """What the first process makes; the others wait for it, and fail if it fails."""
        if self.count == 1:
            return make()
        box: list[Any] = [None, None]
        if self.is_first:
            try:
                box[0] = make()
            except BaseException as error:
                dist.broadcast_object_list([None, f"{type(error).__name__}: {error}"])
                raise
        dist.broadcast_object_list(box)
        if box[1] is not None:
            raise Alone(f"train(): the first process ended: {box[1]}")
        return box[0]


def _full(tensor: Tensor) -> Tensor:
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@contextlib.contextmanager
def joined(strategy: str) -> Generator[Ranks]:
    """All processes that torchrun started, for as long as the `with` lasts."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count > 1 and strategy == "none":
        raise Wrong(
            f'recipe [training]: strategy must be "ddp" or "fsdp" where {count} processes train; '
            'got "none".'
        )
    if count == 1 or dist.is_initialized():
        yield Ranks(strategy)
        return
    store, rank, count = next(rendezvous("env://", timeout=_PATIENCE))
    store = PrefixStore(met(store, rank, count), store)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=_PATIENCE)
    try:
        yield Ranks(strategy)
    except RuntimeError as error:
        if "gloo" not in str(error).lower():
            raise
        raise Alone(
            "train(): another process ended, or cannot be reached any more. --resume goes on from "
            "the last checkpoint; torchrun --max-restarts=3 does that by itself."
        ) from error
    finally:
        with contextlib.suppress(RuntimeError):  # another one is gone already
            dist.destroy_process_group()


def met(store: Store, rank: int, count: int) -> str:
    """A name that all processes know, and that none before them knew.

    Those that torchrun starts again may find the same store, with all that those before them wrote.
    How often they were started does not tell them apart either: each host counts for itself. So
    each asks under a name that it draws, and the first one answers until all have its answer.
    """
    own = secrets.token_hex(16)
    if rank:
        store.set(f"asks-{rank}", own)
        store.wait([f"answer-{own}"], _PATIENCE)
        found = store.get(f"answer-{own}").decode()
        store.set(f"{found}-{rank}", "has it")
        return found
    missing = set(range(1, count))
    end = time.monotonic() + _PATIENCE.total_seconds()
    while missing:
        for other in missing:
            if store.check([f"asks-{other}"]):
                store.set(f"answer-{store.get(f'asks-{other}').decode()}", own)
        missing = {other for other in missing if not store.check([f"{own}-{other}"])}
        if missing and time.monotonic() > end:
            raise Alone(f"train(): {count} processes must meet; got {count - len(missing)}.")
        time.sleep(0.05 if missing else 0.0)
    return own
