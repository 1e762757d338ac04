"""One thread per process, because the graphs are small; the same examples in every run.

Where there is no GPU, Triton's kernels run in its interpreter, on the CPU.

`HYPOTHESIS_PROFILE=explore make test` looks for new ones.
"""

import os

import torch
from hypothesis import settings

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before the kernels are imported
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
