"""What makes fits quicker."""

import pytest


@pytest.fixture
def few_trees(monkeypatch):
    """Boosting ends after a few steps, for tests that are about other things."""
    from polynsd.estimator import trees

    monkeypatch.setattr(trees, "MOST_STEPS", 3)
