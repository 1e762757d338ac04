"""Runs with names that would break out of a page that does not escape them, and their report."""

from types import SimpleNamespace

import pytest
from hostile_tables import write_tables

from polynsd.cli import main
from polynsd.cli.fit import Fit
from polynsd.estimator import SheafClassifier
from polynsd.report.html import write_report

TRAIN = ("train", "--data", "num_nodes=60", "seed=3", "--splits", "3", "--epochs", "4", "--quiet")
SMALL = ("--hidden-channels", "4")
QUICK = {
    **{"maps": "orthogonal", "stalk_dim": 2, "degree": 2, "hidden_channels": 4, "num_layers": 1},
    **{"dropout": 0.1, "learning_rate": 0.05, "weight_decay": 0.0, "epochs": 8, "device": "cpu"},
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A training, a GCN on the same splits, and a fit to hostile tables."""
    folder = tmp_path_factory.mktemp("report")
    main([*TRAIN, *SMALL, "--out", str(folder / "ours")])
    main([*TRAIN, *SMALL, "--model", "gcn", "--out", str(folder / "gcn")])
    edges, nodes = write_tables(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Fit, "_make_estimator", lambda *_: SheafClassifier(**QUICK, ensemble=1, test_fraction=0.3)
        )
        main(["fit", str(edges), str(nodes), "--label", "label", "--quiet", "--out", str(folder / "fit")])
    return SimpleNamespace(ours=folder / "ours", gcn=folder / "gcn", fit=folder / "fit", folder=folder)


@pytest.fixture(scope="session")
def page(runs):
    """The report of all three."""
    return write_report([runs.ours, runs.gcn, runs.fit], runs.folder / "report.html")
