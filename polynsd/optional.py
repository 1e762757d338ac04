"""Packages that only some parts of the library need, loaded when they are first used."""

from importlib import import_module
from typing import Any

from polynsd.errors import ConfigError

PACKAGE_NAMES = {
    "yaml": "PyYAML",
    "optuna": "Optuna",
}  # that differ from the module


def load_optional(module: str, purpose: str, extra: str) -> Any:
    """The module, or an error that says what needs it (`purpose`) and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ConfigError(
            f"{purpose} the package '{PACKAGE_NAMES.get(name, name)}', which is not installed; "
            f"install it with: pip install 'polynsd[{extra}]'"
        ) from error


def load_yaml() -> Any:
    """PyYAML, which reads and writes configurations, spaces and records."""
    return load_optional("yaml", "YAML files need", "search")


def load_optuna() -> Any:
    """Optuna, which logs warnings only."""
    optuna = load_optional("optuna", "a search needs", "search")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def load_table_package(module: str) -> Any:
    """pandas, pyarrow or a part of them."""
    return load_optional(module, "reading and writing tables needs", "data")
