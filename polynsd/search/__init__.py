"""Search: many configurations, compared on validation; the best is trained afresh and tested once.

`open_study` opens or resumes a study of Optuna, `work` trains its trials, `conclude` tests the best of them.
`successive_halving` searches a fixed list of configurations without Optuna, as `SheafClassifier` does.
"""

from polynsd.search.halving import successive_halving
from polynsd.search.space import Choice, Fixed, Range, Space
from polynsd.search.spaces import get_space
from polynsd.search.storage import open_storage
from polynsd.search.study import (
    Search,
    SearchConfig,
    begin_with,
    best_trials,
    conclude,
    count_finished,
    open_study,
    seconds_spent,
    trial_rows,
    write_trials,
)
from polynsd.search.trials import Trial, group_by_shape, rank_trials, train_together
from polynsd.search.worker import work

__all__ = [
    "Choice",
    "Fixed",
    "Range",
    "Search",
    "SearchConfig",
    "Space",
    "Trial",
    "begin_with",
    "best_trials",
    "conclude",
    "count_finished",
    "get_space",
    "group_by_shape",
    "open_storage",
    "open_study",
    "rank_trials",
    "seconds_spent",
    "successive_halving",
    "train_together",
    "trial_rows",
    "work",
    "write_trials",
]
