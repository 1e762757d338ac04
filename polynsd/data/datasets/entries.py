# ruff: noqa: E501 (rows of a table are as wide as they are)
"""The datasets of the catalogue as a table: what each one is, what to expect of it, where to get it.

Counts are those of the graph that is trained on: undirected edges, once each, without loops. They
were counted in the files; for those that only a download brings they are the published ones, and
None where no count is certain. To read a dataset use `polynsd.data.datasets.catalogue.load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Download:
    """Files of a publisher.

    Args:
        reader: the name in `polynsd.data.datasets.formats` of what makes a graph of them.
        files: the address of every file, by the name that the reader gives it.
    """

    reader: str
    files: Mapping[str, str]

    def __str__(self) -> str:
        return next(iter(self.files.values()))


@dataclass(frozen=True)
class ArchiveOnly:
    """Nowhere to download from; the reason is part of the error."""

    reason: str


DatasetSource = Download | ArchiveOnly


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset of the catalogue.

    Args:
        name: what `load` is called with, and the name of its archive.
        title: how people call it.
        nodes: N; None, like the other counts, where it is not certain.
        edges: undirected ones, without loops.
        features: F.
        classes: C.
        source: where to get it.
        preprocessing: the rule of `polynsd.data.transforms` that published results apply to its features.
        protocols: the split protocols that published results use, the usual one first.
        licence: as stated at the source.
        citation: whom to cite.
        metric: `accuracy` or `roc_auc`.
        task: what is predicted.
        warning: what to know before comparing numbers.
        class_sizes: labelled nodes by class, where a mix-up could go unnoticed otherwise.
        may_lack_features: whether an archive without features is accepted.
        sha256: the fingerprint (`polynsd.data.datasets.trust`) that a download must have, where it is known.
    """

    name: str
    title: str
    nodes: int | None
    edges: int | None
    features: int | None
    classes: int | None
    source: DatasetSource
    preprocessing: str
    protocols: tuple[str, ...]
    licence: str
    citation: str
    metric: str = "accuracy"
    task: str = "classification"
    warning: str = ""
    class_sizes: tuple[int, ...] | None = None
    may_lack_features: bool = False
    sha256: str | None = None


GITHUB = "https://raw.githubusercontent.com"
GEOM_GCN_FILES = f"{GITHUB}/graphdml-uiuc-jlu/geom-gcn"
GEOM_GCN_COMMIT = "f1fc0d14b3b019c562737240d06ec83b07d16a8f"  # before Cornell was corrected
LINKX_FILES = f"{GITHUB}/CUAI/Non-Homophily-Large-Scale/master/data"
GEOM_GCN_SPLITS = {
    f"split {i}": f"{GEOM_GCN_FILES}/{GEOM_GCN_COMMIT}/splits/{{name}}_split_0.6_0.2_{i}.npz"
    for i in range(10)
}
GEOM_GCN_TEXTS = {
    "nodes": f"{GEOM_GCN_FILES}/{{commit}}/new_data/{{name}}/out1_node_feature_label.txt",
    "edges": f"{GEOM_GCN_FILES}/{{commit}}/new_data/{{name}}/out1_graph_edges.txt",
}
ADDRESSES: Mapping[str, Mapping[str, str]] = {  # of the files of each reader
    "geom-gcn": GEOM_GCN_TEXTS | GEOM_GCN_SPLITS,
    "geom-gcn-words": GEOM_GCN_TEXTS | GEOM_GCN_SPLITS,
    "planetoid": {
        part: f"{GITHUB}/kimiyoung/planetoid/master/data/ind.{{name}}.{part}"
        for part in ("tx", "allx", "y", "ty", "ally", "graph", "test.index")
    }
    | GEOM_GCN_SPLITS,
    "heterophilous": {"data": f"{GITHUB}/yandex-research/heterophilous-graphs/main/data/{{name}}.npz"},
    "shchur": {"data": f"{GITHUB}/shchur/gnn-benchmark/master/data/npz/{{name}}.npz"},
    "facebook": {"data": f"{LINKX_FILES}/facebook100/{{name}}.mat"},
    "city": {"data": f"{GITHUB}/LeonResearch/City-Networks/main/data/{{name}}.tar.gz"},
    "twitch": {"data": "https://graphmining.ai/datasets/ptg/twitch/{name}.npz"},
}


def _download(reader: str, name: str, commit: str = GEOM_GCN_COMMIT, **more_files: str) -> Download:
    """The files of the dataset that its publisher calls `name`."""
    files = {key: address.format(name=name, commit=commit) for key, address in ADDRESSES[reader].items()}
    return Download(reader, files | more_files)


