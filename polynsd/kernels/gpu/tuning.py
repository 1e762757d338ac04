"""Tile sizes of the GPU kernels: defaults from measurements, better ones for your GPU on request.

A program holds BLOCK_E half-edges × d × C numbers at a time, on `num_warps` warps. The defaults were
measured on an H200. `tune` (`polynsd bench kernels --tune`) measures the alternatives on the GPU at
hand and remembers the fastest in `tiles.json` of the cache folder (`POLYNSD_CACHE`, by default
~/.cache/polynsd). The choice decides the order of summation, hence the last bits of a result, so it
never changes unless `tune` is asked for.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import torch

from polynsd.documents import read_json

Tile = dict[str, int]

NUMBERS = {("forward", False): 256, ("forward", True): 256, ("backward", False): 256, ("backward", True): 512}
CANDIDATES = [{"BLOCK_E": e, "num_warps": w} for e, w in ((2, 1), (4, 1), (8, 1), (16, 1), (8, 2), (16, 2))]
SPLITS: Tile = {"BLOCK_E": 8, "num_warps": 1}

_trial: dict[str, Tile] = {}  # step -> the tile that is being measured


def choose_tile(step: str, dense: bool, width: int, dtype: torch.dtype) -> Tile:
    """The tile for a `step` ("forward" or "backward") with `width` numbers per half-edge."""
    return _trial.get(step) or _load_tile(step, dense, width, dtype)


def tune(
    dense: bool, width: int, dtype: torch.dtype, runs: Mapping[str, Callable[[], object]]
) -> dict[str, Tile]:
    """Measures every candidate for the given runs (step → a call that takes it) and keeps the fastest."""
    best = {}
    for step, run in runs.items():
        times = [_measure_tile(step, tile, run) for tile in CANDIDATES]
        best[step] = CANDIDATES[times.index(min(times))]
        _save(_key(step, dense, width, dtype), best[step])
    _load_tile.cache_clear()
    return best


@cache
def _load_tile(step: str, dense: bool, width: int, dtype: torch.dtype) -> Tile:
    default = {"BLOCK_E": max(1, min(32, NUMBERS[step, dense] // width)), "num_warps": 1}
    return _load().get(_key(step, dense, width, dtype), default)


def _measure_tile(step: str, tile: Tile, run: Callable[[], object]) -> float:
    _trial[step] = tile
    try:
        return _measure(run)
    finally:
        del _trial[step]


def _measure(run: Callable[[], object]) -> float:
    """Milliseconds: median of ten replays, as small kernels launched one by one would only time the host."""
    run()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    times = []
    for _ in range(11):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[1:])


def _key(step: str, dense: bool, width: int, dtype: torch.dtype) -> str:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "interpreter"
    return f"{device} | {step} | {'dense' if dense else 'diagonal'} | {width} | {str(dtype)[6:]}"


def _file() -> Path:
    folder = os.environ.get("POLYNSD_CACHE") or Path.home() / ".cache" / "polynsd"
    return Path(folder) / "tiles.json"


def _load() -> dict[str, Tile]:
    return read_json(_file()) if _file().is_file() else {}


def _save(key: str, tile: Tile) -> None:
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps({**_load(), key: tile}, indent=1))
    unfinished.replace(file)
