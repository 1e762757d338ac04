"""`reference` presets compute what the published implementations compute, operation by operation.

The truth is `dense_reference.PublishedModel`, written from the description of those implementations
and given the same weights.
"""

import pytest
import torch
from dense_reference import PublishedModel
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import EDGE_INDEX, NUM_FEATURES, PAIRS, close, features, shaken

from polynsd import NSD, PolyNSD
from polynsd.nn import count_parameters
from polynsd.published import PUBLISHED_LAYER

SIGNS = {"signless": +1, "laplacian": -1}
CHANNELS = [(), ("laplacian",), ("signless",), ("signless", "laplacian")]
D = 3


def published_pair(kind, maps, channels, dtype=torch.float64, **options):
    """(our model, the description with our weights)."""
    torch.manual_seed(0)
    model = kind.reference(NUM_FEATURES, 4, 2, 3, maps=maps, stalk_dim=D, fixed_channels=channels, **options)
    shaken(model, dtype=dtype).requires_grad_(False)
    signs = [SIGNS[name] for name in channels]
    return model, PublishedModel(model.state_dict(), maps, D, signs, polynomial=kind is PolyNSD)


@pytest.mark.parametrize("maps", ["diagonal", "orthogonal", "general"])
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize(("kind", "options"), [(NSD, {}), (PolyNSD, {"degree": 1}), (PolyNSD, {"degree": 5})])
def test_reference_models_follow_the_published_order(kind, maps, channels, options):
    model, truth = published_pair(kind, maps, channels, **options)
    assert close(model(features(), EDGE_INDEX), truth(features(), PAIRS))


