"""A real training: a sheaf model with dropout on three splits of a small graph, trained as replicas."""

import torch

from polynsd import kernels
from polynsd.config import LayerConfig, ModelConfig, TrainConfig, to_dict
from polynsd.data import heterophilous_graph, stratified_split
from polynsd.runs import Run
from polynsd.training import Replica, fit_replicas, get_task
from polynsd.zoo import build_model

MODEL = ModelConfig(
    "polynsd", hidden_channels=4, num_layers=1, layer=LayerConfig(stalk_dim=2, degree=2, dropout=0.3)
)
TRAINING = TrainConfig(epochs=20, patience=8, learning_rate=0.03)


DATA = heterophilous_graph(num_nodes=60, num_classes=2, num_features=4, seed=0).to_pyg()
SPLITS = [stratified_split(DATA.y, seed=i) for i in range(3)]


def train(folder):
    """Trains on from the last snapshot and returns the result."""
    config = {"model": to_dict(MODEL), "training": to_dict(TRAINING)}
    inputs = {"splits": [split.fingerprint for split in SPLITS]}
    with Run.start(folder, "protocol", config, inputs, snapshot_seconds=0) as run:
        if run.result is None:
            with kernels.use("reference"):  # others take longer to warm up than to train
                fits = _fit(run)
            splits = [
                {
                    "split": i,
                    "val": fit.val_metric,
                    "test": fit.test_metric,
                    "best_epoch": fit.best_epoch,
                    "epochs": fit.epochs,
                }
                for i, fit in enumerate(fits)
            ]
            weights = {
                f"{i}.{name}": w for i, fit in enumerate(fits) for name, w in fit.model.state_dict().items()
            }
            run.finish({"metric": "accuracy", "splits": splits}, weights)
        return run.result


def _fit(run):
    def log(split, epoch):
        run.log({"split": split, **vars(epoch)})

    def build() -> torch.nn.Module:
        return build_model(MODEL, DATA.num_features, 2)

    replicas = [Replica(build, split, 5 + i, TRAINING) for i, split in enumerate(SPLITS)]
    return fit_replicas(replicas, DATA, get_task("accuracy"), on_epoch=log, snapshots=run.snapshots)
