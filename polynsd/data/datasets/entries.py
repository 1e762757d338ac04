"""The datasets of the catalogue as a table: what each one is, what to expect of it, where to get it.

Counts are those of the graph that is trained on: undirected edges, once each, without loops. They
were counted in the files; for those that only a download brings they are the published ones, and
None where no count is certain. To read a dataset use `polynsd.data.datasets.catalogue.load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType


@dataclass(frozen=True)
class PygDataset:
    """A dataset class of `torch_geometric.datasets`.

    Args:
        dataset: the class.
        arguments: what it is called with, besides the root folder.
        masks: the masks to take from it, by name, each with the further arguments that bring them.
    """

    dataset: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    masks: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: {"default": {}})

    def __str__(self) -> str:
        return f"torch_geometric.datasets.{self.dataset}"


@dataclass(frozen=True)
class NpzFile:
    """A file at an address, with node_features, node_labels, edges and {train,val,test}_masks."""

    url: str

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class ArchiveOnly:
    """Nowhere to download from; the reason is part of the error."""

    reason: str


Source = PygDataset | NpzFile | ArchiveOnly


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset of the catalogue.

    Args:
        name: what `load` is called with, and the name of its archive.
        title: how people call it.
        nodes: N; it is None, like the other counts, where it is not known for certain.
        edges: undirected ones, without loops.
        features: F.
        classes: C.
        preprocessing: the rule of `polynsd.data.transforms` that published results apply to its features.
        protocols: the split protocols that published results use, the usual one first.
        source: where to get it.
        licence: as stated at the source.
        citation: whom to cite.
        metric: `accuracy` or `roc_auc`.
        task: what is predicted.
        warning: what to know before comparing numbers.
        class_sizes: labelled nodes by class, where a mix-up could go unnoticed otherwise.
        may_lack_features: whether an archive without features is accepted.
    """

    name: str
    title: str
    nodes: int | None
    edges: int | None
    features: int | None
    classes: int | None
    preprocessing: str
    protocols: tuple[str, ...]
    source: Source
    licence: str
    citation: str
    metric: str = "accuracy"
    task: str = "classification"
    warning: str = ""
    class_sizes: tuple[int, ...] | None = None
    may_lack_features: bool = False


LUAN_AND_RANDOM = ("luan-60-20-20", "random-60-20-20")
TEXAS_CLASSES = (33, 1, 18, 101, 30)
HETEROPHILOUS_FILES = "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data"

NOT_COMPARABLE = "Its numbers must not be set beside published ones."
DUPLICATES = (
    "Many nodes are copies of each other (same neighbours, same label), so test nodes have twins among "
    "the training nodes; prefer {}."
)
INHERITED_MASKS = "The ten masks are the geom-gcn ones restricted to the nodes kept, so their sizes vary."
OTHER_STREETS = (
    "Not part of City-Networks: another street network with the same label and split rules and 13 features. "
    + NOT_COMPARABLE
)
RECOMPUTED_LABELS = (
    "A sub-region shown in the City-Networks paper, not one of its benchmarks; labels and features were "
    "recomputed by the rules for the undirected graph (the labels shipped were made on the directed one). "
    + NOT_COMPARABLE
)
ONE_SPLIT = "The archive has one 60/20/20 split; a download through PyG has none."
KEYWORD_COUNTS = ONE_SPLIT + " The archive holds keyword counts, PyG and most papers 0 or 1."
EMBEDDINGS = "The features are PyG's 128-dimensional embeddings, not the 3,170 binary ones of twitch_de."

geom_gcn = partial(
    DatasetEntry,
    preprocessing="row-normalize",
    protocols=("geom-gcn", *LUAN_AND_RANDOM),
    licence="none stated",
    citation="Pei et al., Geom-GCN, ICLR 2020",
)
planetoid = partial(
    DatasetEntry,
    preprocessing="row-normalize",
    protocols=("geom-gcn", "public", *LUAN_AND_RANDOM),
    licence="MIT",
    citation="Yang et al., Revisiting semi-supervised learning with graph embeddings, ICML 2016",
)
heterophilous = partial(
    DatasetEntry,
    preprocessing="raw",
    protocols=("platonov",),
    licence="MIT",
    citation="Platonov et al., A critical look at the evaluation of GNNs under heterophily, ICLR 2023",
)
city = partial(
    DatasetEntry,
    preprocessing="raw",
    protocols=("city-10-10-80",),
    licence="ODbL (OpenStreetMap contributors)",
    citation="Liang et al., Towards quantifying long-range interactions in graph machine learning, 2025",
)
street_network = partial(
    city,
    source=ArchiveOnly("it was made from the street networks that come with the package neatnet"),
    warning=OTHER_STREETS,
)
sub_region = partial(
    city,
    source=ArchiveOnly("it is only in the history of the repository of City-Networks"),
    warning=RECOMPUTED_LABELS,
)
goods_or_authors = partial(
    DatasetEntry,
    preprocessing="row-normalize",
    protocols=("stored", "random-60-20-20"),
    licence="MIT",
    citation="Shchur et al., Pitfalls of graph neural network evaluation, 2018",
)
twitch = partial(
    DatasetEntry,
    preprocessing="raw",
    protocols=("stratified(0.5, 0.25, 0.25)",),
    licence="GPL-3.0",
    citation="Rozemberczki et al., Multi-scale attributed node embedding, J. Complex Networks 2021",
    metric="roc_auc",
)
facebook = partial(
    DatasetEntry,
    preprocessing="raw",
    licence="none stated",
    citation="Lim et al., Large scale learning on non-homophilous graphs, NeurIPS 2021",
)


