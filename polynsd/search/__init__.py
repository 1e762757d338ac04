"""Search: many configurations, compared on validation; the best is trained afresh and tested once.

`open_study` opens or resumes a study of Optuna, `work` trains its trials, `run_off` compares the best of them
again, `conclude` tests the winner.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polynsd.search.config import SearchConfig
    from polynsd.search.final import Finalist, conclude, run_off
    from polynsd.search.space import Choice, Fixed, Range, Space
    from polynsd.search.spaces import get_space, get_starts
    from polynsd.search.storage import open_storage
    from polynsd.search.study import (
        Search,
        begin_with,
        best_trials,
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
    "Finalist",
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
    "get_starts",
    "group_by_shape",
    "open_storage",
    "open_study",
    "rank_trials",
    "run_off",
    "seconds_spent",
    "train_together",
    "trial_rows",
    "work",
    "write_trials",
]

if not TYPE_CHECKING:  # a type checker would take it for a promise that every name exists
    from polynsd.lazy import import_on_use as _import_on_use

    __getattr__ = _import_on_use(
        __name__,
        {
            "config": ("SearchConfig",),
            "final": ("Finalist", "conclude", "run_off"),
            "space": ("Choice", "Fixed", "Range", "Space"),
            "spaces": ("get_space", "get_starts"),
            "storage": ("open_storage",),
            "study": (
                "Search",
                "begin_with",
                "best_trials",
                "count_finished",
                "open_study",
                "seconds_spent",
                "trial_rows",
                "write_trials",
            ),
            "trials": ("Trial", "group_by_shape", "rank_trials", "train_together"),
            "worker": ("work",),
        },
    )
