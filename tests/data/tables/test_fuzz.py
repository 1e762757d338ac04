"""Damaged files give a valid graph or one of the library's errors, and nothing else."""

import gzip
import random
import warnings

import numpy as np
import pandas as pd
import pytest
from fuzzing import fuzz_cases
from limits import cases

from polynsd.data.tables import read_graph
from polynsd.errors import PolyNSDError

EDGES = [
    b"source,target\n0,1\n1,2\n2,0\n3,3\n1,0\n",
    b"source,target,weight,kind\na,b,1.5,road\nb,c,2,rail\nc,a,0.25,road\na,b,3,rail\n",
    b'from,to\n"007","7"\n"x, y","z"\n"say ""hi""",7\n',
    "von,nach\nGrün,Žofín\nŽofín,東京\n東京,Grün\n".encode(),
    b"\xef\xbb\xbfsource,target\r\n10,20\r\n20,30\r\n",
]
NODES = [
    b"id,age,city,label\n0,31,Oslo,yes\n1,,Bern,no\n2,55.5,Oslo,\n3,7,Rome,yes\n",
    b"id,age,score\na,1,0.5\nb,2,0.25\nc,3,1e3\n",
    b'id,flag,y\n"007",true,0.5\n7,false,1.5\n"x, y",true,\nz,false,2\n"say ""hi""",true,3\n',
    "id,größe,label\nGrün,1,α\nŽofín,2,β\n東京,3,α\n".encode(),
    b"\xef\xbb\xbfid,v\r\n10,1\r\n20,2\r\n30,3\r\n",
]
SPICES = [
    *(b",", b";", b"\t", b"|", b'"', b'""', b"'", b"\n", b"\r\n", b"\r", b"\n\n", b"\x00", b" ", b"\\"),
    *(
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xc3",
        b"\xed\xa0\x80",
        "𝔘".encode(),
        "\u2028".encode(),
        b"\xa0",
        b"\x1a",
    ),
    *(
        b"nan",
        b"NaN",
        b"inf",
        b"-inf",
        b"NA",
        b"null",
        b"1e999",
        b"-1",
        b"-0",
        b"007",
        b"0x1F",
        b"1_0",
        b"+7",
    ),
    *(
        b"9223372036854775807",
        b"9223372036854775808",
        b"1" * 400,
        b"x" * 1500,
        b"True",
        b"id",
        b"source",
        b"#",
    ),
]
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "utf-7", "latin-1", "cp1252", "shift_jis")


def flip_bit(data, rng):
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def truncate(data, rng):
    return data[: rng.randrange(len(data))]


def insert(data, rng):
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(SPICES) + data[place:]


def overwrite(data, rng):
    place, spice = rng.randrange(len(data)), rng.choice(SPICES)
    return data[:place] + spice + data[place + len(spice) :]


def empty_field(data, rng):
    lines = data.split(b"\n")
    row = rng.randrange(len(lines))
    fields = lines[row].split(b",")
    fields[rng.randrange(len(fields))] = b""
    lines[row] = b",".join(fields)
    return b"\n".join(lines)


def empty_column(data, rng):
    rows = [line.split(b",") for line in data.split(b"\n")]
    column = rng.randrange(len(rows[0]))
    return b"\n".join(b",".join(f if i != column else b"" for i, f in enumerate(row)) for row in rows)


def repeat_lines(data, rng):
    lines = data.split(b"\n")
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"\n".join(lines)


def drop_line(data, rng):
    lines = data.split(b"\n")
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def mix_delimiters(data, rng):
    new = rng.choice([b";", b"\t", b" ", b"|"])
    return data.replace(b",", new, rng.choice([1, 3, -1]))


def line_ends(data, rng):
    return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\r", b"\n\n"]), rng.choice([1, -1]))


def reencode(data, rng):
    return data.decode("utf-8", "replace").encode(rng.choice(ENCODINGS), "replace")


BYTE_MUTATIONS = (flip_bit, truncate, insert, overwrite)
TEXT_MUTATIONS = (
    *BYTE_MUTATIONS,
    *(empty_field, empty_column, repeat_lines, drop_line, mix_delimiters, line_ends, reencode),
)


def damaged(data, rng, mutations):
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        data = rng.choice(mutations)(data, rng) if data else data
    return data


def write(path, data):
    path.unlink(missing_ok=True)  # some file systems flush when a file is overwritten
    path.write_bytes(data)


def assert_valid(graph):
    u, v = graph.edge_index
    assert (u >= 0).all()
    assert (u < v).all()
    assert (v < graph.num_nodes).all()
    assert np.unique(graph.edge_index, axis=1).shape[1] == graph.num_edges
    assert np.unique(graph.node_ids).size == graph.num_nodes > 0
    for values in (graph.x, graph.edge_weight, graph.edge_attr):
        assert values is None or (np.isfinite(values).all() and values.dtype == np.float32)
    if graph.class_names is not None:
        assert len(set(graph.class_names)) == len(graph.class_names)
        assert graph.y.min() >= -1
        assert graph.y.max() < len(graph.class_names)
    elif graph.y is not None:
        assert not np.isinf(graph.y).any()


