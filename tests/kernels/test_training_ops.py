"""What replicas compute with, on every backend: dropout by key, Adam on rows, sparse features."""

import pytest
import torch
from torch.nn import functional

from polynsd import kernels
from polynsd.kernels.ops.operator import Csr
from polynsd.kernels.ops.training import (
    adam,
    copy_rows,
    csr_product,
    dropout,
    hash32,
    keyed_dropout,
    sparse_product,
)
from polynsd.testing import assert_close, random_tensor

NAMES = [name for name in ("reference", "cpu", "gpu") if name in kernels.available()]
FLOATS = (torch.float64, torch.float32)


@pytest.fixture(params=NAMES)
def backend(request):
    with kernels.use(request.param):
        yield request.param


def place(backend):
    """Where its tensors are: Triton without a GPU is interpreted, on the CPU."""
    return "cuda" if backend == "gpu" and torch.cuda.is_available() else "cpu"


def on(name, function, *tensors):
    with kernels.use(name):
        return function(*(t.to(place(name)) for t in tensors)).cpu()


# dropout


RATES = torch.tensor([0.0, 0.3, 0.5, 1 - 1e-9, 1.0, 1e-9]).double()
KEYS = hash32(torch.arange(len(RATES)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "own"])
def test_all_backends_drop_the_same_entries(dtype, is_shared):
    x = random_tensor(1 if is_shared else len(RATES), 3001, dtype=dtype)
    expected = on("reference", keyed_dropout, x, KEYS, RATES)
    for name in NAMES[1:]:
        assert torch.equal(on(name, keyed_dropout, x, KEYS, RATES), expected), name


def test_keys_of_all_32_bits_and_no_others(backend):
    """The largest and the smallest; a mask per key."""
    keys = torch.tensor([0, 1, 2**31 - 1, 2**31, 2**32 - 1])
    x, rates = torch.ones(1, 500).double(), torch.full((5,), 0.5).double()
    found = on(backend, keyed_dropout, x, keys, rates)
    assert torch.equal(found, on("reference", keyed_dropout, x, keys, rates))
    assert len({tuple(row) for row in found.tolist()}) == 5


def test_rates_zero_and_one(backend):
    x = random_tensor(1, 700)
    kept, dropped = on(backend, keyed_dropout, x, KEYS[:2], torch.tensor([0.0, 1.0]).double())
    assert torch.equal(kept, x[0])
    assert not dropped.any()


@pytest.mark.parametrize("shape", [(0,), (1,), (7, 3), (2, 5, 4)], ids=str)
def test_dropout_of_any_shape(backend, shape):
    x = random_tensor(*shape)
    found = on(backend, dropout, x, KEYS[0], RATES[2])
    assert found.shape == x.shape
    assert torch.equal(found[found != 0], 2 * x[found != 0])


@pytest.mark.parametrize("view", [lambda x: x[:, :3], lambda x: x[::2], lambda x: x[:, 1:, 2:]], ids="abc")
def test_replicas_that_lie_apart_in_memory(backend, view):
    x = view(random_tensor(6, 5, 4).to(place(backend)))
    keys, rates = KEYS[: len(x)].to(x.device), RATES[1].expand(len(x)).to(x.device)
    found = torch.vmap(dropout)(x, keys, rates)
    alone = [dropout(x[r].clone(), keys[r], rates[r]) for r in range(len(x))]
    assert torch.equal(found, torch.stack(alone))


def test_replicas_may_share_a_rate(backend):
    x = torch.arange(1.0, 41.0, device=place(backend)).reshape(1, -1)
    found = on(backend, keyed_dropout, x, KEYS[:3], RATES[2:3])
    assert torch.equal(found, on("reference", keyed_dropout, x, KEYS[:3], RATES[2:3].expand(3).contiguous()))


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "own"])
def test_dropout_is_its_own_gradient(backend, is_shared):
    x = random_tensor(1 if is_shared else 2, 9).to(place(backend)).requires_grad_()
    keys, rates = KEYS[1:3].to(x.device), RATES[1:3].to(x.device)
    assert torch.autograd.gradcheck(lambda t: keyed_dropout(t, keys, rates), x)
    weight = random_tensor(2, 9, seed=1).to(x.device)
    (gradient,) = torch.autograd.grad((weight * keyed_dropout(x, keys, rates)).sum(), x)
    expected = keyed_dropout(weight, keys, rates)
    assert_close(gradient, expected.sum(0, keepdim=True) if is_shared else expected, "gradient", 1e-14)


