"""Contract of a family of restriction maps."""

import torch
from torch import Tensor

from polynsd.sheaf.families import MapFamily
from polynsd.testing.compare import TOLERANCE, assert_close, gradients
from polynsd.testing.dense import dense_maps
from polynsd.testing.samples import random_tensor

LEAD = (2, 3)  # replicas, half-edges


def check_family(family: MapFamily, d: int, dtype: torch.dtype = torch.float64) -> None:
    """Shapes, replicas, gradients, no idle parameter, and the claim about FᵀF."""
    count = family.num_params(d)
    assert (count > 0) == family.is_learned, f"{family}: {count} numbers, is_learned={family.is_learned}"
    raw = random_tensor(*LEAD, count, dtype=dtype).tanh()
    maps = family.build(raw, d)
    assert maps.shape[:-2] == LEAD, f"{family}: leading dimensions became {list(maps.shape[:-2])}"
    assert tuple(maps.shape[-2:]) in {(d, d), (d, 1), (1, 1)}, f"{family}: blocks {list(maps.shape[-2:])}"
    assert maps.dtype == dtype, f"{family}: {dtype} became {maps.dtype}"
    assert_close(maps[1], family.build(raw[1], d).double(), f"{family}: second replica alone")
    if family.orthogonal_columns:
        assert_diagonal_gram(maps, d)
    if family.is_learned:
        assert_differentiable(family, d)


def assert_differentiable(family: MapFamily, d: int) -> None:
    """`build` passes gradcheck, and every raw number moves the map."""
    raw = random_tensor(3, family.num_params(d), seed=1).tanh().requires_grad_()
    correct = torch.autograd.gradcheck(lambda r: family.build(r, d), raw, raise_exception=False)
    assert correct, f"{family}: the gradient of build is not its derivative"
    (gradient,) = gradients(lambda r: family.build(r, d), [raw])
    assert bool((gradient != 0).all()), f"{family}: a parameter has no influence on the map"


def assert_diagonal_gram(maps: Tensor, d: int) -> None:
    """FᵀF is diagonal."""
    gram = _gram(maps, d)
    off = gram - torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1))
    worst = float(off.abs().max())
    assert worst <= TOLERANCE[maps.dtype], f"orthogonal_columns is claimed, but FᵀF holds {worst:.2e}"


def assert_orthogonal(maps: Tensor, d: int) -> None:
    """FᵀF = I."""
    gram = _gram(maps, d)
    assert_close(gram.to(maps.dtype), torch.eye(d, dtype=torch.float64).expand_as(gram), "FᵀF")


def _gram(maps: Tensor, d: int) -> Tensor:
    F = dense_maps(maps, d)
    return F.mT @ F