LUAN_AND_RANDOM = ("luan-60-20-20", "random-60-20-20")
GEOM_GCN: dict[str, Any] = {
    "preprocessing": "row-normalize",
    "protocols": ("geom-gcn", *LUAN_AND_RANDOM),
    "licence": "none stated",
    "citation": "Pei et al., Geom-GCN, ICLR 2020",
}
PLANETOID = {
    "preprocessing": "row-normalize",
    "protocols": ("geom-gcn", "public", *LUAN_AND_RANDOM),
    "licence": "MIT",
    "citation": "Yang et al., Revisiting semi-supervised learning with graph embeddings, ICML 2016",
}
HETEROPHILOUS = {
    "preprocessing": "raw",
    "protocols": ("platonov",),
    "licence": "MIT",
    "citation": "Platonov et al., A critical look at the evaluation of GNNs under heterophily, ICLR 2023",
}
CITY = {
    "preprocessing": "raw",
    "protocols": ("city-10-10-80",),
    "licence": "ODbL (OpenStreetMap contributors)",
    "citation": "Liang et al., Towards quantifying long-range interactions in graph machine learning, 2025",
}
SHCHUR = {
    "preprocessing": "row-normalize",
    "protocols": ("stored", "random-60-20-20"),
    "licence": "MIT",
    "citation": "Shchur et al., Pitfalls of graph neural network evaluation, 2018",
}
TWITCH = {
    "preprocessing": "raw",
    "protocols": ("stratified(0.5, 0.25, 0.25)",),
    "licence": "GPL-3.0",
    "citation": "Rozemberczki et al., Multi-scale attributed node embedding, J. Complex Networks 2021",
    "metric": "roc_auc",
}
FACEBOOK = {
    "preprocessing": "raw",
    "protocols": ("stored",),
    "licence": "none stated",
    "citation": "Lim et al., Large scale learning on non-homophilous graphs, NeurIPS 2021",
}

GEOM_GCN_ONLY = ArchiveOnly(
    "the files most papers used lie in the repositories of Geom-GCN (early commits) and Neural Sheaf "
    "Diffusion; the corrected graph is 'cornell_fixed' here"
)
SUBSTITUTE = ArchiveOnly("its features are a substitute for use without a network; load 'roman_empire'")
SUB_REGION = ArchiveOnly("it is only in the history of the repository of City-Networks")
NEATNET = ArchiveOnly("it was made from the street networks that come with the package neatnet")
EMBEDDINGS_ONLY = ArchiveOnly("it is published with 128 embeddings in place of the 3,170 features")

