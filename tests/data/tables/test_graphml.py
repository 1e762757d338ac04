"""GraphML with types, defaults and the ids of NetworkX; nothing that could be an attack."""

import networkx as nx
import pytest

from polynsd.data.tables import read_graph
from polynsd.errors import ConfigError, DataError, GraphError

HEAD = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
KEYS = """
<key id="a" for="node" attr.name="id" attr.type="double"><default>1.5</default></key>
<key id="b" for="node" attr.name="kind" attr.type="string"/>
<key id="c" for="edge" attr.name="w" attr.type="int"/>
<key id="g" for="node" yfiles.type="nodegraphics"/>"""
GRAPH = """
<graph edgedefault="directed">
<node id="007"><data key="a">2</data><data key="b">5</data><data key="g"><x/></data></node>
<node id="7"><data key="b">4</data></node>
<edge source="7" target="007"><data key="c">3</data></edge>
</graph>"""


@pytest.fixture
def read(tmp_path):
    def read(text, **options):
        (tmp_path / "my.graphml").write_text(text)
        return read_graph(tmp_path / "my.graphml", **options)

    return read


def test_types_defaults_and_ids(read):
    graph, report = read(f"{HEAD}{KEYS}{GRAPH}</graphml>", weight="w")
    assert graph.name == "my"
    assert graph.node_ids.tolist() == ["007", "7"]
    assert graph.feature_names == ("id", "kind=4", "kind=5")
    assert graph.x.tolist() == [[2, 0, 1], [1.5, 1, 0]]
    assert graph.edge_weight.tolist() == [3]
    assert report.unused == ()


def test_what_networkx_writes(tmp_path):
    original = nx.karate_club_graph()
    nx.write_graphml(original, tmp_path / "karate.graphml")
    graph, _ = read_graph(tmp_path / "karate.graphml", label="club", weight="weight")
    assert graph.node_ids.tolist() == list(original)
    assert graph.class_names == ("Mr. Hi", "Officer")
    edges = {(u, v): d["weight"] for u, v, d in original.edges(data=True)}
    assert dict(zip(map(tuple, graph.edge_index.T.tolist()), graph.edge_weight, strict=True)) == edges


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('<!DOCTYPE x [<!ENTITY a "b">]><graphml>&a;</graphml>', "must not declare a document type"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><graphml/>', "must not declare a document type"),
        ("<graphml>", "cannot be read as XML"),
        ("", "is empty"),
        ("<graphml/>", "must hold one graph.*got 0"),
        (f"{HEAD}<graph><node id='1'><graph/></node></graph></graphml>", "got 2 graphs"),
        (f"{HEAD}<graph><hyperedge/></graph></graphml>", "hyperedges"),
        (f"{HEAD}<graph><node/></graph></graphml>", "every <node> needs the attribute 'id'"),
        (f"{HEAD}<graph><edge source='1'/></graph></graphml>", "every <edge> needs the attribute 'target'"),
        (f"{HEAD}{KEYS.replace('double', 'complex')}{GRAPH}</graphml>", "got 'complex'"),
        (f"{HEAD}{KEYS}{GRAPH.replace('>2<', '>two<')}</graphml>", "node 007 holds a value.*'two'"),
        (f"{HEAD}<graph></graph></graphml>", "at least one node"),
    ],
)
def test_files_that_cannot_be(read, text, fragment):
    with pytest.raises(DataError, match=fragment):
        read(text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_a_document_type_is_refused_in_any_encoding(tmp_path, encoding):
    """Before an entity is expanded: this one would take gigabytes."""
    entities = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(10))
    text = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE x [<!ENTITY e0 "x">{entities}]>'
    (tmp_path / "my.graphml").write_bytes(f"{text}<graphml>&e10;</graphml>".encode(encoding))
    with pytest.raises(DataError, match="must not declare a document type"):
        read_graph(tmp_path / "my.graphml")


def test_what_a_graph_of_networkx_would_merge_or_invent(read):
    twice = GRAPH.replace('<node id="7">', '<node id="007"/><node id="7">')
    with pytest.raises(
        DataError, match="must name every id once; 1 row repeats one, the first '007' in row 2"
    ):
        read(f"{HEAD}{KEYS}{twice}</graphml>", features=())
    ghost = GRAPH.replace('<edge source="7', '<edge source="8')
    with pytest.raises(GraphError, match="the first '8'"):
        read(f"{HEAD}{KEYS}{ghost}</graphml>", features=())
    edge = '<edge id="e" source="7" target="007"><data key="c">3</data></edge>'
    _, report = read(f"{HEAD}{KEYS}{GRAPH.replace('</graph>', 2 * edge + '</graph>')}</graphml>")
    assert (report.edges.given, report.edges.duplicates) == (3, 2)


def test_defaults_for_all_blanks_and_editors(read):
    keys = """<key id="a" for="all" attr.name="n" attr.type="int"><default> 4 </default></key>
<key id="b" attr.name="t"/>"""
    node = """<node id="1"><data key="b"> word </data><data key="z">drawn</data></node>
<node id="2"><data key="b"/></node>"""
    text = f"<graphml>{keys}<graph>{node}<edge source='1' target='2'/></graph></graphml>"
    graph, _ = read(text, features=["n"], weight="n")
    assert (graph.node_ids.tolist(), graph.x.tolist(), graph.edge_weight.tolist()) == (
        [1, 2],
        [[4], [4]],
        [4],
    )
    graph, _ = read(text, features=[], label="t")
    assert (graph.class_names, graph.y.tolist()) == (("word",), [0, -1])


def test_ids_are_not_to_be_chosen(read):
    with pytest.raises(ConfigError, match="holds its own nodes"):
        read(f"{HEAD}{GRAPH}</graphml>", id_column="id")
