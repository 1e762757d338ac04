"""A model for your own graph with the manners of scikit-learn: `fit`, `predict`, `score`, `save`, `load`.

scikit-learn itself is not needed; where it is installed, these are estimators of its own kind.
"""

from polynsd.estimator.classifier import SheafClassifier
from polynsd.estimator.regressor import SheafRegressor
from polynsd.estimator.storage import load_estimator

__all__ = ["SheafClassifier", "SheafRegressor", "load_estimator"]
