"""scikit-learn estimators for a graph of your own: `fit`, `predict`, `score`, `save`, `load`, `explain`."""

from polynsd.estimator.classifier import SheafClassifier
from polynsd.estimator.explain import explain_node
from polynsd.estimator.explanation import Explanation
from polynsd.estimator.nodes import GraphNodes, TransformFeatures
from polynsd.estimator.regressor import SheafRegressor
from polynsd.estimator.storage import load_estimator

__all__ = [
    "Explanation",
    "GraphNodes",
    "SheafClassifier",
    "SheafRegressor",
    "TransformFeatures",
    "explain_node",
    "load_estimator",
]
