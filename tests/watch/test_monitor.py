"""`regard.monitor`: what it reports, of whom it warns, and that a training goes as without it."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from regard._watch.alarms import Alarms
from regard._watch.signs import Signs
from regard.nn import LanguageModel, LanguageModelConfig, Learned

B, H, N, D = 2, 3, 7, 5


class Small(nn.Module):
    """Attention of three heads, without and with a mask, whose scores are multiplied."""

    def __init__(self, factor: float = 1.0, causal: bool = True) -> None:
        super().__init__()
        self.qkv = nn.Linear(H * D, 3 * H * D)
        self.factor, self.causal = factor, causal

    def forward(self, x: Tensor) -> Tensor:
        shape = (x.shape[0], x.shape[1], 3, H, D)
        q, k, v = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4)
        q = q * self.factor
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


def reference(model: Small, x: Tensor) -> dict[str, list[float]]:
    """The same signs from the whole matrix of weights."""
    q, k, _ = model.qkv(x).detach().double().view(B, N, 3, H, D).permute(2, 0, 3, 1, 4)
    logits = q * model.factor @ k.mT / math.sqrt(D)
    logits = logits.masked_fill(~torch.ones(N, N, dtype=torch.bool).tril(), -math.inf)
    weights = logits.softmax(-1)
    return {
        "entropy": torch.special.entr(weights).sum(-1).mean((0, 2)).tolist(),
        "max_logit": logits.amax((0, 2, 3)).tolist(),
        "sink": weights[..., 0].mean((0, 2)).tolist(),
    }


def test_what_is_reported_follows_from_the_whole_matrix_of_weights() -> None:
    torch.manual_seed(0)
    model, x = Small(3.0), torch.randn(B, N, H * D)
    lines: list[dict[str, Any]] = []
    with regard.monitor(model, 1, report=lines.append).step() as is_watched:
        model(x).sum().backward()
    assert is_watched
    (line,) = lines
    assert (line["step"], line["layer"]) == (0, "Small")
    for name, values in reference(model, x).items():
        assert line[name] == pytest.approx(values, rel=1e-5), name


def test_our_own_modules_report_what_watch_sees_of_them() -> None:
    torch.manual_seed(0)
    config = LanguageModelConfig(
        vocabulary=11, width=24, heads=3, layers=2, position=Learned(13), kv_heads=1
    )
    model, ids = LanguageModel(config), torch.randint(11, (B, 13))
    asked: list[dict[str, Any]] = []
    seen: list[dict[str, Any]] = []
    with regard.monitor(model, 1, report=asked.append).step():
        model(ids)
    with torch.no_grad():
        model.eval()
        with regard.watch(model, every=1, report=seen.append):
            model(ids)
    assert [line["layer"] for line in asked] == [line["layer"] for line in seen]
    for one, other in zip(asked, seen, strict=True):
        for name in ("entropy", "max_logit", "sink"):
            assert one[name] == pytest.approx(other[name], rel=1e-5), name


@pytest.mark.parametrize("make", [Small, lambda: own_model()], ids=["any", "ours"])
def test_parts_of_a_batch_are_one_step(make: Any) -> None:
    torch.manual_seed(0)
    model = make()
    x = torch.randint(11, (6, N)) if isinstance(model, LanguageModel) else torch.randn(6, N, H * D)
    lines: list[dict[str, Any]] = []
    monitor = regard.monitor(model, 1, report=lines.append)
    with monitor.step():
        model(x)
    with monitor.step():
        for part in x.split(2):
            model(part)
    half = len(lines) // 2
    assert [line["step"] for line in lines] == [0] * half + [1] * half
    for whole, parts in zip(lines[:half], lines[half:], strict=True):
        for name in ("entropy", "max_logit", "sink"):
            assert parts[name] == pytest.approx(whole[name], rel=1e-5), name


def own_model() -> LanguageModel:
    config = LanguageModelConfig(vocabulary=11, width=24, heads=3, layers=2, position=Learned(N))
    return LanguageModel(config)


def test_a_training_that_is_looked_at_has_the_losses_of_one_that_is_not() -> None:
    def losses(every: int | None) -> list[float]:
        torch.manual_seed(0)
        model = own_model()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        monitor = None if every is None else regard.monitor(model, every)
        found: list[float] = []
        for step in range(5):
            ids = torch.randint(11, (B, N), generator=torch.Generator().manual_seed(step))
            with monitor.step() if monitor else torch.enable_grad():
                loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
                optimizer.zero_grad()
                loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    assert losses(2) == losses(None)


def _interrupted(model: nn.Module, x: Tensor) -> None:
    model(x)
    raise KeyboardInterrupt


def test_an_error_in_a_step_leaves_nothing_behind() -> None:
    for model, x in (
        (Small(), torch.randn(B, N, H * D)),
        (own_model(), torch.randint(11, (B, N))),
    ):
        lines: list[dict[str, Any]] = []
        monitor = regard.monitor(model, 1, report=lines.append)
        with pytest.raises(KeyboardInterrupt), monitor.step():
            _interrupted(model, x)
        assert lines == []
        with regard.watch(model) as run:  # nobody else watches it
            model(x)
        assert run.layers
        with monitor.step():
            model(x)
        assert {line["step"] for line in lines} == {1}


def test_what_is_thrown_away_in_the_middle_of_a_step_is_put_back() -> None:
    model, x = Small(), torch.randn(B, N, H * D)
    monitor = regard.monitor(model, 1)
    monitor.on_step_begin(None, _State(0), None)  # as Trainer does, which then fails
    del monitor
    with regard.watch(model) as run:
        model(x)
    assert run.layers


class _State:
    is_world_process_zero = True

    def __init__(self, step: int) -> None:
        self.global_step = step


# ── warnings ──────────────────────────────────────────────────────────────────────────────────


def signs(spread: float, logit: float) -> dict[str, Signs]:
    return {"layer": Signs([spread], [spread], [0.0], [logit])}


def test_logits_are_said_to_grow_once_if_they_are_large_and_were_not() -> None:
    said: list[str] = []
    alarms = Alarms(said.append)
    for step, logit in enumerate([12.0, 49.9, 50.0, 60.0, 900.0]):
        alarms.hear(step, signs(1.0, logit))
    assert len(said) == 1
    assert said[0].startswith("the logits of layer have grown at step 2: the largest of head 0")
    assert "50, 4.2 times the 12 at step 0" in said[0]


@pytest.mark.parametrize("logits", [[300.0, 500.0, 1100.0], [1.0, 49.0], [-80.0, 20.0]])
def test_large_logits_that_do_not_grow_are_no_reason_to_warn(logits: list[float]) -> None:
    said: list[str] = []
    alarms = Alarms(said.append)
    for step, logit in enumerate(logits):
        alarms.hear(step, signs(1.0, logit))
    assert said == []


@pytest.mark.parametrize("logit", [math.inf, math.nan])
def test_logits_that_are_not_finite_are_said_to_be(logit: float, tmp_path: Path) -> None:
    said: list[str] = []
    Alarms(said.append).hear(7, signs(1.0, logit))
    assert ["not finite" in each and "step 7" in each for each in said] == [True]
    assert signs(1.0, logit)["layer"].line()["max_logit"] == [None]


def test_a_warning_names_layer_head_and_step() -> None:
    torch.manual_seed(0)
    small = Small()
    model = nn.Sequential(small)
    monitor = regard.monitor(model, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(7):
            small.factor = 1e4 if step > 1 else 1.0
            with monitor.step():
                model(torch.randn(B, N, H * D))
    said = sorted(str(each.message).split(":")[1] for each in caught)
    assert said == [
        *(f" head {head} of 0 has collapsed at step 3" for head in range(H)),
        " the logits of 0 have grown at step 3",
    ]


# ── where it goes ─────────────────────────────────────────────────────────────────────────────


def test_lines_are_json_and_tensorboard_has_the_same_numbers(tmp_path: Path) -> None:
    model = Small()
    path, folder = tmp_path / "heads.jsonl", tmp_path / "a" / "events"
    monitor = regard.monitor(model, 2, report=path, tensorboard=folder)
    for _ in range(3):
        with monitor.step():
            model(torch.randn(B, N, H * D))
    monitor.close()
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines] == [0, 2]
    (events,) = folder.iterdir()
    content = events.read_bytes()
    for name in ("entropy", "max_logit", "sink"):
        assert all(content.count(f"{name}/Small/{head}".encode()) == 2 for head in range(H))


def test_what_cannot_be_seen_is_said_once() -> None:
    monitor = regard.monitor(nn.Linear(3, 3), 1)
    with pytest.warns(UserWarning, match="no attention was computed"), monitor.step():
        pass
    with warnings.catch_warnings(), monitor.step():
        warnings.simplefilter("error")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "smollm2"}, r"monitor\(\): model must be a torch\.nn\.Module"),
        ({"every": 0}, r"monitor\(\): every must be at least 1; got 0"),
        ({"report": 5}, r"monitor\(\): report must be a function"),
        ({"tensorboard": 5}, r"monitor\(\): tensorboard must be the path of a folder; got 5"),
        ({"report": "no/such/folder/heads.jsonl"}, r"monitor\(\): report must be a file in a fo"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"model": Small(), **arguments}
    with pytest.raises((TypeError, ValueError, OSError), match=message):
        regard.monitor(**given)


# ── other people's loops ──────────────────────────────────────────────────────────────────────


def test_trainer_of_transformers_takes_it_as_a_callback(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=13,
        hidden_size=12,
        intermediate_size=17,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
    )
    ids = torch.randint(13, (20, 7))
    data = [{"input_ids": row, "labels": row} for row in ids]

    def losses(*callbacks: Any) -> list[float]:
        model = transformers.LlamaForCausalLM(config)
        model.load_state_dict(start)
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=5,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            activation_checkpointing=True,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
        )
        made = [callback(model) for callback in callbacks]
        trainer = transformers.Trainer(model, arguments, train_dataset=data, callbacks=made)
        trainer.train()
        return [line["loss"] for line in trainer.state.log_history if "loss" in line]

    start = transformers.LlamaForCausalLM(config).state_dict()
    lines: list[dict[str, Any]] = []
    seen = losses(lambda model: regard.monitor(model, 2, report=lines.append))
    assert seen == pytest.approx(losses(), rel=1e-4)
    names = [f"model.layers.{n}.self_attn" for n in range(2)]
    assert [(line["step"], line["layer"]) for line in lines] == [
        (step, name) for step in (0, 2, 4) for name in names
    ]
    assert all(len(line["max_logit"]) == 3 and None not in line["sink"] for line in lines)


def test_the_events_of_lightning_begin_and_end_a_step() -> None:
    """As Lightning calls them: two batches a step, an event that nobody knows, an error."""

    class Trainer:
        is_global_zero = True
        global_step = 0

    model, trainer, x = Small(), Trainer(), torch.randn(B, N, H * D)
    lines: list[dict[str, Any]] = []
    monitor = regard.monitor(model, 2, report=lines.append)
    monitor.setup(trainer, model, stage="fit")
    assert monitor.on_some_event_to_come(trainer, model) is None
    assert monitor.state_dict() == {}
    assert monitor.state_key != regard.monitor(model).state_key
    for number in range(6):
        monitor.on_train_batch_start(trainer, model, x, number)
        model(x).sum().backward()
        if number % 2:
            monitor.on_before_optimizer_step(trainer, model, None)
            trainer.global_step += 1
        monitor.on_train_batch_end(trainer, model, None, x, number)
    assert [line["step"] for line in lines] == [0, 2]
    trainer.global_step = 4
    monitor.on_train_batch_start(trainer, model, x, 6)
    monitor.on_exception(trainer, model, KeyboardInterrupt())
    with regard.watch(model) as run:
        model(x)
    assert run.layers
    monitor.on_train_end(trainer, model)
    with pytest.raises(AttributeError, match="no attribute 'begin'"):
        _ = monitor.begin
