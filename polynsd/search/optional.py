"""Optuna and YAML, loaded when a search begins."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polynsd.errors import ConfigError


def optuna() -> Any:
    """The package with logging of warnings only; raises an error that names the extra where it is missing."""
    try:
        import optuna
    except ImportError as error:
        raise ConfigError("a search needs Optuna; install it with: pip install 'polynsd[search]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def yaml() -> Any:
    """The package; raises an error that names the extra where it is missing."""
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(
            "files of a search need PyYAML; install it with: pip install 'polynsd[search]'"
        ) from error
    return yaml


@contextmanager
def experimental() -> Iterator[None]:
    """For the parts of Optuna that call themselves experimental: multivariate TPE, fixed parameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna().exceptions.ExperimentalWarning)
        yield
