"""Small files that ask for much memory are refused before they get it."""

import gzip
import io
import os
import tarfile
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy import sparse
from scipy.io import savemat

from polynsd.cli import main
from polynsd.data import Graph
from polynsd.data.datasets.archive import load_graph, save_graph
from polynsd.data.datasets.formats import CITY_TENSORS, read_files
from polynsd.data.datasets.pickles import read_pickle
from polynsd.data.describe import describe_graph
from polynsd.data.tables import read_graph
from polynsd.errors import ConfigError, DataError
from polynsd.memory import VARIABLE, free_memory, limit_memory, memory_budget, parse_size, require_memory
from polynsd.parquet import read_parquet, require_parquet_memory

ALLOWED = 24_000_000
EDGE = np.array([[0], [1]])


def write_npz(path, **arrays):
    np.savez_compressed(path, edge_index=EDGE, **arrays)


def write_wide_features(path):
    ones = np.ones(10, np.float32)
    csr = {"x_indptr": np.arange(11), "x_indices": np.zeros(10, np.int64), "x_data": ones}
    write_npz(path, **csr, x_shape=np.array([10, 2**40]))


def write_keys(path, num_keys=500, num_nodes=2000):
    keys = "".join(
        f'<key id="k{i}" for="node" attr.name="k{i}" attr.type="int"><default>1</default></key>'
        for i in range(num_keys)
    )
    nodes = "".join(f'<node id="{i}"/>' for i in range(num_nodes))
    path.write_text(f"<graphml>{keys}<graph>{nodes}</graph></graphml>")


def write_repeated_text(path, length=100_000):
    """Two columns, one of them the same long text in every row."""
    text = pa.DictionaryArray.from_arrays(np.zeros(1000, np.int32), ["x" * length])
    table = pa.table({"source": np.arange(1000), "target": text})
    pq.write_table(table, path, store_schema=False, compression="zstd")


def write_changed_text(path):
    """Every text is the one before and a little more."""
    texts = pa.array([f"{'x' * 100_000}{i}" for i in range(500)])
    encodings = {"source": "PLAIN", "target": "DELTA_BYTE_ARRAY"}
    pq.write_table(
        pa.table({"source": np.arange(500), "target": texts}),
        path,
        store_schema=False,
        compression="zstd",
        use_dictionary=False,
        column_encoding=encodings,
        write_statistics=False,
    )


ATTACKS = {
    "nodes.npz": lambda path: write_npz(path, num_nodes=np.array(2**32)),
    "features.npz": write_wide_features,
    "zeros.npz": lambda path: write_npz(path, y=np.zeros(2**22, np.int64)),
    "keys.graphml": write_keys,
    "elements.graphml": lambda path: path.write_text("<graphml><graph>" + "<a/>" * 100_000),
    "rows.csv.gz": lambda path: path.write_bytes(gzip.compress(b"s,t\n" + b"1,2\n" * 10**6, 1)),
    "fields.csv.gz": lambda path: path.write_bytes(
        gzip.compress(b",".join(b"c%d" % i for i in range(500)) + b"\n" + (b"," * 499 + b"\n") * 10**4, 1)
    ),
    "columns.csv": lambda path: path.write_text(",".join(f"c{i}" for i in range(5000)) + "\n"),
    "utf16.csv.gz": lambda path: path.write_bytes(
        gzip.compress(("s,t\n" + "1,2\n" * 10**6).encode("utf-16"), 1)
    ),
    "ids.csv": lambda path: path.write_text(
        f"s,t\n{'x' * 999},y\n" + "".join(f"a{i},b\n" for i in range(10**4))
    ),
    "numbers.parquet": lambda path: pq.write_table(
        pa.table({"s": np.zeros(2 * 10**6, np.int64), "t": np.zeros(2 * 10**6, np.int64)}), path
    ),
    "repeated.parquet": write_repeated_text,
    "changed.parquet": write_changed_text,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused_within_the_budget(name, tmp_path):
    path = tmp_path / name
    ATTACKS[name](path)
    assert path.stat().st_size < ALLOWED / 20
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        with (
            limit_memory(str(ALLOWED)),
            pytest.raises(DataError, match=rf"{name}.* would take about .*24 MB are"),
        ):
            load_graph(path) if path.suffix == ".npz" else read_graph(
                path, encoding="utf-16" if "utf16" in name else "utf-8"
            )
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert peak + pool.max_memory() < ALLOWED


def test_a_header_without_end_is_refused(tmp_path):
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(b"ab,cd," * 10**6, 1))
    with pytest.raises(DataError, match="does not end within 1,048,576 characters"):
        read_graph(tmp_path / "e.csv.gz")


def test_many_categories_stay_sparse(tmp_path):
    rng = np.random.default_rng(0)
    columns = {f"c{j}": [f"v{k}" for k in rng.integers(0, 99, 2000)] for j in range(8)}
    pd.DataFrame({"id": range(2000), **columns}).to_csv(tmp_path / "n.csv", index=False)
    (tmp_path / "e.csv").write_text("source,target\n0,1\n")
    graph, _ = read_graph(tmp_path / "e.csv", tmp_path / "n.csv")
    assert sparse.issparse(graph.x)
    assert graph.x.shape == (2000, 8 * 99)
    assert graph.x.nnz == 8 * 2000
    with (
        limit_memory("10MB"),
        pytest.raises(DataError, match="792 sparse features of 2,000 nodes as an array"),
    ):
        graph.to_pyg()
    assert graph.to_pyg(keep_sparse=True).x.layout != torch.strided


