"""Flower, loaded when it is needed, without its telemetry and its question for updates."""

from __future__ import annotations

import logging
import os

from polynsd.optional import load_optional

QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}  # unless the user says otherwise


def require_flower(module: str = "flwr") -> None:
    """Raises, with the extra that is missing, unless Flower (or a part of it) can be loaded.

    Call it before the first import of Flower: it reads these variables once.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    load_optional(module, "federated training needs", "federated")
    logging.getLogger("flwr").setLevel(logging.ERROR)  # what happens in a round is told by the server