# Adam


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 1e-6)], ids=str)
def test_adam_is_that_of_pytorch(backend, dtype, limit):
    """Over 20 steps, with rates by row and by entry, and decays by entry."""
    R, P, device = 3, 1100, place(backend)
    rate = torch.tensor([1e-3, 0.01, 0.5]).double()
    levels = torch.tensor([[0.0, 0.1], [5e-4, 0.0], [0.2, 1e-3]]).double()
    decay = levels.repeat_interleave(P // 2, 1)
    shares = torch.tensor([[1.0, 0.1], [2.0, 1.0], [0.0, 1.0]]).double()
    scale = shares.repeat_interleave(P // 2, 1)
    theta, gradients = random_tensor(R, P), random_tensor(20, R, P, seed=1)
    parts = [[part.clone().requires_grad_() for part in row.chunk(2)] for row in theta]
    groups = [
        {"params": [part], "lr": float(rate[r] * shares[r, i]), "weight_decay": float(levels[r, i])}
        for r in range(R)
        for i, part in enumerate(parts[r])
    ]
    optimizer = torch.optim.Adam(groups)
    state = [t.to(device, dtype) for t in (theta, torch.zeros(R, P), torch.zeros(R, P))]
    found, mean, square = state
    for number, gradient in enumerate(gradients, 1):
        for r in range(R):
            for part, g in zip(parts[r], gradient[r].chunk(2), strict=True):
                part.grad = g.clone()
        optimizer.step()
        given = (gradient.to(device, dtype), mean, square, decay.to(device, dtype), scale.to(device, dtype))
        adam(found, *given, rate.to(device), torch.tensor(number, device=device))
    expected = torch.stack([torch.cat(row) for row in parts]).detach()
    for r in range(R):
        assert_close(found[r].cpu(), expected[r], f"row {r}", limit)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("P", [0, 1, 1025])
def test_copy_rows(backend, dtype, P):
    device = place(backend)
    target, source = (random_tensor(4, P, seed=seed, dtype=dtype).to(device) for seed in (0, 1))
    wanted = torch.tensor([True, False, False, True], device=device)
    expected = torch.where(wanted[:, None], source, target)
    copy_rows(target, source, wanted)
    assert torch.equal(target, expected)


def test_what_is_not_a_number_stays_in_its_row(backend):
    device = place(backend)
    theta, mean, square = (torch.zeros(2, 5, device=device) for _ in range(3))
    gradient = torch.ones_like(theta)
    gradient[0] = torch.nan
    decay, scale, rate = (
        torch.zeros_like(theta),
        torch.ones_like(theta),
        torch.ones(2, device=device).double(),
    )
    adam(theta, gradient, mean, square, decay, scale, rate, torch.tensor(1, device=device))
    assert theta[0].isnan().all()
    assert torch.allclose(theta[1], torch.full_like(theta[1], -1.0))
    kept = torch.zeros_like(theta)
    copy_rows(kept, theta, torch.tensor([False, True], device=device))
    assert kept.isfinite().all()


# sparse products


def csr(row, col, entry, num_rows):
    rowptr = functional.pad(torch.bincount(row, minlength=num_rows).cumsum(0), (1, 0))
    return Csr(rowptr.int(), col.int(), entry.int())


def sparse_matrix(N, F, density=0.3, seed=0):
    """(matrix, transposed, row, col): a few rows and columns of it are empty, and one row is full."""
    chosen = torch.rand(N, F, generator=torch.Generator().manual_seed(seed)) < density
    if min(N, F) > 3:
        chosen[1], chosen[-1], chosen[:, 2], chosen[0] = False, False, False, True
    row, col = chosen.nonzero(as_tuple=True)
    by_col = col.argsort(stable=True)
    matrix = csr(row, col, torch.arange(len(row)), N)
    return matrix, csr(col[by_col], row[by_col], by_col, F), row, col


def dense(values, row, col, N, F):
    """[r, N, F]"""
    X = torch.zeros(len(values), N, F).double()
    X[:, row, col] = values.double()
    return X


def moved(device, *tensors):
    return [Csr(*moved(device, *t)) if isinstance(t, Csr) else t.to(device) for t in tensors]


SHAPES = [(6, 5, 1), (9, 40, 7), (5, 200, 16), (4, 8, 33), (1, 1, 130), (5, 4, 0), (0, 4, 3), (4, 0, 3)]


@pytest.mark.parametrize(("N", "F", "C"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_sparse_product_is_the_dense_one(backend, N, F, C, dtype):
    matrix, transposed, row, col = sparse_matrix(N, F)
    values, z = random_tensor(len(row), dtype=dtype), random_tensor(F, C, seed=1, dtype=dtype)
    found = sparse_product(*moved(place(backend), matrix, transposed, values, z)).cpu()
    expected = dense(values[None], row, col, N, F)[0] @ z.double()
    assert_close(found, expected, "X z", 1e-13 if dtype == torch.float64 else 1e-6)
    assert not found[matrix.rowptr.diff() == 0].any()


@pytest.mark.parametrize("of_values", [1, 3], ids=["one X", "own X"])
@pytest.mark.parametrize("of_z", [1, 3], ids=["one z", "own z"])
def test_replicas_share_or_own(backend, of_values, of_z):
    """Values and gradients."""
    N, F, C, device = 7, 9, 5, place(backend)
    matrix, transposed, row, col = sparse_matrix(N, F)
    values, z = random_tensor(of_values, len(row)), random_tensor(of_z, F, C, seed=1)
    g = random_tensor(max(of_values, of_z), N, C, seed=2)
    X = dense(values, row, col, N, F)
    leaf = z.to(device).requires_grad_()
    found = csr_product(values.to(device), leaf, *moved(device, *matrix, *transposed))
    (gradient,) = torch.autograd.grad(found, leaf, g.to(device))
    assert_close(found.detach().cpu(), X @ z, "X z", 1e-13)
    expected = X.mT @ g
    assert_close(gradient.cpu(), expected.sum(0, keepdim=True) if of_z < len(g) else expected, "Xᵀ g", 1e-13)


def test_the_transposed_product_is_the_adjoint(backend):
    """⟨X z, g⟩ = ⟨z, Xᵀ g⟩."""
    matrix, transposed, row, _ = sparse_matrix(11, 30)
    values, z, g = random_tensor(len(row)), random_tensor(30, 6, seed=1), random_tensor(11, 6, seed=2)
    matrix, transposed, values, z, g = moved(place(backend), matrix, transposed, values, z, g)
    left = (sparse_product(matrix, transposed, values, z) * g).sum()
    right = (z * sparse_product(transposed, matrix, values, g)).sum()
    assert float(left) == pytest.approx(float(right), rel=1e-12)


def test_gradients_of_a_sparse_product(backend):
    matrix, transposed, row, _ = sparse_matrix(5, 6)
    tensors = moved(place(backend), matrix, transposed, random_tensor(len(row)), random_tensor(6, 3, seed=1))
    *structure, z = tensors
    assert torch.autograd.gradcheck(lambda t: sparse_product(*structure, t), z.requires_grad_())


def test_a_view_is_as_good_as_a_copy(backend):
    """Weights of encoders come transposed."""
    matrix, transposed, row, _ = sparse_matrix(6, 20)
    tensors = moved(place(backend), matrix, transposed, random_tensor(len(row)), random_tensor(5, 20, seed=1))
    *structure, z = tensors
    assert torch.equal(sparse_product(*structure, z.mT), sparse_product(*structure, z.mT.contiguous()))


def test_vmap_runs_all_replicas_in_one_call(backend):
    matrix, transposed, row, _ = sparse_matrix(6, 8)
    values, z = random_tensor(3, len(row)), random_tensor(3, 8, 4, seed=1)
    matrix, transposed, values, z = moved(place(backend), matrix, transposed, values, z)
    together = torch.vmap(lambda v, t: sparse_product(matrix, transposed, v, t))(values, z)
    alone = [sparse_product(matrix, transposed, v, t) for v, t in zip(values, z, strict=True)]
    assert torch.equal(together, torch.stack(alone))
