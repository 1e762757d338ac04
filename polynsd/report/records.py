"""`JsonLines`: events of a training or a search as lines of JSON, for machines.

`polynsd.training.callback` lists the events and their keys.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from polynsd.training.callback import EventLog


class JsonLines(EventLog):
    """One JSON object per event and line, on standard output unless told otherwise."""

    def __init__(self, stream: TextIO | None = None, every: int = 10) -> None:
        super().__init__(self._print, every)
        self._stream = stream

    def _print(self, record: dict[str, Any]) -> None:
        stream = sys.stdout if self._stream is None else self._stream
        stream.write(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")
        stream.flush()  # a reader of the stream gets each event at once
