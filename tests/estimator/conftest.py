"""What makes fits quicker."""

import pytest


@pytest.fixture
def few_trees(monkeypatch):
    """Boosting ends after a few steps, for tests that are about other things."""
    from polynsd.estimator import trees

    for name in ("STEPS", "MOST_STEPS"):
        monkeypatch.setattr(trees, name, 3)
