"""`import polynsd` is cheap, and its public names are complete."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import polynsd

OPTIONAL = (
    "torch_geometric",
    "matplotlib",
    "plotly",
    "numba",
    "triton",
    "optuna",
    "flwr",
    "tyro",
    "rich",
    "pandas",
    "pooch",
)
ROOMS = [module.name for module in pkgutil.iter_modules(polynsd.__path__) if module.ispkg]


@pytest.mark.slow
def test_import_loads_nothing_optional():
    code = (
        "import sys, torch; before = set(sys.modules); import polynsd; dir(polynsd); "
        f"print([m for m in {OPTIONAL} if m in set(sys.modules) - before])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_listed():
    assert {"SheafClassifier", "load_estimator", "Run", "read_run", "scale"} <= set(polynsd.__all__)
    assert set(polynsd.__all__) <= set(dir(polynsd))
    assert all(getattr(polynsd, name) is not None for name in polynsd.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'SheafClasifier'"):
        _ = polynsd.SheafClasifier


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "cli"])
def test_a_room_exports_what_it_imports(room):
    """`__all__` of a room names every class and function in its namespace, and nothing that is missing."""
    module = importlib.import_module(f"polynsd.{room}")
    exported = set(getattr(module, "__all__", ()))
    assert all(hasattr(module, name) for name in exported)
    own = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("polynsd.")
    }
    assert own <= exported
