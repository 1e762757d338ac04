"""One thread per process, because the graphs are small; no deadlines, because machines are busy."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("polynsd", deadline=None)
settings.load_profile("polynsd")
