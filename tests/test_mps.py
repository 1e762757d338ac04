"""A device without double precision and without kernels, as Apple's MPS is: here played by the CPU."""

from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from polynsd import ConfigError, PolyNSD, TrainConfig, devices, heterophilous_graph, kernels
from polynsd.data import stratified_split
from polynsd.devices import get_device, to_wide, with_double
from polynsd.training import Replica, fit_replicas, get_task
from polynsd.training.population import Population


class NoDouble(TorchDispatchMode):
    """Refuses float64, as MPS does."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.dtype == torch.float64:
                raise TypeError(f"MPS has no float64: {function}")
        return result


@pytest.fixture
def without_double(monkeypatch):
    """Epochs run where there is no float64; what is prepared on the host may use it."""
    run_epoch = Population.run_epoch

    def run(population):
        numbers = vars(population.rows).values()
        assert not any(isinstance(t, torch.Tensor) and t.dtype == torch.float64 for t in numbers)
        with NoDouble():
            return run_epoch(population)

    monkeypatch.setattr(devices, "NO_DOUBLE", {"cpu"})
    monkeypatch.setattr(Population, "run_epoch", run)
    with kernels.use("reference"):
        yield


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
@pytest.mark.parametrize(
    "options", [{"maps": "orthogonal"}, {"maps": "general", "normalization": "sheaf", "map_start": "random"}]
)
def test_training_needs_no_double_precision(without_double, options, metric):
    data = heterophilous_graph(40, num_classes=2, num_features=4, seed=0).to_pyg()
    split = stratified_split(data.y, seed=0)
    config = TrainConfig(epochs=2, patience=2)
    build = partial(PolyNSD, 4, 2, 1, 2, degree=1, stalk_dim=2, norm="batch", **options)
    fits = fit_replicas([Replica(build, split, seed, config) for seed in (0, 1)], data, get_task(metric))
    assert all(fit.epochs == 2 and not fit.diverged for fit in fits)


def test_mps_is_used_where_there_is_one(monkeypatch, caplog):
    with pytest.raises(ConfigError, match=r"no Apple GPU\. Use cpu"):
        get_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    devices._say_what_mps_does.cache_clear()
    assert get_device("mps") == torch.device("mps")
    assert "predict on the CPU" in caplog.text
    assert get_device("auto").type in ("cpu", "cuda")
    assert with_double(torch.device("mps")) == torch.device("cpu")
    assert with_double(torch.device("cuda")) == torch.device("cuda")
    assert to_wide(torch.ones(1)).dtype == torch.float64
    assert to_wide(torch.ones(1, device="meta")).dtype == torch.float64
