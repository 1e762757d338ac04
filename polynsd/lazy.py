"""Packages whose names are imported when they are first used.

A package that lists its names this way costs nothing to import, so that the help of a command can read the
dataclass of its options without torch:

    if TYPE_CHECKING:
        from polynsd.runs.run import Run
    else:
        __getattr__ = import_on_use(__name__, {"run": ("Run",)})

    __all__ = ["Run"]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def import_on_use(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The function `__getattr__` of a package.

    Args:
        package: the name of the package.
        names: the public names in each of its modules. Modules are attributes too.
    """
    module_of = {name: module for module, public in names.items() for name in public}

    def get_name(name: str) -> Any:
        if name in module_of:
            value = getattr(import_module(f"{package}.{module_of[name]}"), name)
            setattr(sys.modules[package], name, value)
            return value
        if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return get_name
