"""All problems of a user's tables in one message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from polynsd.errors import DataError, PolyNSDError


class SeveralProblemsError(DataError):
    """Problems as a numbered list."""

    def __init__(self, errors: Sequence[PolyNSDError]) -> None:
        lines = [f"{number}. {error}" for number, error in enumerate(errors, 1)]
        super().__init__("\n".join([f"the tables have {len(lines)} problems.", *lines]))
        self.errors = tuple(errors)


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
        except SeveralProblemsError as error:
            self.errors += error.errors
        except PolyNSDError as error:
            self.errors.append(error)

    def check(self) -> None:
        """Raises what was collected: one error as it is, several as one numbered list."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise SeveralProblemsError(self.errors)
