"""Every device gives the numbers of the CPU in float64."""

import pytest
import torch

from polynsd import PolyNSD, heterophilous_graph

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
    data = heterophilous_graph(80, seed=1)
    torch.manual_seed(0)
    model = PolyNSD(15, 6, 2, 4, maps=maps, degree=8, normalization=normalization)
    truth = loss_and_gradients(model, data, "cpu", torch.float64)
    found = loss_and_gradients(model, data, device, torch.float32)
    assert (found - truth).norm() <= 1e-5 * truth.norm()
