"""Mixing of stalk coordinates and channels is its formula, by either way of computing it."""

import pytest
import torch

from polynsd.nn.layer import mix, mix_fully


@pytest.mark.parametrize("narrow", [0, 128])
@pytest.mark.parametrize(("stalk", "channel"), [(True, True), (True, False), (False, True), (False, False)])
def test_mixing_is_its_formula(narrow, stalk, channel, monkeypatch):
    monkeypatch.setattr("polynsd.nn.layer.NARROW", narrow)
    x, W1, W2 = torch.randn(2, 7, 3, 4), torch.randn(3, 3), torch.randn(4, 4)
    found = mix(x, W1 if stalk else None, W2 if channel else None)
    W1, W2 = W1 if stalk else torch.eye(3), W2 if channel else torch.eye(4)
    torch.testing.assert_close(found, torch.einsum("ij,rnjc,kc->rnik", W1, x, W2))
    torch.testing.assert_close(found, mix_fully(x, torch.kron(W1, W2)))
