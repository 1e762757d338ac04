"""The rows of replicas: what is split is what was joined, and every tensor is aligned for a GPU."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from polynsd.training.rows import ALIGNMENT, Layout

SHAPES = st.lists(st.lists(st.integers(1, 5), max_size=3).map(tuple), min_size=1, max_size=6)


@given(SHAPES, st.integers(1, 3))
def test_what_is_split_is_what_was_joined_and_begins_at_aligned_places(shapes, count):
    generator = torch.Generator().manual_seed(0)
    named = {f"p{i}": torch.randn(count, *shape, generator=generator) for i, shape in enumerate(shapes)}
    layout = Layout({name: t[0] for name, t in named.items()})
    flat = layout.join(named.values(), torch.float32)
    assert flat.shape == (count, sum(layout.sizes))
    assert flat.count_nonzero() == sum(t.numel() for t in named.values())  # zeros between them
    for name, part in layout.split(flat).items():
        assert torch.equal(part, named[name])
        assert part.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr()
        assert part.storage_offset() % ALIGNMENT == 0
    assert flat.stride(0) % ALIGNMENT == 0
