"""The rows `polynsd-reference` and `nsd-reference`: the published architecture in the published space.

They alone are called "as published". The architecture is `PolyNSD.reference`: one filter for all layers, each
family's own order of operations, edge weights with orthogonal maps only, a second linear layer where the
published searches had one. The space is that of the published searches (`paper_options`): all K, widths,
depths, stalks, dropout up to 0.9, both fixed channels alone and together. Three things that the paper varied
between its tables are in it too: the family of maps, the basis in its textbook scaling, and whether the loss
or the metric on validation chooses the epoch. All are chosen by validation.

On graphs that the paper did not search the space is that of the graph in `SPACE_OF`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from polynsd.config import ModelConfig
from polynsd.published import published_layer, published_model
from polynsd.search.space import Space
from polynsd.search.spaces import PUBLISHED, paper_options
from polynsd.training.configuration import Configuration, dotted

REFERENCES = {"polynsd-reference": "polynsd", "nsd-reference": "nsd"}  # rows, and their models
FAMILIES = ("diagonal", "orthogonal", "general")
BASES = (
    "chebyshev1", "chebyshev2.raw()", "chebyshev3.raw()", "chebyshev4.raw()", "legendre",
    "gegenbauer(1.5).raw()", "jacobi(0.5, -0.5).raw()",
)  # fmt: skip
SPACE_OF = {
    "chameleon_filtered": "chameleon", "squirrel_filtered": "squirrel", "minesweeper": "roman_empire",
    "tolokers": "roman_empire", "questions": "roman_empire", "roman_empire_glovesub": "roman_empire",
}  # fmt: skip
OF_FAMILY = ("edge_weights", "mixing", "dropout_position", "correction_state")  # of `published_layer`


@dataclass(frozen=True)
class ReferenceSpace(Space):
    """A space in which the order of operations is the published one of the family that is drawn."""

    def configuration(self, params: Mapping[str, Any]) -> Configuration:
        """The configuration that sampled parameters stand for."""
        model, training = super().configuration(params)
        filter_name = "diffusion" if model.model == "nsd" else "polynomial"
        published = published_layer(model.layer.maps, filter_name)
        own = {name: published[name] for name in OF_FAMILY}
        return Configuration(replace(model, layer=replace(model.layer, **own)), training)


def reference_space(row: str, dataset: str) -> Space:
    """The published space of a dataset for one of `REFERENCES`."""
    model = REFERENCES[row]
    options = paper_options(SPACE_OF.get(dataset, dataset), model)
    for name in OF_FAMILY:
        del options[f"model.layer.{name}"]
    options |= {"model.layer.maps": list(FAMILIES), "training.select": ["metric", "loss"]}
    if model == "polynsd":
        options["model.layer.basis"] = list(BASES)
    return ReferenceSpace(Space.from_dict(options).rules)


def reference_starts(dataset: str) -> tuple[dict[str, Any], ...]:
    """What searches begin with: the settings of the published sweeps and scripts that the space holds."""
    published = PUBLISHED[SPACE_OF.get(dataset, dataset)]
    depths, narrow = published.depths, max(16, min(published.widths))
    low, high = ("laplacian",), ("signless",)
    both = [*high, *low]
    shallow = 2 if 2 in depths else min(depths)
    return (
        _start("general", 4, 2, shallow, 32, both, 0.2, 0.2, "loss"),  # the sweep over K
        _start("diagonal", 4, 4, 5, 32, [*high], 0.7, 0.0, "metric"),  # scripts of the Wikipedia graphs
        _start("orthogonal", 3, 8, shallow, 32, both, 0.0, 0.7, "loss"),  # of wisconsin
        _start("diagonal", 4, 8, shallow, narrow, [*low], 0.7, 0.7, "loss"),  # of NSD against PolyNSD
    )


def _start(
    maps: str, stalk: int, degree: int, layers: int, width: int, channels: list[str], first: float,
    dropout: float, select: str,
) -> dict[str, Any]:  # fmt: skip
    layer = {
        "maps": maps, "stalk_dim": stalk, "degree": degree, "fixed_channels": channels, "basis": "chebyshev1",
        "dropout": dropout,
    }  # fmt: skip
    model = {"num_layers": layers, "hidden_channels": width, "input_dropout": first}
    return {**dotted("model.layer", layer), **dotted("model", model), "training.select": select}


def reference_model(model: str, maps: str, layer: Mapping[str, Any], **options: Any) -> ModelConfig:
    """The configuration of `PolyNSD.reference` or `NSD.reference`.

    Args:
        model: polynsd or nsd.
        maps: the family.
        layer: options of layers beside those of the family.
        **options: sizes, dropout of the input, a second linear layer.
    """
    is_nsd = model == "nsd"
    own = published_layer(maps, "diffusion" if is_nsd else "polynomial")
    return published_model(model, shared_filter=not is_nsd, layer={**own, **layer}, **options)
