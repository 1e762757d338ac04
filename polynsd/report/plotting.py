"""Matplotlib, loaded when the first picture is drawn."""

from __future__ import annotations

from typing import Any

from polynsd.errors import ConfigError


def pyplot() -> Any:
    """The plotting module, set to draw into files; a missing matplotlib is an error that names the extra."""
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError(
            "pictures need matplotlib; install it with: pip install 'polynsd[plots]'"
        ) from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
