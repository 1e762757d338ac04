"""A graph survives its archive exactly; everything that is no graph is refused with one clear error."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from polynsd.data import Graph, Masks
from polynsd.data.datasets.archive import load_graph, save_graph
from polynsd.data.datasets.npz import NpzReader
from polynsd.data.transforms import applied_rules, apply
from polynsd.data.validation import check_arrays
from polynsd.errors import DataError

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
FIELDS = ("edge_index", "y", "edge_weight", "edge_attr", "node_ids")
TEXT = st.text(max_size=6).filter(lambda text: not text.endswith("\0"))


def float_arrays(*shape, elements=FINITE):
    return hnp.arrays(np.float32, shape, elements=elements)


@st.composite
def edge_indices(draw, num_nodes):
    pairs = [(u, v) for v in range(num_nodes) for u in range(v)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []
    return np.array(chosen, dtype=draw(st.sampled_from([np.int32, np.int64]))).reshape(-1, 2).T


@st.composite
def split_masks(draw, num_nodes):
    part = draw(hnp.arrays(np.uint8, (draw(st.integers(0, 3)), num_nodes), elements=st.integers(0, 3)))
    return Masks(part == 0, part == 1, part == 2)


@st.composite
def graphs(draw):
    n = draw(st.integers(0, 8))
    columns = draw(st.integers(0, 4))
    edge_index = draw(edge_indices(n))
    num_edges = edge_index.shape[1]
    labels = hnp.arrays(np.int64, n, elements=st.integers(-1, 4))
    targets = st.one_of(
        float_arrays(n, elements=FINITE | st.just(np.nan)), float_arrays(n, 2, elements=FINITE)
    )
    ids = hnp.arrays(np.int64, n, unique=True) | hnp.arrays(
        "U4", n, unique=True, elements=TEXT.map(lambda t: t[:4])
    )
    dense = float_arrays(n, columns)
    x = draw(st.none() | dense | dense.map(sparse.csr_matrix))
    names = st.none() | st.lists(TEXT, min_size=5, max_size=6, unique=True).map(tuple)
    extra = hnp.arrays(
        st.sampled_from(["<f8", ">i2", "|b1", "<U3", "<c16", "|S2"]), hnp.array_shapes(min_dims=0)
    )
    return Graph(
        name="drawn",
        edge_index=edge_index,
        num_nodes=n,
        x=x,
        y=draw(st.none() | labels | targets),
        masks=draw(st.dictionaries(st.sampled_from(["default", "public", "a_b"]), split_masks(n))),
        edge_weight=draw(st.none() | float_arrays(num_edges).map(np.abs)),
        edge_attr=draw(st.none() | float_arrays(num_edges, 2)),
        node_ids=draw(st.none() | ids),
        class_names=draw(names),
        feature_names=None if x is None else draw(st.none() | st.tuples(*[TEXT] * columns)),
        extras=draw(st.dictionaries(st.sampled_from(["words", "y.old", "_x-1"]), extra, max_size=2)),
    )


def assert_same_array(first, second):
    assert (first is None) == (second is None)
    if first is not None:
        np.testing.assert_array_equal(first, second)
        assert first.shape == second.shape
        assert first.dtype.kind == second.dtype.kind


def assert_same(first, second):
    assert (first.name, first.num_nodes) == (second.name, second.num_nodes)
    assert (first.class_names, first.feature_names) == (second.class_names, second.feature_names)
    for field in FIELDS:
        assert_same_array(getattr(first, field), getattr(second, field))
    assert sparse.issparse(first.x) == sparse.issparse(second.x)
    parts = ("indptr", "indices", "data") if sparse.issparse(first.x) else ()
    for part in parts:
        assert_same_array(getattr(first.x, part), getattr(second.x, part))
    assert first.num_features == second.num_features
    assert_same_array(*(None if graph.x is None or parts else graph.x for graph in (first, second)))
    assert first.masks.keys() == second.masks.keys()
    for protocol, masks in first.masks.items():
        for part in ("train", "val", "test"):
            assert_same_array(getattr(masks, part), getattr(second.masks[protocol], part))
    assert first.extras.keys() == second.extras.keys()
    for key, array in first.extras.items():
        assert_same_array(array, second.extras[key])


@settings(max_examples=50, deadline=None)
@given(graph=graphs())
def test_round_trip_is_exact_and_reproducible(graph, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives", numbered=True)
    path = save_graph(folder / "drawn.npz", graph)
    loaded = load_graph(path, extras=True)
    assert_same(graph, loaded)
    check_arrays(loaded)
    copy = save_graph(folder / "copy.npz", loaded)
    assert copy.read_bytes() == path.read_bytes()
    assert {path.name for path in folder.iterdir()} == {"drawn.npz", "copy.npz"}
    assert not load_graph(path).extras


def example(**changes):
    """A path of four nodes with everything a graph can have."""
    part = np.array([[0, 1, 2, 3], [1, 2, 0, 0]])
    graph = Graph(
        name="example",
        edge_index=np.array([[0, 1, 2], [1, 2, 3]], dtype=np.int32),
        num_nodes=4,
        x=np.eye(4, 2, dtype=np.float32),
        y=np.array([0, 1, -1, 1]),
        masks={"default": Masks(part == 0, part == 1, part == 2)},
        edge_weight=np.ones(3, dtype=np.float32),
        edge_attr=np.ones((3, 1), dtype=np.float32),
        node_ids=np.array(["a", "b", "c", "d"]),
        class_names=("left", "right"),
        feature_names=("f", "g"),
    )
    return replace(graph, **changes)


def csr(**changes):
    matrix = sparse.csr_matrix(np.eye(4, 2, dtype=np.float32))
    for name, value in changes.items():
        setattr(matrix, name, value)
    return matrix


def masks(*rows):
    return {"default": Masks(*(np.array([row], dtype=bool) for row in rows))}


FLOAT = np.float32
VIOLATIONS = [
    ({"num_nodes": -1}, "0 to 4294967296 nodes; got num_nodes=-1"),
    ({"num_nodes": 2**33}, "num_nodes=8589934592"),
    ({"edge_index": [[0], [1]]}, r"edge_index must be int32 or int64 of shape \[2, E\]; got a list"),
    ({"edge_index": np.zeros((3, 2), int)}, r"got int64 of shape \[3, 2\]"),
    ({"edge_index": np.zeros((2, 3))}, "got float64"),
    ({"edge_index": np.array([[0, 4], [1, 5]])}, r"below 4; 2 of 4 break this, the first at \[0, 1\] \(4\)"),
    ({"edge_index": np.array([[-7], [1]])}, r"1 of 2 .* \[0, 0\] \(-7\)"),
    ({"edge_index": np.array([[0, 2], [1, 2]])}, r"two different nodes; 1 of 2 .* at 1 \(\[2, 2\]\)"),
    ({"edge_index": np.array([[0, 3], [1, 2]])}, r"u < v; 1 of 2 .* at 1 \(\[3, 2\]\)"),
    ({"edge_index": np.array([[1, 0, 1, 1], [2, 1, 2, 2]])}, r"there once; 2 of 4 .* at 2 \(\[1, 2\]\)"),
    ({"x": np.eye(4)}, r"x must be float32 of shape \[4, F\]; got float64"),
    ({"x": np.eye(3, dtype=FLOAT)}, r"got float32 of shape \[3, 3\]"),
    ({"x": np.full((4, 2), np.nan, FLOAT)}, r"x must be finite; 8 of 8 .* \[0, 0\] \(nan\)"),
    ({"x": csr().tocsc()}, "CSR matrix with 4 rows; got csc"),
    ({"x": csr()[:3]}, r"got csr of shape \[3, 2\]"),
    ({"x": csr(data=np.array([1, np.inf], FLOAT))}, r"x must be finite; 1 of 2 .* at 1 \(inf\)"),
    ({"x": csr(data=np.ones(3, FLOAT))}, r"x_indices must be int32 or int64 of shape \[3\]"),
    ({"x": csr(indices=np.array([0, 2]))}, r"below 2; 1 of 2 .* at 1 \(2\)"),
    ({"x": csr(indices=np.array([-1, 1]))}, r"1 of 2 .* at 0 \(-1\)"),
    ({"x": csr(indptr=np.array([0, 2, 1, 2, 2]))}, r"must not decrease; 1 of 4 .* at 1 \(1\)"),
    ({"x": csr(indptr=np.array([0, 1, 2, 2, 3]))}, "from 0 to the 2 stored values; it runs from 0 to 3"),
    ({"x": csr(indptr=np.array([0, 1, 2]))}, r"x_indptr must be .* of shape \[5\]"),
    ({"y": np.zeros(4, np.int32)}, r"y must be int64 or float32 of shape \[4\]; got int32"),
    ({"y": np.zeros(3, np.int64)}, r"got int64 of shape \[3\]"),
    ({"y": np.zeros((4, 2), np.int64)}, r"float32 of shape \[4, T\]; got int64"),
    ({"y": np.array([0, -2, -1, -9])}, r"at least -1 .*; 2 of 4 .* at 1 \(-2\)"),
    ({"y": np.array([0, np.inf, np.nan, 1], FLOAT)}, r"finite or NaN .* 1 of 4 .* at 1 \(inf\)"),
    ({"masks": masks([1] * 4, [0] * 4, [0] * 3)}, r"test masks of 'default' must be bool of shape \[1, 4\]"),
    (
        {"masks": masks([1] * 3, [0] * 3, [0] * 3)},
        r"train masks of 'default' .* \[S, 4\]; got bool of shape \[1, 3\]",
    ),
    ({"masks": masks([1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 0])}, r"disjoint .* 2 of 4 .* \[0, 1\] \(2\)"),
    ({"edge_weight": np.ones(2, FLOAT)}, r"edge_weight must be float32 of shape \[3\]"),
    ({"edge_weight": np.array([1, np.nan, 1], FLOAT)}, "edge_weight must be finite; 1 of 3"),
    ({"edge_weight": np.array([1, 0, -1], FLOAT)}, r"not be negative; 1 of 3 .* at 2 \(-1.0\)"),
    ({"edge_attr": np.ones(3, FLOAT)}, r"edge_attr must be float32 of shape \[3, f\]"),
    ({"edge_attr": np.full((3, 1), np.inf, FLOAT)}, "edge_attr must be finite; 3 of 3"),
    ({"node_ids": np.array([1, 2, 3])}, r"4 integers or strings; got int64 of shape \[3\]"),
    ({"node_ids": np.array([1, 2, None, "a"])}, "got object"),
    ({"node_ids": ["a", "b", "c", "d"]}, "got a list"),
    ({"node_ids": np.array([3, 1, 3, 1])}, r"differ from each other; 2 of 4 .* at 2 \(3\)"),
    ({"class_names": ("left",)}, "all 2 classes; got 1"),
    ({"class_names": (1, 2)}, "must be strings"),
    ({"feature_names": ("f",)}, "the 2 columns of x; got 1"),
]


@pytest.mark.parametrize(("changes", "fragment"), VIOLATIONS)
def test_every_violation_says_how_many_and_where(changes, fragment, tmp_path):
    broken = example(**changes)
    with pytest.raises(DataError, match=fragment):
        check_arrays(broken)
    with pytest.raises(DataError, match=rf"new\.npz: .*{fragment}"):
        save_graph(tmp_path / "new.npz", broken)
    assert not list(tmp_path.iterdir())


def test_the_example_is_sound():
    check_arrays(example())
    check_arrays(example(x=csr()))


def with_arrays(path, graph, **changes):
    """The archive of a graph as NumPy writes it, with some arrays added or replaced."""
    save_graph(path, graph)
    with np.load(path) as stored:
        arrays = {key: stored[key] for key in stored.files}
    np.savez_compressed(path, **(arrays | changes))
    return path


def test_unlabelled_nodes_lose_label_and_masks(tmp_path):
    path = with_arrays(tmp_path / "a.npz", example(y=np.array([0, 0, 0, 1])), unlabelled=np.array([1, 3]))
    graph = load_graph(path)
    assert graph.y.tolist() == [0, -1, 0, -1]
    assert graph.num_classes == 1
    default = graph.masks["default"]
    assert (default.train | default.val | default.test).tolist() == [[1, 0, 1, 0], [1, 0, 1, 0]]
    targets = example(y=np.arange(4, dtype=FLOAT))
    graph = load_graph(with_arrays(path, targets, unlabelled=np.array([1])), extras=True)
    np.testing.assert_array_equal(graph.y, [0, np.nan, 2, 3])
    assert not graph.extras


def test_one_split_may_be_flat_and_any_prefix_is_a_protocol(tmp_path):
    parts = dict(zip(("train_mask", "val_mask", "test_mask"), np.eye(3, 4, dtype=bool), strict=True))
    flat = {prefix + key: mask for prefix in ("", "public_", "my_") for key, mask in parts.items()}
    graph = load_graph(with_arrays(tmp_path / "a.npz", example(masks={}), **flat), name="mine")
    assert graph.name == "mine"
    assert sorted(graph.masks) == ["default", "my", "public"]
    assert all(masks.test.tolist() == [[0, 0, 1, 0]] for masks in graph.masks.values())


def test_without_rows_the_nodes_are_those_of_the_edges(tmp_path):
    np.savez(tmp_path / "a.npz", edge_index=np.array([[0, 2], [5, 3]]))
    assert load_graph(tmp_path / "a.npz").num_nodes == 6
    bare = Graph("bare", np.array([[0], [1]]), num_nodes=9)
    assert load_graph(save_graph(tmp_path / "bare.npz", bare)).num_nodes == 9


def test_arrays_are_read_writable_and_in_c_order(tmp_path):
    x = np.asfortranarray(np.arange(8, dtype=FLOAT).reshape(4, 2))
    graph = load_graph(with_arrays(tmp_path / "a.npz", example(), x=x))
    np.testing.assert_array_equal(graph.x, x)
    assert all(array.flags.c_contiguous and array.flags.writeable for array in (graph.x, graph.edge_index))
    assert graph.to_pyg().x.shape == (4, 2)


def test_opening_reads_no_values(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, 50_000, dtype=np.uint8)
    path = save_graph(tmp_path / "a.npz", example(extras={"noise": noise}))
    data = bytearray(path.read_bytes())
    data[-30_000] ^= 1
    path.write_bytes(data)
    reader = NpzReader(str(path))
    assert reader.names[0] == "edge_index"
    assert reader.shapes["noise"] == (50_000,)
    assert_same(load_graph(path, "example"), example())
    with pytest.raises(DataError, match=r"a\.npz: .*CRC|a\.npz: .*decompress"):
        load_graph(path, extras=True)


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"extras": {"y": np.ones(1)}}, "must not use names of the format; got y"),
        ({"extras": {"my_val_mask": np.ones(1)}}, "got my_val_mask"),
        ({"extras": {"a/b": np.ones(1)}}, "got 'a/b'"),
        ({"extras": {"a": np.array([None])}}, "with dtype object"),
        ({"masks": {"a b": example().masks["default"]}}, "got 'a b'. Rename it"),
        ({"masks": {"default_b": example().masks["default"]}}, "got 'default_b'"),
        ({"class_names": ("a\0", "b")}, "ends with a NUL character"),
    ],
)
def test_what_cannot_be_stored_exactly_is_refused(changes, fragment, tmp_path):
    with pytest.raises(DataError, match=fragment):
        save_graph(tmp_path / "a.npz", example(**changes))


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    save_graph(path, example())
    before = path.read_bytes()
    monkeypatch.setattr(np.lib.format, "write_array", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_graph(path, example(edge_weight=None))
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == before
    with pytest.raises(DataError, match="there is no folder"):
        save_graph(tmp_path / "none" / "a.npz", example())


def test_preprocessing_is_remembered(tmp_path):
    graph = apply("row-normalize", replace(example(), x=np.ones((4, 2), dtype=np.float32)))
    save_graph(tmp_path / "a.npz", graph)
    assert applied_rules(load_graph(tmp_path / "a.npz")) == ("row-normalize",)


def test_one_edge_does_not_make_two_billion_nodes(tmp_path):
    np.savez(tmp_path / "a.npz", edge_index=np.array([[0], [2147483646]], dtype=np.int32))
    with pytest.raises(DataError, match=r"1 edges name node 2147483646.*store the number as num_nodes"):
        load_graph(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", edge_index=np.array([[0], [1019]], dtype=np.int32))
    assert load_graph(tmp_path / "a.npz").num_nodes == 1020


def test_class_names_differ(tmp_path):
    names = ("a", "b", "c", "never seen", "a")
    with pytest.raises(DataError, match="class_names must differ from each other; 'a' occurs again"):
        save_graph(tmp_path / "a.npz", replace(example(), class_names=names))
    save_graph(tmp_path / "a.npz", replace(example(), class_names=names[:4]))