def _pyg(dataset: str, name: str) -> PygDataset:
    return PygDataset(dataset, {"name": name})


def _planetoid_files(name: str) -> PygDataset:
    return PygDataset(
        "Planetoid", {"name": name}, {"default": {"split": "geom-gcn"}, "public": {"split": "public"}}
    )


ENTRY_LIST = (
    geom_gcn("texas", "Texas", 183, 279, 1703, 5, source=_pyg("WebKB", "Texas"), class_sizes=TEXAS_CLASSES),
    geom_gcn(
        "wisconsin",
        "Wisconsin",
        *(251, 450, 1703, 5),
        source=_pyg("WebKB", "Wisconsin"),
        class_sizes=(10, 70, 118, 32, 21),
    ),
    geom_gcn(
        "cornell",
        "Cornell (legacy)",
        *(183, 277, 1703, 5),
        source=ArchiveOnly(
            "PyG's WebKB gives the corrected graph, which is 'cornell_fixed' here; the files most papers "
            "used lie in the repositories of Geom-GCN (early commits) and Neural Sheaf Diffusion"
        ),
        class_sizes=TEXAS_CLASSES,
        warning="It has the features and labels of Texas on the edges of Cornell, and most published Cornell "
        "numbers are of this version; use cornell_fixed for the real graph.",
    ),
    geom_gcn(
        "cornell_fixed",
        "Cornell (corrected)",
        *(183, 277, 1703, 5),
        source=_pyg("WebKB", "Cornell"),
        class_sizes=(38, 16, 30, 82, 17),
        licence="MIT",
        warning="Published Cornell numbers are mostly those of the legacy version, 'cornell'.",
    ),
    geom_gcn(
        "film",
        "Film (Actor)",
        *(7600, 26659, 932, 5),
        source=PygDataset("Actor"),
        class_sizes=(853, 1337, 1630, 1815, 1965),
    ),
    geom_gcn(
        "squirrel",
        "Squirrel",
        *(5201, 198353, 2089, 5),
        source=_pyg("WikipediaNetwork", "squirrel"),
        warning=DUPLICATES.format("squirrel_filtered"),
    ),
    geom_gcn(
        "chameleon",
        "Chameleon",
        *(2277, 31371, 2325, 5),
        source=_pyg("WikipediaNetwork", "chameleon"),
        warning=DUPLICATES.format("chameleon_filtered"),
    ),
    planetoid(
        "cora",
        "Cora",
        *(2708, 5278, 1433, 7),
        source=_planetoid_files("Cora"),
        class_sizes=(351, 217, 418, 818, 426, 298, 180),
        warning="The geom-gcn masks cover 2,485 of the 2,708 nodes, those of the largest component.",
    ),
    planetoid(
        "citeseer",
        "CiteSeer",
        *(3327, 4552, 3703, 6),
        source=_planetoid_files("CiteSeer"),
        class_sizes=(249, 590, 668, 701, 596, 508),
        warning="15 nodes have neither label nor features and belong to no split; 48 nodes have no edge; the "
        "geom-gcn splits 4 and 5 cover 2,120 nodes only.",
    ),
    planetoid(
        "pubmed",
        "PubMed",
        *(19717, 44324, 500, 3),
        source=_planetoid_files("PubMed"),
        class_sizes=(4103, 7739, 7875),
    ),
    heterophilous(
        "chameleon_filtered",
        "Chameleon (filtered)",
        *(890, 8854, 2325, 5),
        source=NpzFile(f"{HETEROPHILOUS_FILES}/chameleon_filtered.npz"),
        protocols=("geom-gcn",),
        warning=INHERITED_MASKS,
    ),
    heterophilous(
        "squirrel_filtered",
        "Squirrel (filtered)",
        *(2223, 46998, 2089, 5),
        source=NpzFile(f"{HETEROPHILOUS_FILES}/squirrel_filtered.npz"),
        protocols=("geom-gcn",),
        warning=INHERITED_MASKS,
    ),
    heterophilous(
        "roman_empire",
        "Roman-empire",
        *(22662, 32927, 300, 18),
        source=_pyg("HeterophilousGraphDataset", "Roman-empire"),
        warning="Archives may lack the features (fastText vectors), and a model needs some; the download, "
        "which has them, needs POLYNSD_DATA to name another folder or none.",
        may_lack_features=True,
    ),
    heterophilous(
        "roman_empire_glovesub",
        "Roman-empire (substitute features)",
        *(22662, 32927, 300, 18),
        source=ArchiveOnly("its features are a substitute for use without a network; load 'roman_empire'"),
        warning="The features are GloVe vectors and character n-grams in place of the benchmark's fastText "
        "vectors. " + NOT_COMPARABLE,
    ),
    heterophilous(
        "amazon_ratings",
        "Amazon-ratings",
        *(24492, 93050, 300, 5),
        source=_pyg("HeterophilousGraphDataset", "Amazon-ratings"),
    ),
    heterophilous(
        "minesweeper",
        "Minesweeper",
        *(10000, 39402, 7, 2),
        source=_pyg("HeterophilousGraphDataset", "Minesweeper"),
        metric="roc_auc",
    ),
    heterophilous(
        "tolokers",
        "Tolokers",
        *(11758, 519000, 10, 2),
        source=_pyg("HeterophilousGraphDataset", "Tolokers"),
        metric="roc_auc",
    ),
    heterophilous(
        "questions",
        "Questions",
        *(48921, 153540, 301, 2),
        source=_pyg("HeterophilousGraphDataset", "Questions"),
        metric="roc_auc",
    ),
    city("paris", "Paris", 114127, 182511, 37, 10, source=_pyg("CityNetwork", "paris")),
    city("shanghai", "Shanghai", 183917, 262092, 37, 10, source=_pyg("CityNetwork", "shanghai")),
    city("los_angeles", "Los Angeles", 240587, 341523, 37, 10, source=_pyg("CityNetwork", "la")),
    city("london", "London", 568795, 756502, 37, 10, source=_pyg("CityNetwork", "london")),
    sub_region("huangpu", "Huangpu", 5268, 7435, 37, 10),
    sub_region("pasadena", "Pasadena", 12409, 16325, 37, 10),
    street_network("citylike_aleppo", "Streets of Aleppo", 64183, 78646, 13, 10),
    street_network("citylike_bucaramanga", "Streets of Bucaramanga", 72016, 76672, 13, 10),
    street_network("citylike_douala", "Streets of Douala", 75799, 84231, 13, 10),
    street_network("citylike_liege", "Streets of Liège", 75550, 79893, 13, 10),
    street_network("citylike_wuhan", "Streets of Wuhan", 82902, 92643, 13, 10),
    goods_or_authors(
        "amazon_computers",
        "Amazon Computers",
        *(13752, 245861, 767, 10),
        source=_pyg("Amazon", "Computers"),
        warning=ONE_SPLIT,
    ),
    goods_or_authors(
        "amazon_photo",
        "Amazon Photo",
        *(7650, 119081, 745, 8),
        source=_pyg("Amazon", "Photo"),
        protocols=("random-60-20-20",),
    ),
    goods_or_authors(
        "coauthor_cs",
        "Coauthor CS",
        *(18333, 81894, 6805, 15),
        source=_pyg("Coauthor", "CS"),
        warning=KEYWORD_COUNTS,
    ),
    goods_or_authors(
        "coauthor_physics",
        "Coauthor Physics",
        *(34493, 247962, 8415, 5),
        source=_pyg("Coauthor", "Physics"),
        warning=KEYWORD_COUNTS,
    ),
    twitch(
        "twitch_de",
        "Twitch DE",
        *(9498, 153138, 3170, 2),
        source=ArchiveOnly("PyG's Twitch has this graph with 128 embeddings in place of the 3,170 features"),
        protocols=("stored",),
    ),
    twitch("twitch_en", "Twitch EN", 7126, 35324, 128, 2, source=_pyg("Twitch", "EN"), warning=EMBEDDINGS),
    twitch("twitch_es", "Twitch ES", 4648, 59382, 128, 2, source=_pyg("Twitch", "ES"), warning=EMBEDDINGS),
    twitch("twitch_fr", "Twitch FR", 6551, 112666, 128, 2, source=_pyg("Twitch", "FR"), warning=EMBEDDINGS),
    twitch("twitch_pt", "Twitch PT", 1912, 31299, 128, 2, source=_pyg("Twitch", "PT"), warning=EMBEDDINGS),
    twitch("twitch_ru", "Twitch RU", 4385, 37304, 128, 2, source=_pyg("Twitch", "RU"), warning=EMBEDDINGS),
    facebook(
        "fb100_cornell5",
        "Facebook100 Cornell5",
        *(18660, 790777, 4735, 2),
        source=_pyg("LINKXDataset", "cornell5"),
        protocols=("stratified(0.5, 0.25, 0.25)",),
        warning="1,838 nodes have no label, and there are no published splits. It is not related to cornell.",
    ),
    facebook(
        "penn94",
        "Facebook100 Penn94",
        *(41554, 1362229, None, 2),
        source=_pyg("LINKXDataset", "penn94"),
        protocols=("stored",),
    ),
)

ENTRIES: Mapping[str, DatasetEntry] = MappingProxyType({entry.name: entry for entry in ENTRY_LIST})
