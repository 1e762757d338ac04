"""GraphML files as an edge table and a node table.

networkx's reader decodes keys, defaults and values. A document type is refused before it is parsed, so that
no entity is ever expanded; elements are counted while they are parsed, against the memory budget. Every node
and edge becomes a row of its own, so that repeated ids and edges to nodes that do not exist are found; a
graph of networkx would merge the former and invent the latter.

Keys without a name (drawing instructions of editors) are no attributes. Nested graphs and hyperedges are not
supported.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from sys import intern
from typing import TypeAlias
from xml.etree import ElementTree

from networkx.readwrite.graphml import GraphMLReader

from polynsd.data.tables.files import FilePath, require_file
from polynsd.data.tables.schema import ID, SOURCE, TARGET
from polynsd.data.tables.table import Table
from polynsd.errors import DataError
from polynsd.memory import memory_budget

NAMESPACE = f"{{{GraphMLReader.NS_GRAPHML}}}"
ELEMENT_BYTES, ATTRIBUTE_BYTES = 350, 100  # with the records and values made of them, measured
CHARACTER_BYTES = 4  # of text in Python, at most
KEY, GRAPH, DATA = (f"{NAMESPACE}{tag}" for tag in ("key", "graph", "data"))

Element: TypeAlias = ElementTree.Element


class _CheckedBuilder(ElementTree.TreeBuilder):
    """Builds the tree of a file of `size` bytes, as far as the memory budget goes."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__()
        self.name, self.budget, self.num_bytes = name, memory_budget(), CHARACTER_BYTES * size

    def start(self, tag: str, attributes: dict[str, str]) -> Element:
        self.num_bytes += ELEMENT_BYTES + ATTRIBUTE_BYTES * len(attributes)
        if self.num_bytes > self.budget.allowed:
            self.budget.require(self.num_bytes, f"{self.name}, as far as it was read,")
        return super().start(tag, attributes)

    def doctype(self, *_: object) -> None:
        raise DataError("GraphML must not declare a document type (<!DOCTYPE>); remove the declaration.")


def read_graphml(path: FilePath) -> tuple[Table, Table]:
    """The edges and the nodes of a GraphML file."""
    path = require_file(path)
    root = _parse(path)
    graph = _find_graph(root, path.name)
    _remove_unnamed_keys(root)
    reader = GraphMLReader()
    try:
        keys, defaults = reader.find_graphml_keys(root)
    except (ValueError, KeyError) as error:
        raise DataError(
            f"{path.name}: a <key> must be of type boolean, int, long, float, double or string, and so must "
            f"its default; got {error}. Change it."
        ) from error

    def read_table(tag: str, id_attributes: dict[str, str]) -> Table:
        columns = {
            key["name"]: defaults.get(name) for name, key in keys.items() if key["for"] in (tag, "all")
        }
        ids: dict[str, list[str]] = {column: [] for column in id_attributes}
        records = []
        for element in graph.findall(NAMESPACE + tag):
            for column, attribute in id_attributes.items():
                ids[column].append(_require_attribute(element, attribute, path.name))
            try:
                records.append(reader.decode_data_elements(keys, element))
            except (ValueError, KeyError) as error:
                raise DataError(
                    f"{path.name}: {tag} {' – '.join(element.attrib.values())} holds a value that is not of "
                    f"its type: {error}. Correct it, or the attr.type of its <key>."
                ) from error
        table = Table.from_records(f"{path.name} ({tag}s)", ids, records, columns if records else None)
        return replace(table, text_columns=frozenset(ids))

    return read_table("edge", {SOURCE: "source", TARGET: "target"}), read_table("node", {ID: "id"})


def _parse(path: Path) -> Element:
    """The root, with the namespace of GraphML also where the file leaves it out.

    The parser stops where a document type begins, in any encoding, before an entity of it is declared.
    """
    builder = _CheckedBuilder(path.name, path.stat().st_size)
    try:
        root = ElementTree.parse(path, ElementTree.XMLParser(target=builder)).getroot()
    except DataError:
        raise
    except (ElementTree.ParseError, LookupError, ValueError, OSError) as error:
        raise DataError(f"{path.name} cannot be read as XML: {error}. Write it again.") from error
    for element in root.iter():
        element.tag = intern(NAMESPACE + element.tag.rpartition("}")[2])
    return root


def _find_graph(root: Element, file: str) -> Element:
    graphs = list(root.iter(GRAPH))
    if len(graphs) != 1 or graphs[0].find(f"{NAMESPACE}hyperedge") is not None:
        raise DataError(
            f"{file} must hold one graph, without nested graphs and hyperedges; got {len(graphs)} graphs. "
            "Flatten it before reading."
        )
    return graphs[0]


def _remove_unnamed_keys(root: Element) -> None:
    """Removes drawing instructions and blanks around values, and fills in what keys may leave out."""
    for key in root.findall(KEY):
        if key.get("attr.name") is None:
            root.remove(key)
        key.attrib = {"attr.type": "string", "for": "all"} | key.attrib
        for default in key:
            default.text = (default.text or "").strip()
    names = {key.get("id") for key in root.findall(KEY)}
    for element in root.iter():
        for data in element.findall(DATA):
            data.text = (data.text or "").strip()
            del data[:]  # networkx skips values that hold elements
            if data.get("key") not in names:
                element.remove(data)


def _require_attribute(element: Element, name: str, file: str) -> str:
    value = element.get(name)
    if value is None:
        tag = element.tag.removeprefix(NAMESPACE)
        raise DataError(f"{file}: every <{tag}> needs the attribute '{name}'; one has none. Add it.")
    return value
