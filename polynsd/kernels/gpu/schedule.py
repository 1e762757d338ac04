"""Fair shares of a graph for a GPU: rows are whole tasks, very long rows are split.

Degrees are skewed (Squirrel: 1 to 1,904), and a program per row would wait for its largest hub. A
row of more than `length` half-edges is therefore cut into several tasks, each of which writes a
partial sum into a slot of its own; a second, small pass adds the slots of a row in order. No
atomics, so the same input gives the same bits. Tasks are sorted by length, longest first.

    tasks  [M, 4]  node, first half-edge, end, slot (-1: the row is whole)
    splits [S, 3]  node, first slot, end
"""

from __future__ import annotations

import math
import os

import torch
from torch import Tensor


def task_length(num_half_edges: int) -> int:
    """Enough tasks to fill a GPU, each long enough to be worth its start: a power of 2 from 16 to 128."""
    return 2 ** min(max(round(math.log2(max(num_half_edges, 1) / 2048)), 4), 7)


def schedule(rowptr: Tensor, num_half_edges: int) -> tuple[Tensor, Tensor]:
    """(tasks, splits) of a graph on a GPU, or in Triton's interpreter; empty otherwise."""
    if rowptr.device.type != "cuda" and not interpreted():
        return rowptr.new_zeros(0, 4, dtype=torch.int32), rowptr.new_zeros(0, 3, dtype=torch.int32)
    degree, length = rowptr.diff(), task_length(num_half_edges)
    pieces = ((degree + length - 1) // length).clamp(min=1)
    node = torch.repeat_interleave(pieces)
    first_task = pieces.cumsum(0) - pieces
    begin = rowptr[node] + length * (torch.arange(node.numel(), device=node.device) - first_task[node])
    end = torch.minimum(begin + length, rowptr[node + 1])
    is_split = pieces > 1
    slots = torch.where(is_split, pieces, 0)
    first_slot = slots.cumsum(0) - slots
    within = torch.arange(node.numel(), device=node.device) - first_task[node]
    slot = torch.where(is_split[node], first_slot[node] + within, -1)
    longest_first = torch.argsort(begin - end, stable=True)
    split = torch.nonzero(is_split).squeeze(-1)
    tasks = torch.stack([node, begin, end, slot], -1)[longest_first]
    splits = torch.stack([split, first_slot[split], (first_slot + slots)[split]], -1)
    return tasks.int().contiguous(), splits.int().contiguous()


def interpreted() -> bool:
    """Whether Triton's kernels run in its interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"
