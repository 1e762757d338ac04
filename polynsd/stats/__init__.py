"""Is a difference more than noise? Tests for scores over splits and seeds, and over datasets."""

from polynsd.stats.paired import Comparison, SignedRank, compare, holm, signed_rank, variance_factor
from polynsd.stats.ranking import Friedman, Ranking, critical_difference, friedman, rank_models
from polynsd.stats.scores import Interval, mean_interval
from polynsd.stats.significance import Significance, bold_rule, significance

__all__ = [
    "Comparison",
    "Friedman",
    "Interval",
    "Ranking",
    "SignedRank",
    "Significance",
    "bold_rule",
    "compare",
    "critical_difference",
    "friedman",
    "holm",
    "mean_interval",
    "rank_models",
    "signed_rank",
    "significance",
    "variance_factor",
]
