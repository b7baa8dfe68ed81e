"""Settings that all tests share."""

import os
from pathlib import Path

import pytest
from helpers.soak import times
from hypothesis import Phase, settings

from regard import _amx

# What `make quick` leaves out: folders and files that take long, as they start browsers, processes
# and compilers, read real models, or try very much.
SLOW = (
    "attention/test_bits.py",
    "attention/test_dropout.py",
    "attention/test_interrupt.py",
    "attention/test_memory.py",
    "attention/test_operator.py",
    "attention/test_pytorch_machinery.py",
    "attention/test_signals.py",
    "attention/test_surroundings.py",
    "attention/test_traced.py",
    "attention/test_transforms.py",
    "bench",
    "browser",
    "cli",
    "corpus",
    "fuzz",
    "lab",
    "models",
    "nn/test_compiled.py",
    "nn/test_convert_changed.py",
    "nn/test_convert_fields.py",
    "nn/test_convert_hugging_face.py",
    "nn/test_convert_pytorch.py",
    "nn/test_files.py",
    "nn/test_float32_paths.py",
    "nn/test_generate_choice.py",
    "nn/test_parity_hugging_face.py",
    "nn/test_parity_pytorch.py",
    "nn/test_parity_real_models.py",
    "nn/test_threads.py",
    "parallel",
    "run/test_atlas.py",
    "run/test_disk.py",
    "run/test_hostile.py",
    "run/test_on_disk.py",
    "run/test_sql_limits.py",
    "studio",
    "test_examples.py",
    "test_full_disk.py",
    "test_notebooks.py",
    "test_readme.py",
    "trace/test_explained.py",
    "trace/test_ten.py",
    "train/test_bad_input.py",
    "train/test_compiled.py",
    "train/test_full_disk.py",
    "train/test_hosts.py",
    "view/test_figure.py",
    "watch",
    "worked",
)

_amx.avoid()  # it would end the tests; what is started from here does without it, too

# Processes that test beside each other, and those that they start, have one thread each: more would
# wait for each other, and take twice the time. Tests that are about threads ask for them.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

_QUICK = bool(os.environ.get("REGARD_QUICK"))

# What `make mutants` runs, whose library is not among the tests'; and what is not even read, if it
# has to be quick.
collect_ignore = ["mutants.py", *(SLOW if _QUICK else ())]

# On CI the same examples are tried every time; elsewhere new ones are, and more in `make soak`.
settings.register_profile(
    "regard",
    deadline=None,
    max_examples=10 if _QUICK else times(40),
    derandomize=os.environ.get("CI") == "true",
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # not explain: it is slow
)
settings.load_profile("regard")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    slow = tuple(here / name for name in SLOW)
    paths = {item.path for item in items}
    paths = {path for path in paths if any(path.is_relative_to(each) for each in slow)}
    for item in items:
        if item.path in paths:
            item.add_marker(pytest.mark.slow)
