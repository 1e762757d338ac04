"""A small graph with every awkwardness, and models whose parameters all matter."""

import torch

# a square with a diagonal, a tail 3 – 4 – 5, and the isolated node 6
PAIRS = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (4, 5))
NUM_NODES, NUM_FEATURES = 7, 5
EDGE_INDEX = torch.tensor([*PAIRS, *(pair[::-1] for pair in PAIRS)]).t().contiguous()


def features(num_nodes=NUM_NODES, width=NUM_FEATURES, seed=0, dtype=torch.float64):
    """Random node features."""
    return torch.randn(num_nodes, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def shaken(module, seed=0, dtype=torch.float64):
    """The module with noise on every parameter, so that none sits at a special value such as α = 0."""
    module = module.to(dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.4 * noise.to(dtype))
    return module


def close(a, b, atol=1e-10):
    """Whether two double-precision tensors agree to rounding."""
    return torch.allclose(a, b, atol=atol, rtol=1e-10)
