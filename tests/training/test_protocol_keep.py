"""A protocol that keeps nothing but its result: the same numbers, resumed as well."""

import pytest

from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.runs import read_run
from polynsd.training import Callback, Configuration, Source, fit_splits

SOURCE = Source(data=("num_nodes=60", "num_classes=2", "num_features=4"), splits=2)
MODEL = ModelConfig(hidden_channels=4, num_layers=1, layer=LayerConfig(stalk_dim=2, degree=2, dropout=0.3))
CONFIGURATION = Configuration(MODEL, TrainConfig(epochs=12, learning_rate=0.05))


class Breaks(Callback):
    """Ctrl-C in the seventh epoch."""

    def epoch(self, replica, epoch):
        if epoch.epoch == 7:
            raise KeyboardInterrupt


def protocol(out, **options):
    return fit_splits(SOURCE.problem(), CONFIGURATION, out=out, **options)


def sizes(folder):
    return {path.name: path.stat().st_size for path in folder.iterdir()}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keep") / "run"
    return folder, protocol(folder)


def test_only_the_result_stays(kept, tmp_path):
    folder, result = kept
    assert protocol(tmp_path / "run", keep=False) == result
    assert read_run(tmp_path / "run").result == read_run(folder).result
    full, small = sizes(folder), sizes(tmp_path / "run")
    assert "predictions.parquet" in full
    assert "predictions.parquet" not in small
    assert small["metrics.jsonl"] == 0 < full["metrics.jsonl"]
    assert read_run(folder).weights()
    assert not read_run(tmp_path / "run").weights()


def test_an_interrupted_one_goes_on_to_the_same_result(kept, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        protocol(tmp_path / "run", keep=False, callback=Breaks(), snapshot_seconds=0.0)
    assert (tmp_path / "run" / "snapshot.safetensors").exists()
    assert protocol(tmp_path / "run", keep=False, snapshot_seconds=0.0) == kept[1]


def test_a_finished_one_is_read_by_who_keeps_all(kept, tmp_path):
    protocol(tmp_path / "run", keep=False)
    assert protocol(tmp_path / "run").to_dict() == read_run(kept[0]).result
    assert "predictions.parquet" not in sizes(tmp_path / "run")