def test_ordinary_files_fit(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "n.csv").write_text("id,kind,size\na,x,1\nb,y,2\nc,x,3\n")
    with limit_memory("1MB"):
        graph, _ = read_graph(tmp_path / "e.csv", tmp_path / "n.csv")
        assert load_graph(save_graph(tmp_path / "g.npz", graph)).num_nodes == 3


def test_text_in_parquet_is_what_it_is_elsewhere(tmp_path):
    """Categories are a way of reading; the graph is that of the plain text."""
    nodes = pd.DataFrame({"id": list("abcd"), "kind": ["x", "y", "x", None], "size": [1.5, 2.0, 3.0, 4.0]})
    edges = pd.DataFrame({"s": list("abc"), "t": list("bcd")})
    graphs = []
    for extension, write in ((".csv", pd.DataFrame.to_csv), (".parquet", pd.DataFrame.to_parquet)):
        for name, frame in (("e", edges), ("n", nodes)):
            write(frame, tmp_path / f"{name}{extension}", index=False)
        graphs.append(read_graph(tmp_path / f"e{extension}", tmp_path / f"n{extension}")[0])
    assert graphs[0].feature_names == graphs[1].feature_names
    assert np.array_equal(graphs[0].x, graphs[1].x)
    assert np.array_equal(graphs[0].ids, graphs[1].ids)
    changed = tmp_path / "changed.parquet"
    write_changed_text(changed)
    assert read_parquet(changed, "changed").column("target")[7].as_py().endswith("x7")


def test_predictions_of_a_run_are_measured_too(tmp_path):
    write_repeated_text(tmp_path / "p.parquet")
    content = io.BytesIO((tmp_path / "p.parquet").read_bytes())
    with limit_memory("24MB"), pytest.raises(DataError, match="predictions would take about 100 MB"):
        require_parquet_memory(content, "predictions")


def test_classes_that_need_a_large_table(tmp_path):
    graph = Graph("classes", EDGE, 2, y=np.array([0, 9_999]))
    with limit_memory("1GB"), pytest.raises(DataError, match="mixing of 10,000 classes"):
        describe_graph(graph)


PICKLES = {
    "place": b"\x80\x02]r\xff\xff\xff\x7f.",  # remembers a list under the number 2³¹ − 1
    "copies": b"\x80\x02X" + (10**6).to_bytes(4, "little") + b"x" * 10**6 + b"q\x00"
    + b"c_codecs\nencode\nq\x01" + b"(h\x00X\x06\x00\x00\x00latin1tR0h\x01" * 100 + b".",
}  # fmt: skip


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_that_fill_the_memory(name, tmp_path):
    (tmp_path / "file").write_bytes(PICKLES[name])
    with limit_memory("200MB"), pytest.raises(DataError, match="file would take about"):
        read_pickle(tmp_path / "file", object)


def write_tensors(path, **changed):
    with tarfile.open(path, "w:gz") as archive:
        for name, file in CITY_TENSORS.items():
            stream = io.BytesIO()
            torch.save(changed.get(name, torch.zeros(2)), stream)
            member = tarfile.TarInfo(file)
            member.size = stream.tell()
            archive.addfile(member, io.BytesIO(stream.getvalue()))


@pytest.mark.parametrize(
    ("reader", "write"),
    [
        ("city", lambda path: write_tensors(path, x=torch.zeros(2**23))),
        ("city", lambda path: write_tensors(path, x=torch.zeros(1).expand(2**40))),
        ("facebook", lambda path: savemat(path, {"A": np.zeros((2000, 2000))}, do_compression=True)),
    ],
    ids=["zeros", "one value", "matlab"],
)
def test_published_files_that_fill_the_memory(reader, write, tmp_path):
    write(tmp_path / "data")
    with limit_memory("24MB"), pytest.raises(DataError, match="would take about"):
        read_files(reader, {"data": tmp_path / "data"})


def test_the_budget(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert 0 < memory_budget().allowed <= free_memory()
    with limit_memory("2GB"), limit_memory(None):
        assert memory_budget().allowed == 2 * 10**9
        with limit_memory("10%"):
            assert memory_budget().allowed < 2**50
        require_memory(2 * 10**9, "this")
        with pytest.raises(
            DataError, match=r"this would take about 2 GB .* POLYNSD_MEMORY=3GB .*--memory 3GB"
        ):
            require_memory(2 * 10**9 + 1, "this")
    assert VARIABLE not in os.environ
    sizes = {"4GB": 4 * 10**9, "4 GiB": 2**32, "4g": 2**32, "500MiB": 500 * 2**20, "12": 12, "50%": 0.5}
    assert {text: parse_size(text) for text in sizes} == sizes
    for text in ("", "much", "-1", "0", "120%", "4 apples"):
        with pytest.raises(ConfigError, match="memory must be a size such as 4GB"):
            parse_size(text)


def test_commands_take_the_budget(tmp_path, capsys):
    write_npz(tmp_path / "nodes.npz", num_nodes=np.array(2**32))
    with pytest.raises(SystemExit) as end:
        main(["data", "check", str(tmp_path / "nodes.npz"), "--memory", "2GB"])
    assert end.value.code == 2
    assert "2 GB are allowed" in capsys.readouterr().err
