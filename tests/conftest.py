"""Settings that all tests share."""

import os

from hypothesis import settings

# On CI the same examples are tried every time; elsewhere new ones are.
settings.register_profile(
    "regard", deadline=None, max_examples=60, derandomize=os.environ.get("CI") == "true"
)
settings.load_profile("regard")
