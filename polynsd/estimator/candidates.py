"""What an estimator tries, cheapest first.

Within a family the first candidates are tried on every graph, the others where validation favours the family.
Nothing here looks at labels or at the name of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from polynsd.config import LayerConfig, ModelConfig, TrainConfig
from polynsd.devices import with_double
from polynsd.errors import ConfigError
from polynsd.estimator.features import MANY_WORDS
from polynsd.estimator.folds import LARGE
from polynsd.estimator.label_trees import LabelTreesCandidate, label_trees
from polynsd.estimator.linear import LinearCandidate, linear_candidates
from polynsd.estimator.links import LinkCandidate
from polynsd.estimator.members import FAMILIES, Candidate
from polynsd.estimator.networks import Network
from polynsd.estimator.propagation import FitOnce, propagation_candidates
from polynsd.estimator.trees import HOPS, TreesCandidate, forests, is_wide, trees_candidates
from polynsd.sheaf.families import get_family
from polynsd.training import Configuration
from polynsd.zoo import build_model, layer_defaults

if TYPE_CHECKING:
    from polynsd.estimator.inputs import Inputs

Options = dict[str, Any]

AUTO = "auto"
PATIENCE = 40
ZOO_EPOCHS, ZOO_PATIENCE = 300, 60
ZOO_SETTINGS = ((0.5, 5e-4), (0.2, 5e-4), (0.5, 5e-5))  # dropout and weight decay
BELOW_LABELS = ("smoothed", "trees")  # what labels are spread over: the first if features are many
EXAMPLES: Options = {
    "maps": "orthogonal",
    "stalk_dim": 4,
    "degree": 4,
    "hidden_channels": 32,
    "num_layers": 2,
    "dropout": 0.5,
    "learning_rate": 0.005,
    "weight_decay": 5e-4,
    "epochs": 300,
}
"""The parameters that fix a PolyNSD configuration, with a value that each may have."""

PLAIN: Options = {
    "maps": "identity",
    "stalk_dim": 1,
    "learner": "concat",
    "learner_inputs": ("state",),
    "trunk": "maps",
    "degree": 1,
}
"""A layer without learned maps and without a trunk."""


def make_candidates(inputs: Inputs, treatments: Sequence[str], given: Mapping[str, Any]) -> list[Candidate]:
    """Everything there is to try on a graph: cheap families first, of networks on numbers the deep ones.

    Args:
        inputs: the graph.
        treatments: of features, the usual one first.
        given: the parameters in `EXAMPLES`, each a value or `"auto"`. If one is given, PolyNSD models that
            agree with it are all there is.
    """
    fixed = {name: given[name] for name in EXAMPLES if not _is_auto(given[name])}
    for name, value in fixed.items():
        if value is None or isinstance(value, str) != (name == "maps"):
            raise ConfigError(
                f"{name} must be '{AUTO}' or a value such as {EXAMPLES[name]!r}; got {value!r}."
            )
    edge_dim = 0 if inputs.graph.edge_attr is None else inputs.graph.edge_attr.shape[1]
    if fixed:
        return list(_fixed_networks(fixed, treatments[0], edge_dim))
    linear = [
        c for c in linear_candidates(inputs, str(with_double(inputs.device))) if c.treatment in treatments
    ]
    networks: list[Candidate] = [n for treatment in treatments for n in _networks(treatment, inputs)]
    alone: list[Candidate] = [*linear, *trees_candidates(inputs)]
    order = BELOW_LABELS if is_wide(inputs, HOPS) else BELOW_LABELS[::-1]
    base = next((each for family in order for each in alone if each.family == family), None)
    cheap: list[Candidate] = [FitOnce(each) if each is base else each for each in alone]
    bases = [each for each in cheap if isinstance(each, FitOnce)]
    cheap += [*propagation_candidates(inputs, bases), *label_trees(inputs), *_links(inputs, treatments[0])]
    cheap = sort_families(cheap)
    if is_wide(inputs, 0) or inputs.num_nodes >= LARGE:  # dear: once it is known how far features are behind
        cheap.sort(key=lambda candidate: isinstance(candidate, TreesCandidate | LabelTreesCandidate))
    networks = sort_families(networks)
    if not _has_words(inputs):  # few numbers may need depth, and deep networks most of the allowance: first
        networks.sort(key=lambda network: network.family != "deep")
    return [*cheap, *networks]


def _links(inputs: Inputs, treatment: str) -> list[Candidate]:
    """A linear model, trees and a perceptron of a node's links, where there are any."""
    if not inputs.graph.num_edges:
        return []
    linear = LinearCandidate("linear, links", "links", treatment, device=str(with_double(inputs.device)))
    perceptron = _network(
        "perceptron, links",
        "links",
        treatment=treatment,
        channels=64,
        layers=1,
        dropout=0.5,
        rate=0.01,
        input_dropout=0.5,
        norm="none",
        degree=0,
    )
    bases: tuple[Candidate, ...] = (linear, *forests("boosted trees, links", "links", inputs), perceptron)
    return [LinkCandidate(base) for base in bases]


