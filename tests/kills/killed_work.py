"""Work that a process of its own does in a folder, and the bytes that it must come to."""

import csv
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from polynsd.cli import main
from polynsd.cli.fit import Fit
from polynsd.estimator import SheafClassifier
from polynsd.published import published_model, published_training
from polynsd.search import Space, heartbeat
from polynsd.training.configuration import Configuration
from polynsd.training.source import Source
from polynsd_paper import experiments
from polynsd_paper.experiment import Budget, Cell, Experiment
from polynsd_paper.records import read_record

TRAIN = [
    "train", "--data", "num_nodes=60", "num_classes=2", "num_features=4", "--splits", "3", "--dropout", "0.3",
    "--hidden-channels", "4", "--stalk-dim", "2", "--degree", "2", "--num-layers", "1",
    "--epochs", "40", "--patience", "40", "--snapshot-seconds", "0", "--quiet",
]  # fmt: skip
QUICK = {
    "maps": "diagonal", "stalk_dim": 2, "degree": 2, "hidden_channels": 4, "num_layers": 1, "dropout": 0.1,
    "learning_rate": 0.05, "weight_decay": 0.0, "epochs": 20, "device": "cpu",
}  # fmt: skip
SPACE = {
    "model.model": "mlp",
    "model.hidden_channels": [2, 3, 4],
    "model.num_layers": [1, 2],
    "model.layer.dropout": {"low": 0.0, "high": 0.5},
    "training.learning_rate": {"low": 1e-3, "high": 0.1, "log": True},
    "training.epochs": 8,
}


def train():
    main([*TRAIN, "--out", "run"])


def search():
    Space.from_dict(SPACE).save(Path("space.yaml"))
    graph = ["--data", "num_nodes=60", "--splits", "2"]
    size = ["--trials", "6", "--batch", "2", "--startup", "4", "--quiet"]
    main(["search", "--space", "space.yaml", *graph, *size, "--out", "out"])


def fit():
    """Two candidates, so that there is one to keep."""
    rng = np.random.default_rng(0)
    size = rng.normal(50, 20, 40).round(2)
    kind = np.where(np.arange(40) % 4 == 0, "", np.where(size > 50, "big", "small"))
    pd.DataFrame({"id": range(40), "size": size, "kind": kind}).to_csv("nodes.csv", index=False)
    ends = rng.integers(0, 40, (2, 80))
    pd.DataFrame({"from": ends[0], "to": ends[1]}).to_csv("edges.csv", index=False)
    Fit._make_estimator = lambda command, tables: SheafClassifier(**QUICK, validation_fraction=0.5)
    tables = ["edges.csv", "nodes.csv"]
    main(["fit", *tables, "--label", "kind", "--quiet", "--out", "run"])


def configure(dataset, model):
    data = ("num_nodes=40", "num_features=3")
    source = Source(generate="heterophily", data=data, protocol="stratified(0.5, 0.25, 0.25)", splits=2)
    training = published_training(epochs=20, patience=20, learning_rate=0.02)
    fixed = Configuration(published_model("gcn", hidden_channels=4), training)
    return Cell(
        dataset, {"model": model}, {"gcn": fixed}.get(model, Space.from_dict(SPACE)), sources=(source,)
    )


def reproduce():
    budgets = {"left": Budget(trials=4, seconds=600, splits=1, batch=2)}
    small = Experiment(
        "small", "two models", "stratified(0.5, 0.25, 0.25)", ("left",), {"model": ("mlp", "gcn")}, configure,
        seeds=2, budgets=budgets,
    )  # fmt: skip
    experiments.EXPERIMENTS["small"] = small
    main(["reproduce", "small", "--quiet", "--out", "out", "--work", "work"])


def work(name, folder, words):
    """What a shell does with a command `> /dev/null 2> words`, on a machine whose disk survives."""
    for path, number in ((os.devnull, 1), (words, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    torch.set_num_threads(1)
    os.fsync = lambda descriptor: None
    heartbeat.CLAIM_SECONDS = 0.5
    Path(folder).mkdir(exist_ok=True)
    os.chdir(folder)  # results name their tables
    {"train": train, "search": search, "fit": fit, "reproduce": reproduce}[name]()


def run_content(folder):
    """Result, metrics, weights and predictions of a run, whatever time they took."""
    result = json.loads((folder / "result.json").read_bytes())
    result.pop("timings", None)
    files = sorted(path for path in folder.iterdir() if path.suffix in (".safetensors", ".parquet", ".jsonl"))
    hashes = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.stem != "events"
    }
    return {"result": result, **hashes}


def search_content(folder):
    """What was tried, by place, what was chosen, and the training of that."""
    with (folder / "out" / "trials.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["state"] not in ("lost", "surplus")]
    for row in rows:
        del row["trial"], row["seconds"], row["best_so_far"]
    result = json.loads((folder / "out" / "result.json").read_bytes())
    del result["chosen"]["trial"]
    (final,) = (folder / "out").glob("final-trial-*")
    return {
        "trials": sorted(rows, key=lambda row: int(row["place"])),
        "chosen": result["chosen"],
        "final": run_content(final),
    }


def record_content(folder):
    """The records of the cells, without times and the numbers of trials."""
    records = {}
    for path in sorted((folder / "out" / "records").rglob("*.yaml")):
        record = read_record(path)
        found = None if record.search is None else {key: record.search[key] for key in ("trials", "val")}
        records[path.name] = repr(replace(record, seconds=0.0, search=found))
    return records


CONTENTS = {
    "train": lambda folder: run_content(folder / "run"),
    "fit": lambda folder: run_content(folder / "run"),
    "search": search_content,
    "reproduce": record_content,
}


def content(name, folder):
    return json.dumps(CONTENTS[name](folder), indent=1, sort_keys=True).encode()