def read_or_refuse(*paths, **options):
    """Whether the files gave a graph; anything but that or a refusal escapes."""
    try:
        graph, report = read_graph(*paths, **options)
    except PolyNSDError:
        return False
    assert_valid(graph)
    kept = report.edges
    assert kept.given == kept.kept + kept.self_loops + kept.duplicates + kept.reverses
    return True


def random_options(rng):
    options = {"missing": rng.choice(["error", "mean"]), "task": rng.choice(["auto", "auto", "regression"])}
    options |= {"label": rng.choice(["label", "y", "score"])} if rng.random() < 0.5 else {}
    options |= {"weight": "weight"} if rng.random() < 0.2 else {}
    options |= {"edge_features": ["kind"]} if rng.random() < 0.1 else {}
    return options


@pytest.mark.fuzz("text tables")
@pytest.mark.usefixtures("no_tracer")
@pytest.mark.parametrize("seed", range(4))
def test_text_files(tmp_path, seed):
    rng = random.Random(seed)
    graphs = 0
    for _ in cases(100):
        pair = rng.randrange(len(EDGES))
        extension = rng.choice([".csv", ".csv", ".csv", ".tsv", ".csv.gz"])
        edges, nodes = tmp_path / f"e{extension}", tmp_path / f"n{extension}"
        for path, data in ((edges, EDGES[pair]), (nodes, NODES[pair])):
            data = data.replace(b",", b"\t") if extension == ".tsv" else data
            data = damaged(data, rng, TEXT_MUTATIONS) if rng.random() < 0.7 else data
            data = gzip.compress(data, 1) if extension == ".csv.gz" else data
            data = flip_bit(data, rng) if extension == ".csv.gz" and rng.random() < 0.3 else data
            write(path, data)
        if rng.random() < 0.5:
            graphs += read_or_refuse(edges, nodes, **random_options(rng))
        else:
            graphs += read_or_refuse(edges)
    assert fuzz_cases(10) < graphs < fuzz_cases(90)


@pytest.mark.fuzz("Parquet tables")
def test_parquet_files(tmp_path):
    rng = random.Random(0)
    edges = pd.DataFrame({"s": ["a", "b", "c"], "t": ["b", "c", "a"], "w": [1.0, 2.0, 0.5]})
    nodes = pd.DataFrame({"id": ["a", "b", "c"], "v": [1, 2, 3], "label": pd.Categorical(["x", "y", None])})
    edges.to_parquet(tmp_path / "e.parquet")
    nodes.to_parquet(tmp_path / "n.parquet")
    whole = [(tmp_path / name).read_bytes() for name in ("e.parquet", "n.parquet")]
    graphs = 0
    for _ in cases(100):
        paths = (tmp_path / "edges.parquet", tmp_path / "nodes.parquet")
        for path, data in zip(paths, whole, strict=True):
            write(path, damaged(data, rng, BYTE_MUTATIONS) if rng.random() < 0.7 else data)
        graphs += read_or_refuse(*paths, label="label", weight="w")
    assert graphs > 10


GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="node" attr.name="age" attr.type="double"><default>1.5</default></key>
<key id="d1" for="node" attr.name="kind" attr.type="string"/>
<key id="d2" for="edge" attr.name="w" attr.type="int"/>
<key id="d3" for="node" attr.name="ok" attr.type="boolean"/>
<graph edgedefault="undirected">
<node id="ä"><data key="d0">2</data><data key="d1">x</data><data key="d3">true</data></node>
<node id="b"><data key="d1">y</data><data key="d3">false</data></node>
<node id="7"><data key="d0">4</data><data key="d1">x</data><data key="d3">1</data></node>
<edge source="ä" target="b"><data key="d2">2</data></edge>
<edge source="b" target="7"><data key="d2">3</data></edge>
</graph></graphml>""".encode()

TAGS = (
    b"<graph>",
    b"</node>",
    b"<node/>",
    b'<edge source="b"/>',
    b"<hyperedge/>",
    b"<!DOCTYPE g>",
    b"&a;",
    b"<!--",
)


def insert_tag(data, rng):
    place = rng.choice([i for i, byte in enumerate(data) if byte == ord("<")] or [0])
    return data[:place] + rng.choice(TAGS) + data[place:]


@pytest.mark.fuzz("GraphML files")
def test_graphml_files(tmp_path):
    rng = random.Random(0)
    path = tmp_path / "g.graphml"
    graphs = 0
    for _ in cases(200):
        write(path, damaged(GRAPHML, rng, (*BYTE_MUTATIONS, insert_tag, drop_line, reencode)))
        graphs += read_or_refuse(path, label="kind", weight="w")
    assert graphs > 10


def test_undamaged_files_are_read(tmp_path):
    for edges, nodes in zip(EDGES, NODES, strict=True):
        (tmp_path / "e.csv").write_bytes(edges)
        (tmp_path / "n.csv").write_bytes(nodes)
        assert read_or_refuse(tmp_path / "e.csv", tmp_path / "n.csv", missing="mean")
    (tmp_path / "g.graphml").write_bytes(GRAPHML)
    assert read_or_refuse(tmp_path / "g.graphml", label="kind", weight="w")


def test_no_warning_escapes(tmp_path):
    (tmp_path / "e.csv").write_bytes(b"a,b\n1,2\n")
    (tmp_path / "n.csv").write_bytes(b"id,v\n1,1e39\n2,0\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not read_or_refuse(tmp_path / "e.csv", tmp_path / "n.csv")
