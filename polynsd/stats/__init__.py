"""Is a difference more than noise? Tests for scores over splits and seeds, and over datasets."""

from polynsd.stats.families import MARGIN, Family, Outcome, holm, judge_family
from polynsd.stats.paired import (
    Comparison,
    Difference,
    Errors,
    Shares,
    compare,
    compare_independent,
    corrected_interval,
    standard_errors,
)
from polynsd.stats.ranking import Friedman, Ranking, critical_difference, friedman, rank_models
from polynsd.stats.scores import paired_interval, student_interval, wilson_interval
from polynsd.stats.signed_rank import SignedRank, signed_rank
from polynsd.stats.significance import Significance, bold_rule, significance

__all__ = [
    "MARGIN",
    "Comparison",
    "Difference",
    "Errors",
    "Family",
    "Friedman",
    "Outcome",
    "Ranking",
    "Shares",
    "SignedRank",
    "Significance",
    "bold_rule",
    "compare",
    "compare_independent",
    "corrected_interval",
    "critical_difference",
    "friedman",
    "holm",
    "judge_family",
    "paired_interval",
    "rank_models",
    "signed_rank",
    "significance",
    "standard_errors",
    "student_interval",
    "wilson_interval",
]
