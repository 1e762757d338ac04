"""How many broken files a test tries; `POLYNSD_FUZZ_CASES=100` makes them a hundred times as many."""

import os

FACTOR = int(os.environ.get("POLYNSD_FUZZ_CASES", "1"))


def fuzz_cases(usual):
    """The number of cases of a test that usually tries so many."""
    return usual * FACTOR