@pytest.mark.parametrize("kind", [NSD, PolyNSD])
@pytest.mark.parametrize("maps", ["diagonal", "orthogonal", "general"])
def test_so_they_do_in_single_precision_with_a_second_linear_layer(kind, maps):
    model, truth = published_pair(kind, maps, ("laplacian",), torch.float32, second_linear=True)
    x = features(dtype=torch.float32)
    assert torch.allclose(model(x, EDGE_INDEX), truth(x, PAIRS), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("maps", ["diagonal", "orthogonal", "general"])
def test_the_published_order_is_one_of_several(maps):
    reference, _ = published_pair(PolyNSD, maps, ())
    options = {"maps": maps, "stalk_dim": D, "edge_weights": maps == "orthogonal"}
    plain = PolyNSD(NUM_FEATURES, 4, 2, 3, shared_filter=True, **PUBLISHED_LAYER | options)
    plain.double().load_state_dict(reference.state_dict())
    assert not close(plain(features(), EDGE_INDEX), reference(features(), EDGE_INDEX), atol=1e-3)


# The number of parameters of the published models, against the paper's tables and in closed form


DATASETS = {"PubMed": (500, 3), "Chameleon": (2325, 5), "Squirrel": (2089, 5)}
DEPTHS, WIDTHS, DEGREES = (2, 4, 8, 16, 32), (16, 32, 64, 128, 256), (2, 4, 6, 8, 16)

BY_DEPTH = {  # NSD, 16 channels, L = 2, 4, 8, 16, 32 (fewer where the paper ran out of memory)
    ("PubMed", "diagonal"): (48655, 50507, 54211, 61619, 76435),
    ("PubMed", "orthogonal"): (49615, 52427, 58051, 69299, 91795),
    ("PubMed", "general"): (52495, 58187, 69571, 92339, 137875),
    ("Chameleon", "diagonal"): (194817, 196669, 200373, 207781, 222597),
    ("Chameleon", "orthogonal"): (195777, 198589, 204213, 215461, 237957),
    ("Chameleon", "general"): (198657, 204349, 215733, 238501, 284037),
    ("Squirrel", "diagonal"): (175937, 177789, 181493, 188901),
    ("Squirrel", "orthogonal"): (176897, 179709, 185333, 196581),
    ("Squirrel", "general"): (179777, 185469, 196853),
}
BY_WIDTH = {  # NSD, two layers, h = 16, 32, 64, 128, 256
    ("PubMed", "diagonal"): (48655, 111071, 277375, 775871, 2436415),
    ("PubMed", "orthogonal"): (49615, 112991, 281215, 783551, 2451775),
    ("PubMed", "general"): (52495, 118751, 292735, 806591, 2497855),
    ("Chameleon", "diagonal"): (194817, 403393, 862017, 1945153, 4774977),
    ("Chameleon", "orthogonal"): (195777, 405313, 865857, 1952833, 4790337),
    ("Chameleon", "general"): (198657, 411073, 877377, 1975873, 4836417),
    ("Squirrel", "diagonal"): (175937, 365633, 786497, 1794113, 4472897),
    ("Squirrel", "orthogonal"): (176897, 367553, 790337, 1801793),
    ("Squirrel", "general"): (179777, 373313, 801857),
}
BY_DEGREE = {  # PolyNSD, two layers, 16 channels, K = 2, 4, 6, 8, 16, as printed
    ("PubMed", "diagonal"): (48659, 48661, 48663, 48665, 48673),
    ("PubMed", "orthogonal"): (49619, 49621, 49623, 49625, 49633),
    ("PubMed", "general"): (52499, 52501, 52503, 52505, 52513),
    ("Chameleon", "diagonal"): (194821, 194823, 194825, 194827, 194835),
    ("Chameleon", "orthogonal"): (195781, 195783, 195785, 195787, 195795),
    ("Chameleon", "general"): (198661, 198663, 198665, 198667, 198675),
    ("Squirrel", "diagonal"): (174661, 174663, 174665, 174667, 174675),
    ("Squirrel", "orthogonal"): (176901, 174983, 176903, 176905, 176913),
    ("Squirrel", "general"): (179781, 179783, 179785, 179787, 179795),
}
MISPRINTS = {  # what the two rows should read
    ("Squirrel", "diagonal"): (175941, 175943, 175945, 175947, 175955),
    ("Squirrel", "orthogonal"): (176901, 176903, 176905, 176907, 176915),
}


def published_count(kind, dataset, maps, channels=16, num_layers=2, **options):
    num_features, num_classes = DATASETS[dataset]
    with torch.device("meta"):
        model = kind.reference(
            num_features, channels, num_layers, num_classes,
            maps=maps, stalk_dim=4, fixed_channels=("laplacian",), second_linear=True, **options,
        )  # fmt: skip
    return count_parameters(model)


@pytest.mark.parametrize("case", BY_DEPTH)
def test_nsd_by_depth(case):
    printed = BY_DEPTH[case]
    assert tuple(published_count(NSD, *case, num_layers=L) for L in DEPTHS[: len(printed)]) == printed


@pytest.mark.parametrize("case", BY_WIDTH)
def test_nsd_by_width(case):
    printed = BY_WIDTH[case]
    assert tuple(published_count(NSD, *case, channels=h) for h in WIDTHS[: len(printed)]) == printed


@pytest.mark.parametrize("case", BY_DEGREE)
def test_polynsd_by_degree(case):
    expected = MISPRINTS.get(case, BY_DEGREE[case])
    assert tuple(published_count(PolyNSD, *case, degree=K) for K in DEGREES) == expected


def test_all_but_nine_of_the_printed_counts_are_right():
    printed = [count for table in (BY_DEPTH, BY_WIDTH, BY_DEGREE) for row in table.values() for count in row]
    wrong = [
        right - count
        for case, row in MISPRINTS.items()
        for count, right in zip(BY_DEGREE[case], row, strict=True)
        if count != right
    ]
    assert (len(printed), wrong) == (128, [1280] * 5 + [1920, 2, 2, 2])


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(*[st.integers(1, 6)] * 4),
    st.integers(2, 5),
    st.integers(0, 6),
    st.sampled_from(["diagonal", "orthogonal", "general"]),
    st.sampled_from([(), ("laplacian",), ("signless", "laplacian")]),
    st.booleans(),
    st.booleans(),
)
def test_the_closed_formula(sizes, d, K, maps, fixed, second, shared_maps):
    F, h, L, C = sizes
    D, bundle = d + len(fixed), maps == "orthogonal"
    H, m = D * h, {"diagonal": d, "orthogonal": d * (d - 1) // 2, "general": d * d}[maps]
    L_s = 1 if shared_maps else L
    count = (F + 1) * H + second * (H + 1) * H + (H + 1) * C
    count += L * (D**2 + h**2 + D) + L_s * 2 * H * (m + bundle)
    options = {"maps": maps, "stalk_dim": d, "fixed_channels": fixed, "second_linear": second}
    options["shared_maps"] = shared_maps
    assert count_parameters(NSD.reference(F, h, L, C, **options)) == count
    assert count_parameters(PolyNSD.reference(F, h, L, C, degree=K, **options)) == count + K + 2
