"""Files that are whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from polynsd.errors import ConfigError


def require_file_name(path: Path | None) -> None:
    """Raises, before any work is done, where a result could not be written."""
    if path is not None and path.is_dir():
        raise ConfigError(f"results are written to a file; {path} is a folder. Name a file in it.")


def write_json(path: Path, content: Any) -> Path:
    """Writes JSON beside the target first and then moves it there; makes the folder if needed."""
    require_file_name(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".partial")
    unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return unfinished.replace(path)
