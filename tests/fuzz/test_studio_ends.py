"""Attacks on the end of the studio: in the middle of anything, it ends, and cleanly."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import torch
from helpers.made_runs import long_text, made_run
from helpers.model_folders import save, small_llama
from helpers.soak import attacks
from helpers.studio_process import studio
from transformers import LlamaForCausalLM

from regard.run import load

QUERIES = (
    "select count(*) as n from range(1000000000000)",
    "select levenshtein(repeat('a', 700000), repeat('b', 700000)) as n",
    "select list(range) from range(1000000000)",
    "select * from edges order by weight",
    "selec",
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A folder with a run, and a model that takes texts of any length."""
    runs, model = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("model")
    made_run(long_text(1511), layers=3, hidden_states=False).save(runs / "one")
    torch.manual_seed(7)
    save(LlamaForCausalLM(small_llama(max_position_embeddings=10**6)), model)
    return str(runs), str(model)


def test_it_ends_in_the_middle_of_anything(places: tuple[str, str]) -> None:
    runs, model = places
    for choose in attacks(1):
        with studio(runs, "--model", model, "--sql-memory", "0.5") as server:
            run = server.ask("/api/runs")[0]["id"]
            for number in range(choose.randrange(1, 30)):
                kind = choose.choice(["sql", "rollout", "tile", "links", "save", "see", "leave"])
                place = f"sequence=0&layer={choose.randrange(3)}&head={choose.randrange(5)}"
                if kind == "sql":
                    asked = {"query": choose.choice(QUERIES), "runs": [run]}
                    server.begin("POST", "/api/sql", asked)
                elif kind == "rollout":
                    server.begin("GET", f"/api/runs/{run}/rollout?sequence=0&token=1500")
                elif kind == "tile":
                    size = f"level={choose.randrange(12)}&row=0&column=0"
                    server.begin("GET", f"/api/runs/{run}/tile?{place}&{size}")
                elif kind == "links":
                    server.begin("GET", f"/api/runs/{run}/links?{place}")
                elif kind == "save":
                    server.begin("POST", f"/api/runs/{run}/save", {"name": f"copy {number}"})
                elif kind == "see":
                    text = "i love " * choose.choice([1, 3_000, 200_000])
                    server.begin("POST", "/api/see", {"text": text, "model": model})
                else:
                    choose.choice(server.begun).close()
                time.sleep(choose.choice([0, 0, 0.01, 0.3]))
            assert server.send("GET", "/")[0] == 200
            time.sleep(choose.random() * 3)
            children = server.children()
            sent = choose.choice([signal.SIGINT, signal.SIGTERM])
            assert server.end(sent) == (0 if sent == signal.SIGINT else -sent, "")
            assert not [child for child in children if Path(f"/proc/{child}").exists()]
            saved = [each for each in server.store.iterdir() if not each.name.startswith(".")]
            assert [load(each).layer(2).shape for each in saved] == [(1, 5, 1511, 1511)] * len(
                saved
            )
