"""GraphML files as an edge table and a node table.

Attributes keep the types their keys declare; an attribute a node does not have is its key's default,
or missing. Keys without a name (drawing instructions of editors) are no attributes. Files with a
document type are refused, so that no entity of theirs is ever expanded; nested graphs and hyperedges
are not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from polynsd.data.tables.files import FilePath, existing
from polynsd.data.tables.tables import ID, SOURCE, TARGET, Table
from polynsd.errors import DataError

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
CONVERT: Mapping[str, Callable[[str], Any]] = {
    "boolean": lambda text: BOOLEANS[text.lower()],
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
}


@dataclass(frozen=True)
class _Key:
    """A declared attribute."""

    name: str
    domain: str  # node, edge or all
    convert: Callable[[str], Any]
    default: Any


class _WithoutDoctype(ElementTree.TreeBuilder):
    def doctype(self, *_: object) -> None:
        raise DataError("GraphML must not declare a document type (<!DOCTYPE>); remove the declaration.")


def read_graphml(path: FilePath) -> tuple[Table, Table]:
    """The edges and the nodes of a GraphML file."""
    path = existing(path)
    try:
        root = ElementTree.parse(path, ElementTree.XMLParser(target=_WithoutDoctype())).getroot()
    except DataError:
        raise
    except (ElementTree.ParseError, LookupError, ValueError, OSError) as error:
        raise DataError(f"{path.name} cannot be read as XML: {error}. Write it again.") from error
    graph = _only_graph(root, path.name)
    keys = dict(_keys(root, path.name))
    nodes = [element for element in graph if _tag(element) == "node"]
    edges = [element for element in graph if _tag(element) == "edge"]
    ids = {ID: [_attribute(node, "id", path.name) for node in nodes]}
    ends = {
        name: [_attribute(edge, name.lstrip("@"), path.name) for edge in edges] for name in (SOURCE, TARGET)
    }
    return (
        _table(path.name, "edge", ends, edges, keys),
        _table(path.name, "node", ids, nodes, keys),
    )


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _only_graph(root: ElementTree.Element, place: str) -> ElementTree.Element:
    graphs = [element for element in root.iter() if _tag(element) == "graph"]
    if len(graphs) != 1 or any(_tag(element) == "hyperedge" for element in graphs[0]):
        raise DataError(
            f"{place} must hold one graph, without nested graphs and hyperedges; got {len(graphs)} graphs. "
            "Flatten it before reading."
        )
    return graphs[0]


def _keys(root: ElementTree.Element, place: str) -> Iterator[tuple[str, _Key]]:
    for element in root.iter():
        name = element.get("attr.name")
        if _tag(element) != "key" or name is None:
            continue
        kind = element.get("attr.type", "string")
        if kind not in CONVERT:
            raise DataError(
                f"{place}: attribute '{name}' must be of type {', '.join(CONVERT)}; got '{kind}'. Change it."
            )
        default = next((child.text for child in element if _tag(child) == "default"), None)
        key = _Key(name, element.get("for", "all"), CONVERT[kind], None)
        value = None if default is None else _converted(key, default, place)
        yield _attribute(element, "id", place), _Key(name, key.domain, key.convert, value)


def _attribute(element: ElementTree.Element, name: str, place: str) -> str:
    value = element.get(name)
    if value is None:
        raise DataError(
            f"{place}: every <{_tag(element)}> needs the attribute '{name}'; one has none. Add it."
        )
    return value


def _table(
    place: str,
    domain: str,
    ids: dict[str, list[str]],
    elements: list[ElementTree.Element],
    keys: dict[str, _Key],
) -> Table:
    defaults = {key.name: key.default for key in keys.values() if key.domain in (domain, "all")}
    records = [defaults | dict(_data(element, keys, place)) for element in elements]
    table = Table.from_records(f"{place} ({domain}s)", ids, records)
    return Table(table.place, table.raw, frozenset(ids))


def _data(element: ElementTree.Element, keys: dict[str, _Key], place: str) -> Iterator[tuple[str, Any]]:
    for child in element:
        name = child.get("key", "")
        if _tag(child) == "data" and name in keys:
            yield keys[name].name, _converted(keys[name], child.text or "", place)


def _converted(key: _Key, text: str, place: str) -> Any:
    try:
        return key.convert(text.strip())
    except (ValueError, KeyError) as error:
        raise DataError(
            f"{place}: attribute '{key.name}' holds {text!r}, which is not of its type. Correct it."
        ) from error
