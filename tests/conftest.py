"""Settings that all tests share."""

import os

from hypothesis import Phase, settings

# On CI the same examples are tried every time; elsewhere new ones are.
settings.register_profile(
    "regard",
    deadline=None,
    max_examples=60,
    derandomize=os.environ.get("CI") == "true",
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # not explain: it is slow
)
settings.load_profile("regard")

collect_ignore = ["mutants.py"]  # what `make mutants` runs; its library is not among the tests'
