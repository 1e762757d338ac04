"""GraphML files as an edge table and a node table.

networkx's reader decodes keys, defaults and values. A document type is refused before it is parsed, so that
no entity is ever expanded. Every node and edge becomes a row of its own, so that repeated ids and edges to
nodes that do not exist are found; a graph of networkx would merge the former and invent the latter.

Keys without a name (drawing instructions of editors) are no attributes. Nested graphs and hyperedges are not
supported.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

from networkx.readwrite.graphml import GraphMLReader

from polynsd.data.tables.files import FilePath, require_file
from polynsd.data.tables.ids import CANONICAL_INTEGER
from polynsd.data.tables.options import ID, SOURCE, TARGET
from polynsd.data.tables.table import Table
from polynsd.errors import DataError

TYPES = ("boolean", "int", "long", "float", "double", "string")
NAMESPACE = f"{{{GraphMLReader.NS_GRAPHML}}}"
KEY, GRAPH, NODE, EDGE, DATA = (f"{NAMESPACE}{tag}" for tag in ("key", "graph", "node", "edge", "data"))

Element: TypeAlias = ElementTree.Element


class _RefuseDoctype(ElementTree.TreeBuilder):
    def doctype(self, *_: object) -> None:
        raise DataError("GraphML must not declare a document type (<!DOCTYPE>); remove the declaration.")


def read_graphml(path: FilePath) -> tuple[Table, Table]:
    """The edges and the nodes of a GraphML file."""
    path = require_file(path)
    root = _parse(path)
    graph = _find_graph(root, path.name)
    _clean_attributes(root, path.name)
    reader = GraphMLReader()
    try:
        keys, defaults = reader.find_graphml_keys(root)
    except (ValueError, KeyError) as error:
        raise DataError(f"{path.name}: the default of a <key> is not of its type: {error}.") from error

    def decode(element: Element) -> dict[str, Any]:
        domain = (element.tag.removeprefix(NAMESPACE), "all")
        default = {keys[key]["name"]: defaults[key] for key in defaults if keys[key]["for"] in domain}
        try:
            return default | reader.decode_data_elements(keys, element)
        except (ValueError, KeyError) as error:
            raise DataError(
                f"{path.name}: {domain[0]} {' – '.join(element.attrib.values())} holds a value that is not "
                f"of its type: {error}. Correct it, or the attr.type of its <key>."
            ) from error

    nodes, edges = graph.findall(NODE), graph.findall(EDGE)
    columns = {
        ID: [_require_attribute(node, "id", path.name) for node in nodes],
        SOURCE: [_require_attribute(edge, "source", path.name) for edge in edges],
        TARGET: [_require_attribute(edge, "target", path.name) for edge in edges],
    }
    if all(_is_integer(text) for ids in columns.values() for text in ids):
        columns = {name: list(map(int, ids)) for name, ids in columns.items()}
    ends = {name: columns[name] for name in (SOURCE, TARGET)}
    return (
        Table.from_records(f"{path.name} (edges)", ends, list(map(decode, edges))),
        Table.from_records(f"{path.name} (nodes)", {ID: columns[ID]}, list(map(decode, nodes))),
    )


def _parse(path: Path) -> Element:
    """The root, with the namespace of GraphML also where the file leaves it out.

    The parser stops where a document type begins, in any encoding, before an entity of it is declared.
    """
    try:
        root = ElementTree.parse(path, ElementTree.XMLParser(target=_RefuseDoctype())).getroot()
    except DataError:
        raise
    except (ElementTree.ParseError, LookupError, ValueError, OSError) as error:
        raise DataError(f"{path.name} cannot be read as XML: {error}. Write it again.") from error
    for element in root.iter():
        element.tag = NAMESPACE + element.tag.rpartition("}")[2]
    return root


def _find_graph(root: Element, file: str) -> Element:
    graphs = list(root.iter(GRAPH))
    if len(graphs) != 1 or graphs[0].find(f"{NAMESPACE}hyperedge") is not None:
        raise DataError(
            f"{file} must hold one graph, without nested graphs and hyperedges; got {len(graphs)} graphs. "
            "Flatten it before reading."
        )
    return graphs[0]


def _clean_attributes(root: Element, file: str) -> None:
    """Fills in what keys may leave out, and removes drawing instructions and blanks around values."""
    for key in root.findall(KEY):
        name = key.get("attr.name")
        if name is None:
            root.remove(key)
            continue
        _require_attribute(key, "id", file)
        key.attrib = {"attr.type": "string", "for": "all"} | key.attrib
        if key.get("attr.type") not in TYPES:
            raise DataError(
                f"{file}: attribute '{name}' must be of type {', '.join(TYPES)}; got "
                f"'{key.get('attr.type')}'. Change it."
            )
        for default in key:
            default.text = (default.text or "").strip()
    names = {key.get("id") for key in root.findall(KEY)}
    for element in root.iter():
        for data in element.findall(DATA):
            data.text = (data.text or "").strip()
            if data.get("key") not in names:
                element.remove(data)


def _require_attribute(element: Element, name: str, file: str) -> str:
    value = element.get(name)
    if value is None:
        tag = element.tag.removeprefix(NAMESPACE)
        raise DataError(f"{file}: every <{tag}> needs the attribute '{name}'; one has none. Add it.")
    return value


def _is_integer(text: str) -> bool:
    return re.fullmatch(CANONICAL_INTEGER, text) is not None and -(2**63) <= int(text) < 2**63