# fmt: off
TABLE: tuple[tuple[dict[str, Any], str, str, int, int, int | None, int, DatasetSource], ...] = (
    # family         name                     title                          nodes    edges     F   C  source
    (GEOM_GCN,      "texas",                 "Texas",                         183,     279, 1703,  5, _download("geom-gcn", "texas")),
    (GEOM_GCN,      "wisconsin",             "Wisconsin",                     251,     450, 1703,  5, _download("geom-gcn", "wisconsin")),
    (GEOM_GCN,      "cornell",               "Cornell (x and y of Texas)",    183,     277, 1703,  5, GEOM_GCN_ONLY),
    (GEOM_GCN,      "cornell_fixed",         "Cornell (corrected)",           183,     277, 1703,  5, _download("geom-gcn", "cornell", "master")),
    (GEOM_GCN,      "film",                  "Film (Actor)",                 7600,   26659,  932,  5, _download("geom-gcn-words", "film")),
    (GEOM_GCN,      "squirrel",              "Squirrel",                     5201,  198353, 2089,  5, _download("heterophilous", "squirrel")),
    (GEOM_GCN,      "chameleon",             "Chameleon",                    2277,   31371, 2325,  5, _download("heterophilous", "chameleon")),
    (PLANETOID,     "cora",                  "Cora",                         2708,    5278, 1433,  7, _download("planetoid", "cora")),
    (PLANETOID,     "citeseer",              "CiteSeer",                     3327,    4552, 3703,  6, _download("planetoid", "citeseer")),
    (PLANETOID,     "pubmed",                "PubMed",                      19717,   44324,  500,  3, _download("planetoid", "pubmed")),
    (HETEROPHILOUS, "chameleon_filtered",    "Chameleon (filtered)",          890,    8854, 2325,  5, _download("heterophilous", "chameleon_filtered")),
    (HETEROPHILOUS, "squirrel_filtered",     "Squirrel (filtered)",          2223,   46998, 2089,  5, _download("heterophilous", "squirrel_filtered")),
    (HETEROPHILOUS, "roman_empire",          "Roman-empire",                22662,   32927,  300, 18, _download("heterophilous", "roman_empire")),
    (HETEROPHILOUS, "roman_empire_glovesub", "Roman-empire (substitute x)", 22662,   32927,  300, 18, SUBSTITUTE),
    (HETEROPHILOUS, "amazon_ratings",        "Amazon-ratings",              24492,   93050,  300,  5, _download("heterophilous", "amazon_ratings")),
    (HETEROPHILOUS, "minesweeper",           "Minesweeper",                 10000,   39402,    7,  2, _download("heterophilous", "minesweeper")),
    (HETEROPHILOUS, "tolokers",              "Tolokers",                    11758,  519000,   10,  2, _download("heterophilous", "tolokers")),
    (HETEROPHILOUS, "questions",             "Questions",                   48921,  153540,  301,  2, _download("heterophilous", "questions")),
    (CITY,          "paris",                 "Paris",                      114127,  182511,   37, 10, _download("city", "paris")),
    (CITY,          "shanghai",              "Shanghai",                   183917,  262092,   37, 10, _download("city", "shanghai")),
    (CITY,          "los_angeles",           "Los Angeles",                240587,  341523,   37, 10, _download("city", "la")),
    (CITY,          "london",                "London",                     568795,  756502,   37, 10, _download("city", "london")),
    (CITY,          "huangpu",               "Huangpu",                      5268,    7435,   37, 10, SUB_REGION),
    (CITY,          "pasadena",              "Pasadena",                    12409,   16325,   37, 10, SUB_REGION),
    (CITY,          "citylike_aleppo",       "Streets of Aleppo",           64183,   78646,   13, 10, NEATNET),
    (CITY,          "citylike_bucaramanga",  "Streets of Bucaramanga",      72016,   76672,   13, 10, NEATNET),
    (CITY,          "citylike_douala",       "Streets of Douala",           75799,   84231,   13, 10, NEATNET),
    (CITY,          "citylike_liege",        "Streets of Liège",            75550,   79893,   13, 10, NEATNET),
    (CITY,          "citylike_wuhan",        "Streets of Wuhan",            82902,   92643,   13, 10, NEATNET),
    (SHCHUR,        "amazon_computers",      "Amazon Computers",            13752,  245861,  767, 10, _download("shchur", "amazon_electronics_computers")),
    (SHCHUR,        "amazon_photo",          "Amazon Photo",                 7650,  119081,  745,  8, _download("shchur", "amazon_electronics_photo")),
    (SHCHUR,        "coauthor_cs",           "Coauthor CS",                 18333,   81894, 6805, 15, _download("shchur", "ms_academic_cs")),
    (SHCHUR,        "coauthor_physics",      "Coauthor Physics",            34493,  247962, 8415,  5, _download("shchur", "ms_academic_phy")),
    (TWITCH,        "twitch_de",             "Twitch DE",                    9498,  153138, 3170,  2, EMBEDDINGS_ONLY),
    (TWITCH,        "twitch_en",             "Twitch EN",                    7126,   35324,  128,  2, _download("twitch", "EN")),
    (TWITCH,        "twitch_es",             "Twitch ES",                    4648,   59382,  128,  2, _download("twitch", "ES")),
    (TWITCH,        "twitch_fr",             "Twitch FR",                    6551,  112666,  128,  2, _download("twitch", "FR")),
    (TWITCH,        "twitch_pt",             "Twitch PT",                    1912,   31299,  128,  2, _download("twitch", "PT")),
    (TWITCH,        "twitch_ru",             "Twitch RU",                    4385,   37304,  128,  2, _download("twitch", "RU")),
    (FACEBOOK,      "fb100_cornell5",        "Facebook100 Cornell5",        18660,  790777, 4735,  2, _download("facebook", "Cornell5")),
    (FACEBOOK,      "penn94",                "Facebook100 Penn94",          41554, 1362229, None,  2, _download("facebook", "Penn94", splits=f"{LINKX_FILES}/splits/fb100-Penn94-splits.npy")),
)
# fmt: on

CLASS_SIZES = {
    "texas": (33, 1, 18, 101, 30),
    "wisconsin": (10, 70, 118, 32, 21),
    "cornell": (33, 1, 18, 101, 30),
    "cornell_fixed": (38, 16, 30, 82, 17),
    "film": (853, 1337, 1630, 1815, 1965),
    "cora": (351, 217, 418, 818, 426, 298, 180),
    "citeseer": (249, 590, 668, 701, 596, 508),
    "pubmed": (4103, 7739, 7875),
}

