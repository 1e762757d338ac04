"""A training that is over in milliseconds and depends on everything that a resumed one must get right."""

import json

import torch

from polynsd.runs import Run

CONFIG = {"model": {"name": "fake", "width": 3}, "training": {"epochs": 5, "learning_rate": 0.1}}
INPUTS = {"dataset": "none", "splits": ["0f", "1e"]}
EPOCHS = 5


def train(folder, config=CONFIG, inputs=INPUTS, table=None, **options):
    """Trains on from the last snapshot and returns the result."""
    with Run.start(folder, "protocol", config, inputs, **{"snapshot_seconds": 0, **options}) as run:
        if run.result is None:
            state = _learn(run)
            result = {"dataset": "none", "metric": "accuracy", "mean": float(state["w"].mean())}
            weights = {"w": state["w"], "tied": state["w"]}
            run.finish(result, weights, table, timings={"seconds": 0.1})
        return run.result


def _learn(run):
    generator = torch.Generator().manual_seed(1)
    state = dict(run.snapshots.load() or {"epoch": torch.tensor(0), "w": torch.zeros(3, dtype=torch.float64)})
    if "random" in state:
        generator.set_state(state["random"])
    while state["epoch"] < EPOCHS:
        noise = torch.rand(3, generator=generator, dtype=torch.float64)
        state = {"epoch": state["epoch"] + 1, "w": 0.9 * state["w"] + noise, "random": generator.get_state()}
        for split in range(2):
            run.log({"split": split, "epoch": int(state["epoch"]), "val": float(state["w"][split])})
        run.snapshots.offer(lambda now=state: {name: tensor.clone() for name, tensor in now.items()})
    return state


def content(folder):
    """Everything that a repetition must give again, by file name."""
    from fuzzing import repeatable_hashes

    names = sorted(path.name for path in folder.iterdir())
    files = {name: (folder / name).read_bytes() for name in names if name not in ("lock", "environment.json")}
    if "result.json" in files:
        result = json.loads(files["result.json"])
        del result["timings"]
        files["result.json"] = json.dumps(result).encode()
        files["manifest.json"] = json.dumps(repeatable_hashes(folder)).encode()
    else:  # a run that was killed just before it had one has no use for its manifest
        files.pop("manifest.json", None)
    return files
