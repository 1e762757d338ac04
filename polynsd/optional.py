"""Packages that only some parts of the library need, loaded when they are first used."""

from importlib import import_module
from typing import Any

from polynsd.errors import ConfigError


def load_optional(module: str, purpose: str, extra: str) -> Any:
    """The module, or an error that says what needs it (`purpose`) and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ConfigError(
            f"{purpose} the package '{package}', which is not installed; "
            f"install it with: pip install 'polynsd[{extra}]'"
        ) from error
