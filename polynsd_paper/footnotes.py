"""Why our number and a printed one may differ, or cannot be compared: the sentences of footnotes.csv."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Footnote:
    """A sentence about some columns or rows of an experiment's table.

    Args:
        experiments: whose tables it concerns.
        about: datasets, models or other labels of the table; none: all of it.
        text: the sentence.
    """

    experiments: tuple[str, ...]
    about: tuple[str, ...]
    text: str

    def concerns(self, label: str) -> bool:
        """Whether a row or column of that label is meant in particular.

        Arguments do not count: `jacobi(0.5, 0)` is `jacobi`.
        """
        return label.partition("(")[0] in self.about


@cache
def all_footnotes() -> tuple[Footnote, ...]:
    """The sentences in the order of the file, where lists are separated by semicolons."""
    text = files(__package__).joinpath("footnotes.csv").read_text(encoding="utf-8")
    return tuple(
        Footnote(
            tuple(row["experiments"].split(";")), tuple(filter(None, row["about"].split(";"))), row["text"]
        )
        for row in csv.DictReader(text.splitlines())
    )


def footnotes_for(experiment: str, labels: Collection[str] | None = None) -> list[Footnote]:
    """The footnotes of an experiment; with `labels`, those about one of them, then those about everything."""
    chosen = [note for note in all_footnotes() if experiment in note.experiments]
    if labels is None:
        return chosen
    particular = [note for note in chosen if any(map(note.concerns, labels))]
    return particular + [note for note in chosen if not note.about]
