"""Every device gives the numbers of the CPU in float64, and a GPU the same ones captured or not."""

import os
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from published_block import published
from torch.nn.functional import dropout

from polynsd import ConfigError, PolyNSD, SheafODE, TrainConfig, heterophilous_graph
from polynsd.data import stratified_split
from polynsd.training import CapturedStep, Replica, capture, fit, fit_replicas, get_task

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
FAMILIES = ["identity", "diagonal", "orthogonal", "orthogonal(cayley)", "orthogonal(matrix_exp)", "general"]


def loss_and_gradients(model, data, device, dtype):
    model = model.to(device=device, dtype=dtype)
    logits = model(data.x.to(device=device, dtype=dtype), data.edge_index.to(device))
    loss = torch.nn.functional.cross_entropy(logits, data.y.to(device))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([loss.reshape(1), *(g.reshape(-1) for g in gradients)]).double().cpu()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("maps", FAMILIES)
@pytest.mark.parametrize("normalization", ["none", "sheaf-augmented"])
def test_float32_on_any_device_agrees_with_float64_on_the_cpu(device, maps, normalization):
    data = heterophilous_graph(80, seed=1).to_pyg()
    torch.manual_seed(0)
    model = published(15, 6, 2, 4, maps=maps, degree=8, normalization=normalization)
    truth = loss_and_gradients(model, data, "cpu", torch.float64)
    found = loss_and_gradients(model, data, device, torch.float32)
    assert (found - truth).norm() <= 1e-5 * truth.norm()


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Waiting(PolyNSD):
    """A model that waits for the device: always, or only while it is recorded."""

    def __init__(self, *sizes, only_recorded=False, **options):
        super().__init__(*sizes, **options)
        self.only_recorded = only_recorded

    def forward(self, x, edge_index):
        y = super().forward(x, edge_index)
        if not self.only_recorded or torch.cuda.is_current_stream_capturing():
            y = y / max(1.0, y.abs().max().item())
        return y


def trajectory(mode, kind=PolyNSD, rules=None, **options):
    """The epochs of a training on a GPU and its last random number."""
    data, epochs = heterophilous_graph(80, seed=1).to_pyg().to("cuda"), []
    data.edge_weight = torch.ones(data.num_edges, device="cuda") if kind is PolyNSD else None
    split = stratified_split(data.y.cpu(), seed=0)
    config = TrainConfig(epochs=12, patience=12, capture=mode, **(rules or {}))
    build = lambda: kind(15, 6, 2, 4, dropout=0.3, degree=3, **options)  # noqa: E731
    result = fit(build, data, split, get_task("accuracy"), config, 0, epochs.append)
    return epochs, result.test_metric, [p.tolist() for p in result.model.parameters()]


@needs_cuda
@pytest.mark.parametrize("normalization", ["sheaf", "sheaf-augmented"])
@pytest.mark.parametrize("maps", ["identity", "diagonal", "orthogonal", "general"])
def test_captured_training_goes_the_same_way(maps, normalization):
    options = {"maps": maps, "normalization": normalization}
    assert trajectory("on", **options) == trajectory("off", **options)


@needs_cuda
@pytest.mark.parametrize("maps_at", ["state", "start"])
def test_captured_training_in_continuous_time_goes_the_same_way(maps_at):
    options = {"maps_at": maps_at, "steps": 2}
    assert trajectory("on", SheafODE, **options) == trajectory("off", SheafODE, **options)


@needs_cuda
def test_captured_training_has_the_rates_of_its_parameters():
    rules = {"sheaf_rate": 1e-3, "sheaf_decay": 0.1}
    assert trajectory("on", rules=rules) == trajectory("off", rules=rules)


@needs_cuda
def test_a_model_that_waits_trains_on_without_capture(caplog):
    capture._warn.cache_clear()
    assert trajectory("auto", Waiting) == trajectory("off", Waiting)
    (message,) = (text for text in caplog.messages if text.startswith("training without a CUDA graph"))
    assert "it waits for the GPU at test_device.py" in message
    with pytest.raises(ConfigError, match=r"waits for the GPU at test_device\.py"):
        trajectory("on", Waiting)
    torch.cuda.empty_cache()  # the allocator is in order


@needs_cuda
def test_a_recording_that_fails_changes_nothing():
    """In a process of its own, because PyTorch's allocator does not recover from it."""
    code = (
        "from test_device import Waiting, trajectory\n"
        "runs = [trajectory(mode, Waiting, only_recorded=True) for mode in ('off', 'auto', 'off')]\n"
        "assert runs[0] == runs[1] == runs[2]\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}, check=True)


@needs_cuda
def test_every_replay_drops_out_anew_as_an_eager_step_would():
    x = torch.ones(1000, device="cuda")
    step = CapturedStep(lambda: dropout(x, 0.5), warmup=2)
    torch.manual_seed(0)
    found = [step().clone() for _ in range(6)]
    torch.manual_seed(0)
    truth = [dropout(x, 0.5) for _ in range(6)]
    assert step.captured
    assert all(torch.equal(a, b) for a, b in zip(found, truth, strict=True))
    assert not torch.equal(found[-1], found[-2])


@contextmanager
def no_waiting():
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@needs_cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("maps", ["identity", "diagonal", "orthogonal", "general"])
def test_the_second_step_does_not_wait_for_the_device(maps):
    data = heterophilous_graph(80, seed=1).to_pyg().to("cuda")
    model = PolyNSD(15, 6, 2, 4, maps=maps).to("cuda")
    weight = torch.ones(data.num_edges, device="cuda")
    model(data.x, data.edge_index, weight).sum().backward()
    with no_waiting():
        model(data.x, data.edge_index, weight).sum().backward()


@needs_cuda
def test_rounded_products_do_not_make_two_models_of_one():
    """Replicas whose builds differ in dropout alone train together, whether or not TF32 is allowed."""
    data = heterophilous_graph(200, seed=1).to_pyg().to("cuda")
    splits = [stratified_split(data.y.cpu(), (0.6, 0.2, 0.2), seed) for seed in range(2)]
    builds = [partial(PolyNSD, 15, 32, 2, 4, dropout=rate) for rate in (0.1, 0.5)]
    replicas = [Replica(build, split, 3, TrainConfig(4)) for build in builds for split in splits]
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        fits = fit_replicas(replicas, data, get_task("accuracy"))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(allowed)
    assert len(fits) == 4
