"""Dropout by seed: fair coins, none of which knows of another, and the same alone and in company."""

from itertools import combinations

import pytest
import torch
from torch import nn
from torch.nn import functional

from polynsd.errors import ConfigError
from polynsd.training.dropout import DropoutRates, DropoutStream

N = 200_000


def stream(seed=0, epoch=0, rates=(0.5,)):
    rates = torch.tensor(rates).double()
    return DropoutStream(torch.tensor(seed), torch.tensor(epoch), rates, (rates > 0).tolist())


def drawn(seed=0, epoch=0, rate=0.5, calls=1, x=None):
    """What the last of so many calls gives; ones go in."""
    with stream(seed, epoch, (rate,) * calls):
        for _ in range(calls):
            y = functional.dropout(torch.ones(N) if x is None else x, 0.123)  # the rate is the stream's
    return y


def correlation(a, b):
    return float(torch.corrcoef(torch.stack([a.double(), b.double()]))[0, 1])


FIVE_SIGMA = 5 * N**-0.5


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**40 + 1, -1])
def test_a_share_is_zero_and_the_mean_is_preserved(seed, rate):
    y = drawn(seed, rate=rate)
    sigma = (rate * (1 - rate) / N) ** 0.5
    assert float((y == 0).double().mean()) == pytest.approx(rate, abs=5 * sigma)
    assert float(y.double().mean()) == pytest.approx(1, abs=5 * sigma / (1 - rate))
    assert y.unique().tolist() == pytest.approx([0, 1 / (1 - rate)])


MASKS = {
    "seeds": [{"seed": seed} for seed in (0, 1, 2, 3, 1000, 2**31)],
    "epochs": [{"epoch": epoch} for epoch in (0, 1, 2, 3, 500)],
    "calls": [{"calls": calls} for calls in (1, 2, 3, 4)],
    "seeds and epochs": [{"seed": seed, "epoch": 2 - seed} for seed in (0, 1, 2)],
}


@pytest.mark.parametrize("kind", MASKS)
def test_masks_are_not_correlated(kind):
    masks = [drawn(**options) for options in MASKS[kind]]
    for a, b in combinations(masks, 2):
        assert abs(correlation(a, b)) < FIVE_SIGMA


def test_nor_are_the_entries_of_one_mask():
    mask = drawn()
    for lag in (1, 2, 3, 16, 64, 1024, 65536):
        assert abs(correlation(mask[:-lag], mask[lag:])) < FIVE_SIGMA * (N / (N - lag)) ** 0.5


def test_a_mask_is_a_function_of_seed_epoch_and_call():
    """Not of the generator, and not of what was drawn before."""
    before = torch.get_rng_state()
    first = drawn(3, 7, calls=2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert torch.equal(drawn(3, 7, calls=2), first)


def test_higher_rates_drop_what_lower_ones_do_and_more():
    few, many = (drawn(rate=rate) == 0 for rate in (0.2, 0.6))
    assert bool((many | ~few).all())


def two_calls(x, seed, rates):
    with DropoutStream(seed, torch.tensor(4), rates, (True, True)):
        hidden = functional.dropout(x, 0.9)
        return functional.dropout(3 * hidden, 0.9)


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared input", "own inputs"])
def test_the_same_masks_under_vmap_and_alone(is_shared):
    """Each replica with a seed and rates of its own; values and gradients."""
    seeds, rates = torch.tensor([5, 0, 5, 2]), torch.rand(4, 2, generator=torch.Generator().manual_seed(0))
    rates = rates.double()
    x = torch.arange(1.0, 61.0).reshape(20, 3) if is_shared else torch.arange(1.0, 241.0).reshape(4, 20, 3)
    x.requires_grad_()
    together = torch.vmap(two_calls, (None if is_shared else 0, 0, 0))(x, seeds, rates)
    inputs = [x] * 4 if is_shared else list(x)
    alone = torch.stack([two_calls(*one) for one in zip(inputs, seeds, rates, strict=True)])
    assert torch.equal(together, alone)
    found, expected = (torch.autograd.grad(y.square().sum(), x)[0] for y in (together, alone))
    torch.testing.assert_close(found, expected)


def test_rates_zero_and_one():
    x = torch.randn(50)
    with stream(rates=(0.0, 1.0, 0.5)):
        assert torch.equal(functional.dropout(x), x)
        assert not functional.dropout(x).any()
        assert functional.dropout(x).any()


def test_the_gradient_has_the_mask_of_the_value():
    x = torch.ones(1000, requires_grad=True)
    y = drawn(rate=0.3, x=x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient, y.detach())


def test_evaluation_drops_nothing_and_counts_for_nothing():
    x = torch.ones(100)
    with stream(1):
        assert functional.dropout(x, training=False) is x
        after = functional.dropout(x)
    assert torch.equal(after, drawn(1, x=x))


def test_modules_are_answered_too():
    x, layer = torch.ones(100), nn.Dropout(0.9)
    with stream(1):
        found = layer(x)
    assert torch.equal(found, drawn(1, x=x))
    with stream(1):
        assert layer.eval()(x) is x
    assert torch.equal(x, torch.ones(100))


@pytest.mark.parametrize(
    "layer",
    [nn.AlphaDropout(), nn.FeatureAlphaDropout(), nn.Dropout1d(), nn.Dropout2d(), nn.Dropout3d()],
    ids=lambda layer: type(layer).__name__,
)
@pytest.mark.parametrize("mode", [stream, DropoutRates])
def test_other_dropouts_are_refused(layer, mode):
    x = torch.ones(2, 3, 4, 4, 4)
    x = {nn.Dropout1d: x[..., 0, 0], nn.Dropout2d: x[..., 0]}.get(type(layer), x)
    with pytest.raises(ConfigError, match=r"functional\.dropout only; the model calls \w*dropout"), mode():
        layer(x)


def test_rates_are_written_down_in_their_order():
    x = torch.ones(5)
    with DropoutRates() as rates:
        assert functional.dropout(x, 0.3) is x
        functional.dropout(x, 0.4, training=False)
        nn.Dropout(0.0)(x)
        nn.Dropout(1.0)(x)
    assert rates.rates == [0.3, 0.0, 1.0]
