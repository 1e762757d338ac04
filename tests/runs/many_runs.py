"""Runs as commands leave them, without the training."""

from polynsd.runs import Run


def finished(folder, model, tests, dataset="texas", seed=0, metric="accuracy", **config):
    """A protocol that came to these test metrics; validation is 0.01 higher."""
    splits = [
        {"split": i, "seed": seed + i, "fingerprint": f"{dataset}-{i}", "val": test + 0.01, "test": test,
         "best_epoch": 10 * i, "epochs": 50}
        for i, test in enumerate(tests)
    ]  # fmt: skip
    result = {
        "dataset": dataset,
        "protocol": "geom-gcn",
        "model": model,
        "metric": metric,
        "select": "metric",
        "mean": sum(tests) / len(tests),
        "std_kind": "population",
        "splits": splits,
    }
    with Run.start(folder, "protocol", {"seed": seed, **config}, {"dataset": dataset}) as run:
        for epoch in range(3):
            run.log({"split": 0, "epoch": epoch, "val_metric": 0.1 * epoch, "is_best": True})
        run.finish(result, {}, timings={"seconds": 1.5})
    return folder


def unfinished(folder, dataset="texas"):
    with Run.start(folder, "protocol", {}, {"dataset": dataset}):
        pass
    return folder
