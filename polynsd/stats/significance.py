"""One column of a results table: which model is best, and which are not worse beyond noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from polynsd.errors import ConfigError, require_at_least
from polynsd.stats.families import holm
from polynsd.stats.paired import compare
from polynsd.stats.scores import require_inside, round_scores, split_means


@dataclass(frozen=True)
class Significance:
    """What a table may say about one model.

    Attributes:
        mean: over splits and seeds.
        is_best: whether the mean is the greatest of the column; of equal ones, the first listed.
        p: of the difference to the best, Holm-adjusted over the column; 1 for the best itself.
        within_noise: whether the best is not significantly better, p > α.
        bold: whether it is the best and significantly better than every model of all other groups.
    """

    mean: float
    is_best: bool
    p: float
    within_noise: bool
    bold: bool


def bold_rule(alpha: float = 0.05) -> str:
    """The sentence under a table."""
    return (
        "Bold: the best mean of its column, only where it is significantly better than every model of every "
        "other architecture (t-test over splits, corrected for their overlap, seeds averaged, Holm-adjusted "
        f"over the column, α = {alpha:g})."
    )


def significance(
    scores: Mapping[str, ArrayLike],
    shares: tuple[float, float, float],
    *,
    groups: Mapping[str, str] | None = None,
    alpha: float = 0.05,
) -> dict[str, Significance]:
    """Compares every model of a column with the best mean.

    Args:
        scores: by model, [splits, seeds] on the same splits, higher is better.
        shares: shares of the nodes that a split trains, validates and tests on.
        groups: the architecture of each model, of which several may be variants; left out, each is its own.
        alpha: level of the tests.
    """
    require_inside("alpha", alpha)
    require_at_least("the number of models", len(scores), 1)
    group = {name: name for name in scores} if groups is None else groups
    missing = [name for name in scores if name not in group]
    if missing:
        raise ConfigError(f"groups must name the architecture of every model; missing: {', '.join(missing)}.")
    means = {
        name: float(round_scores(split_means(s, f"scores of {name}").mean())) for name, s in scores.items()
    }
    best = max(means, key=means.__getitem__)
    others = [name for name in scores if name != best]
    p = [compare(scores[best], scores[name], shares).p for name in others]
    adjusted = dict(zip(others, holm(p).tolist(), strict=True)) | {best: 1.0}
    rivals = [name for name in others if group[name] != group[best]]
    is_ahead = bool(rivals) and all(adjusted[name] <= alpha for name in rivals)
    return {
        name: Significance(
            mean=means[name],
            is_best=name == best,
            p=adjusted[name],
            within_noise=adjusted[name] > alpha,
            bold=name == best and is_ahead,
        )
        for name in scores
    }
