"""scikit-learn estimators for a graph of your own: `fit`, `predict`, `score`, `save`, `load`.

scikit-learn itself is not needed; where it is installed, these derive from its base classes.
"""

from polynsd.estimator.classifier import SheafClassifier
from polynsd.estimator.nodes import GraphNodes, TransformFeatures
from polynsd.estimator.regressor import SheafRegressor
from polynsd.estimator.storage import load_estimator

__all__ = ["GraphNodes", "SheafClassifier", "SheafRegressor", "TransformFeatures", "load_estimator"]
