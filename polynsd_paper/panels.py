"""The synthetic panels of the paper: grids of arguments for `heterophilous_graph`, by name.

Each panel varies one thing (heterophily, feature noise, amount of data) in two regimes, `diff` with
few features and `risnn` with 15. Classes and nodes grow together, as in the published results; the
published sweep files cross them. Features are always ellipsoids: the other branch of the published
generator, which its table of settings names, ignores the noise that two of the panels vary. For a
grid of your own call `heterophilous_graph` directly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from polynsd.data.generators.heterophily import heterophilous_graph
from polynsd.errors import require_at_least, require_choice

if TYPE_CHECKING:
    from torch_geometric.data import Data

SEEDS = range(5)  # the paper averages over five graphs per cell

Settings = dict[str, Any]
Axis = tuple[Settings, ...]


@dataclass(frozen=True)
class Panel:
    """A grid of settings.

    Args:
        fixed: Arguments of `heterophilous_graph` that all cells share.
        axes: The cells are all combinations of one entry from each axis.
        note: Where the settings depart from the published ones, and why.
    """

    fixed: Settings
    axes: tuple[Axis, ...]
    note: str = ""

    def __len__(self) -> int:
        return sum(1 for _ in product(*self.axes))

    def cells(self, seed: int = 0) -> Iterator[Settings]:
        """Complete arguments for `heterophilous_graph`, cell by cell."""
        for entries in product(*self.axes):
            settings: Settings = {**self.fixed, "edge_noise": 0.0, "seed": seed}
            for entry in entries:
                settings |= entry
            yield settings


def panel_graphs(name: str, seed: int = 0) -> Iterator[tuple[Settings, "Data"]]:
    """The settings and the graph of every cell of a panel, built one at a time.

    Args:
        name: One of `PANELS`.
        seed: Number of the realisation; the paper's five are `SEEDS`.
    """
    require_choice("panel", name, PANELS)
    require_at_least("seed", seed, 0)
    return ((settings, heterophilous_graph(**settings)) for settings in PANELS[name].cells(seed))


def _axis(argument: str, *values: float) -> Axis:
    return tuple({argument: value} for value in values)


def _heterophily(num_features: int) -> Panel:
    sizes: Axis = tuple({"num_classes": count, "num_nodes": 200 * count} for count in (2, 3, 4, 5))
    levels = _axis("heterophily", 0.0, 0.25, 0.5, 0.75, 1.0)
    return Panel({"num_features": num_features, "degree": 4, "feature_noise": 0.0}, (sizes, levels))


def _noise(sizes: Settings, levels: tuple[float, ...], note: str = "") -> Panel:
    return Panel({"num_classes": 2, "heterophily": 1.0, **sizes}, (_axis("feature_noise", *levels),), note)


def _amount(num_features: int) -> Panel:
    fixed = {"num_classes": 3, "num_features": num_features, "heterophily": 0.9, "feature_noise": 0.0}
    return Panel(fixed, (_axis("num_nodes", 100, 500, 1000), _axis("degree", 2, 6, 10)))


PANELS: Mapping[str, Panel] = MappingProxyType(
    {
        "heterophily-diff": _heterophily(num_features=4),
        "heterophily-risnn": _heterophily(num_features=15),
        "noise-diff": _noise(
            {"num_nodes": 400, "num_features": 3, "degree": 2},
            levels=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        ),
        "noise-risnn": _noise(
            {"num_nodes": 500, "num_features": 15, "degree": 4},
            levels=(0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3),
            note="degree 4: the paper names 5, from which the published generator makes 2·⌊5/2⌋",
        ),
        "amount-diff": _amount(num_features=3),
        "amount-risnn": _amount(num_features=15),
    }
)
