"""Packages that only tables over runs need, loaded when they are first used."""

from importlib import import_module
from typing import Any

from polynsd.errors import ConfigError


def load(module: str) -> Any:
    """The module, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ConfigError(
            f"tables of runs need the package '{package}', which is not installed; "
            "install it with: pip install 'polynsd[runs]'"
        ) from error
