"""Errors that speak to the user: what was expected, what came, what to do.

Every error of the library derives from `PolyNSDError`; all of them are `ValueError`s too, because
that is what callers of PyTorch and scikit-learn catch.
"""

from collections.abc import Iterable


class PolyNSDError(ValueError):
    """Root of all errors raised for a user's mistake."""


class ShapeError(PolyNSDError):
    """A tensor has the wrong shape or dtype."""


class GraphError(PolyNSDError):
    """The edges do not describe a graph."""


class DataError(PolyNSDError):
    """Features, labels or masks cannot be learned from."""


class ConfigError(PolyNSDError):
    """An option has an unknown name or a value outside its domain."""


def unknown_name(kind: str, name: object, choices: Iterable[str]) -> ConfigError:
    """The error for a misspelt option: lists the choices and guesses the one that was meant."""
    names = sorted(choices)
    return ConfigError(f"unknown {kind} '{name}'; choose from: {', '.join(names)}.{guess_name(name, names)}")


def guess_name(name: object, choices: Iterable[str]) -> str:
    """` Did you mean 'label'?`, or nothing where no choice resembles the name."""
    from difflib import get_close_matches

    guess = get_close_matches(str(name), list(choices), n=1)
    return f" Did you mean '{guess[0]}'?" if guess else ""


def require_choice(kind: str, name: str, choices: Iterable[str]) -> None:
    """Raises unless `name` is one of `choices`."""
    names = list(choices)
    if name not in names:
        raise unknown_name(kind, name, names)


def require_at_least(name: str, value: int, low: int) -> None:
    """Raises unless `value` is an integer of at least `low`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < low:
        raise ConfigError(f"{name} must be an integer of at least {low}; got {value!r}.")


def require_at_most(name: str, value: int, high: int) -> None:
    """Raises unless `value` is at most `high`."""
    if value > high:
        raise ConfigError(f"{name} must be at most {high:,}; got {value:,}.")


def require_fraction(name: str, value: float) -> None:
    """Raises unless 0 <= value < 1."""
    if not 0.0 <= value < 1.0:
        raise ConfigError(f"{name} must lie in [0, 1); got {value!r}.")
