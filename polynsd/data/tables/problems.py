"""All problems of a user's tables in one message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polynsd.errors import DataError, PolyNSDError


class Problems:
    """Collects errors, so that a user sees all of them at once.

    with problems.collect():
        read_something()      # its error is kept
    problems.check()          # and raised here, together with the others
    """

    def __init__(self) -> None:
        self.errors: list[PolyNSDError] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Keeps the error that ends the `with` block."""
        try:
            yield
        except PolyNSDError as error:
            self.errors.append(error)

    def check(self) -> None:
        """Raises what was collected: one error as it is, several as one numbered list."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            lines = [f"{number}. {error}" for number, error in enumerate(self.errors, 1)]
            raise DataError("\n".join([f"the tables have {len(lines)} problems.", *lines]))
