"""One thread per process, because the graphs are small; the same examples in every run.

`HYPOTHESIS_PROFILE=explore make test` looks for new ones.
"""

import os

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
