"""Search: spaces as data, trials in batches, studies that many workers share.

`open_study` opens or resumes a study, `work` trains its trials, `conclude` tests the best of them.
"""

from polynsd.search.final import best_trial, conclude, plain_configuration, write_choice
from polynsd.search.settings import SearchConfig
from polynsd.search.space import Choice, Fixed, Range, Space
from polynsd.search.spaces import get_space
from polynsd.search.storage import open_storage
from polynsd.search.study import begin_with, finished, open_study, spent, work
from polynsd.search.table import trial_rows, write_trials
from polynsd.training.configuration import Configuration, configure
from polynsd.training.problem import Problem

__all__ = [
    "Choice",
    "Configuration",
    "Fixed",
    "Problem",
    "Range",
    "SearchConfig",
    "Space",
    "begin_with",
    "best_trial",
    "conclude",
    "configure",
    "finished",
    "get_space",
    "open_storage",
    "open_study",
    "plain_configuration",
    "spent",
    "trial_rows",
    "work",
    "write_choice",
    "write_trials",
]