def sort_families(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Cheap families first."""
    return sorted(candidates, key=lambda candidate: list(FAMILIES).index(candidate.family))


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def _network(
    name: str,
    family: str,
    *,
    treatment: str,
    channels: int,
    layers: int,
    dropout: float,
    rate: float,
    decay: float = 5e-4,
    input_dropout: float = 0.0,
    linear_encoder: bool = False,
    epochs: int = 300,
    patience: int = PATIENCE,
    **layer: Any,
) -> Network:
    model = ModelConfig(
        hidden_channels=channels,
        num_layers=layers,
        input_dropout=input_dropout,
        linear_encoder=linear_encoder,
        layer=LayerConfig(**{**PLAIN, "dropout": dropout, **layer}),
    )
    training = TrainConfig(epochs=epochs, patience=patience, learning_rate=rate, weight_decay=decay)
    full_name = f"{name}, dropout {input_dropout:g} and {dropout:g}, {treatment}"
    return Network(full_name, family, Configuration(model, training), treatment)


SHEAF: Options = {
    "maps": "orthogonal",
    "stalk_dim": 2,
    "learner": "gnn",
    "learner_inputs": ("state", "features", "degree"),
    "trunk": "both",
    "norm": "layer",
}
TRUNK: Options = {**SHEAF, "maps": "identity", "stalk_dim": 1}
MEAN: Options = {"normalization": "random-walk"}
SYMMETRIC: Options = {"normalization": "sheaf-augmented"}


class _Regularised(NamedTuple):
    """How networks on words or on numbers are kept from overfitting."""

    drops: tuple[float, float]  # of the input
    dropouts: tuple[float, float]
    training: Options


WORDS = _Regularised((0.5, 0.8), (0.5, 0.2), {})
NUMBERS = _Regularised((0.0, 0.2), (0.2, 0.5), {"epochs": 500, "decay": 1e-5})


def _has_words(inputs: Inputs) -> bool:
    """Whether most features are those of a bag of words."""
    words, numbers = len(inputs.treatments.sparse), len(inputs.treatments.dense)
    return words >= MANY_WORDS and words > numbers


def _networks(treatment: str, inputs: Inputs) -> Iterable[Network]:
    """Networks on features of one treatment; words, of which there are many, need dropout, numbers do not."""
    kind = WORDS if _has_words(inputs) else NUMBERS
    named = partial(_network, treatment=treatment)
    plain: Options = {"norm": "none", "channels": 64, "rate": 0.01, **kind.training}
    alone: Options = {**plain, "dropout": kind.dropouts[0], "layers": 1, "degree": 0}
    if kind is WORDS:  # with a norm it learns from few labels, at a high rate and decay
        normed = {**alone, "norm": "batch", "rate": 0.03, "decay": 5e-3, "input_dropout": kind.drops[0]}
        yield named("perceptron, batch norm", "features", **normed)
    for drop in kind.drops:
        yield named("perceptron", "features", **alone, input_dropout=drop)
    if not inputs.graph.num_edges:
        return
    yield from _convolutions(named, plain, kind, inputs.num_nodes >= LARGE)
    for drop in kind.drops:
        for name, mean in (("mean", MEAN), ("symmetric", SYMMETRIC)):
            options = {**plain, **mean, "dropout": kind.dropouts[0], "input_dropout": drop}
            yield named(f"filter, {name}", "filter", **options, layers=1, degree=8)
    sheaf = {"rate": 0.005, "degree": 4, "input_dropout": kind.drops[0] / 2, "decay": 1e-4, **kind.training}
    for dropout in kind.dropouts:
        yield named("sheaf", "sheaf", **sheaf, **SHEAF, layers=1, channels=32, dropout=dropout)
        yield named("wide reach", "sheaf", **sheaf, **TRUNK, layers=1, channels=64, dropout=dropout)
    yield from _deep_networks(named, plain, kind)


def _deep_networks(named: Callable[..., Network], plain: Options, kind: _Regularised) -> Iterable[Network]:
    """Numbers may have to come from far: first through a sheaf, all with norms; words along linear paths."""
    if kind is WORDS:
        linear: Options = {**plain, **SYMMETRIC, "dropout": 0.2, "rate": 0.005, "linear_encoder": True}
        for channels in (64, 128):
            yield named(f"deep, {channels} wide", "deep", **{**linear, "channels": channels}, layers=8)
        return
    deep: Options = {**plain, "norm": "batch", "dropout": 0.2}
    sheaf = {**deep, **SHEAF, "norm": "batch", "channels": 32, "rate": 0.005}
    yield named("deep sheaf", "deep", **sheaf, layers=4)
    yield named("deep", "deep", **deep, **MEAN, gate="rezero", layers=8)
    yield named("deep, norm", "deep", **deep, **MEAN, layers=4)
    wide = {**deep, "channels": 128, "dropout": 0.5, "rate": 0.005}
    yield named("deep, wide", "deep", **wide, **SYMMETRIC, layers=4)


def _convolutions(
    named: Callable[..., Network], plain: Options, kind: _Regularised, is_large: bool
) -> Iterable[Network]:
    """Two layers with and without norm; on large graphs norms come first, which need far fewer epochs."""
    without = []
    for dropout in kind.dropouts:
        for name, mean in (("mean", MEAN), ("symmetric", SYMMETRIC)):
            options = {**plain, **mean, "dropout": dropout, "input_dropout": kind.drops[0]}
            without.append(named(f"convolution, {name}", "convolution", **options, layers=2))
    normed = {**plain, "rate": 0.005, "channels": 128, "input_dropout": kind.drops[0] / 2, "dropout": 0.5}
    with_norm = [
        named(f"convolution, {norm} norm", "convolution", **{**normed, **mean, "norm": norm}, layers=2)
        for norm, mean in (("batch", MEAN), ("layer", SYMMETRIC))
    ]
    return [*with_norm, *without] if is_large else [*without, *with_norm]


def _fixed_networks(fixed: Mapping[str, Any], treatment: str, edge_dim: int) -> Iterable[Network]:
    """One model with what was given; regularised in two ways where that is open."""
    free = {"dropout": (0.5, 0.2), "weight_decay": (5e-4, 5e-5)}
    for number in range(2):
        options = {**EXAMPLES, **{name: values[number] for name, values in free.items()}, **fixed}
        maps, degree = options["maps"], options["degree"]
        layer = {**SHEAF, "maps": maps, "stalk_dim": options["stalk_dim"], "degree": degree}
        if edge_dim and get_family(maps).is_learned and degree:
            layer |= {"maps_on": "edges", "edge_dim": edge_dim}
        if not degree:  # a model that does not look at neighbours
            layer |= {name: PLAIN[name] for name in ("learner", "learner_inputs", "trunk")}
        yield _network(
            f"{maps}, d={options['stalk_dim']}, K={degree}",
            "sheaf",
            treatment=treatment,
            channels=options["hidden_channels"],
            layers=options["num_layers"],
            dropout=options["dropout"],
            rate=options["learning_rate"],
            decay=options["weight_decay"],
            epochs=options["epochs"],
            patience=max(PATIENCE, 60),
            **layer,
        )
        if all(name in fixed for name in free):
            return


def zoo_candidates(model: str) -> list[Network]:
    """What a user might take instead: a model of the zoo, or a published sheaf model, under a few settings.

    Raises:
        ConfigError: there is no such model; the message lists all.
    """
    candidates = []
    for dropout, decay in ZOO_SETTINGS:
        layer = LayerConfig(**{**layer_defaults(model), "dropout": dropout})
        config = ModelConfig(model=model, hidden_channels=64, num_layers=2, layer=layer)
        training = TrainConfig(
            epochs=ZOO_EPOCHS, patience=ZOO_PATIENCE, learning_rate=0.01, weight_decay=decay
        )
        name = f"{model}, dropout {dropout:g}, weight decay {decay:g}"
        candidates.append(Network(name, "zoo", Configuration(config, training)))
    build_model(candidates[0].configuration.model, 1, 2)  # an unknown name is told before any work
    return candidates