FINGERPRINTS = {  # of copies that were compared with other publishers' entry for entry
    "texas": "df1dc1a93822d595ad60c1e7260b2d7e796091ca6b66525edcb2d27ca7445873",
    "wisconsin": "555fdfb2d5bc7cfd488a97b0ddb6817f52a0de57bca63d8e45f6385af6348b93",
    "cornell_fixed": "84343492ece58a2012e24885c133e3ae5260bd60e427b5115829176f02a6a38e",
    "film": "5d1dfe809dc94415a3cc36710dd0d73be7833c6f8c38de6de68f06637317cb11",
    "squirrel": "8ea96c01df7c13f0b4ce968f1dc53601669a64b33a92d78bf56667e92e95bc33",
    "chameleon": "930b5145b0d818632955779f55fe77d4127b17a795b4c978d26adf1273a87a2c",
    "cora": "ed274c4a457a319466e4a7f007b313765102d29f2d1814323f01574eaa2bc47b",
    "citeseer": "98d2c9164a0ce50b7190ab5f08c19bab4ff0c307ffedc60c88c6f2c8e00474ba",
    "pubmed": "e68787aae770582dd4c41f22e29bb7d70efa94f970048ba3c18ceb174cbf3b99",
    "chameleon_filtered": "5df212236c85b67ea046849079cc0d7e1c72bac8cc6f1a50d5f79a4c088023e8",
    "squirrel_filtered": "fcc7e741a81ee5105b2e4db4c8601464d65935abe50520611084fcb249538f33",
    "minesweeper": "779d070172168af5d343554215efe9a8a5793217204bf42b78a968a977dcf74e",
    "tolokers": "13ade44e301bce94e6694db80fe822daa3537090cf6d60023a01c98f337407eb",
}

EXCEPTIONS: dict[str, dict[str, Any]] = {  # where a dataset differs from its family
    "cornell_fixed": {"licence": "MIT"},
    "chameleon_filtered": {"protocols": ("geom-gcn",)},
    "squirrel_filtered": {"protocols": ("geom-gcn",)},
    "roman_empire": {"may_lack_features": True},
    "minesweeper": {"metric": "roc_auc"},
    "tolokers": {"metric": "roc_auc"},
    "questions": {"metric": "roc_auc"},
    "amazon_photo": {"protocols": ("random-60-20-20",)},
    "twitch_de": {"protocols": ("stored",)},
    "fb100_cornell5": {"protocols": ("stratified(0.5, 0.25, 0.25)",)},
}

NOT_COMPARABLE = "Its numbers must not be set beside published ones."
DUPLICATES = (
    "Many nodes are copies of each other (same neighbours, same label), so test nodes have twins among "
    "the training nodes; prefer {}_filtered."
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
ONE_SPLIT = "The archive has one 60/20/20 split; a download has none."
KEYWORD_COUNTS = ONE_SPLIT + " The archive holds keyword counts, a download, like most papers, 0 or 1."
EMBEDDINGS = "The features are 128-dimensional embeddings, as in PyG, not the 3,170 binary ones of twitch_de."

WARNINGS = {
    "cornell": "It has the features and labels of Texas on the edges of Cornell, and most published Cornell "
    "numbers are of this version; use cornell_fixed for the real graph.",
    "cornell_fixed": "Published Cornell numbers are mostly those of the legacy version, 'cornell'.",
    "squirrel": DUPLICATES.format("squirrel"),
    "chameleon": DUPLICATES.format("chameleon"),
    "cora": "The geom-gcn masks cover 2,485 of the 2,708 nodes, those of the largest component.",
    "citeseer": "15 nodes have neither label nor features and belong to no split; 48 nodes have no edge; the "
    "geom-gcn splits 4 and 5 cover 2,120 nodes only.",
    "chameleon_filtered": INHERITED_MASKS,
    "squirrel_filtered": INHERITED_MASKS,
    "roman_empire": "Archives may lack the features (fastText vectors), and a model needs some; the "
    "download, which has them, needs POLYNSD_DATA to name another folder or none.",
    "roman_empire_glovesub": "The features are GloVe vectors and character n-grams in place of the "
    "benchmark's fastText vectors. " + NOT_COMPARABLE,
    **dict.fromkeys(("huangpu", "pasadena"), RECOMPUTED_LABELS),
    **{row[1]: OTHER_STREETS for row in TABLE if row[-1] is NEATNET},
    "amazon_computers": ONE_SPLIT,
    "coauthor_cs": KEYWORD_COUNTS,
    "coauthor_physics": KEYWORD_COUNTS,
    **{f"twitch_{language}": EMBEDDINGS for language in ("en", "es", "fr", "pt", "ru")},
    "fb100_cornell5": "1,838 nodes have no label, and there are no published splits. It is not related to "
    "cornell.",
}

ENTRIES: Mapping[str, DatasetEntry] = MappingProxyType(
    {
        name: DatasetEntry(
            name,
            title,
            nodes,
            edges,
            features,
            classes,
            source,
            **{
                **family,
                **EXCEPTIONS.get(name, {}),
                "class_sizes": CLASS_SIZES.get(name),
                "warning": WARNINGS.get(name, ""),
                "sha256": FINGERPRINTS.get(name),
            },
        )
        for family, name, title, nodes, edges, features, classes, source in TABLE
    }
)
