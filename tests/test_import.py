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
    "numba",
    "triton",
    "optuna",
    "tyro",
    "rich",
    "pandas",
    "pyarrow",
    "pooch",
)
SUBPACKAGES = [module.name for module in pkgutil.iter_modules(polynsd.__path__) if module.ispkg]


def test_import_loads_no_other_package():
    """Neither torch nor anything else that is installed."""
    code = (
        "import sys; from importlib import metadata; before = set(sys.modules); import polynsd; "
        "dir(polynsd); loaded = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(loaded & metadata.packages_distributions().keys()))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() in ("[]", "['polynsd']")  # an editable installation need not list itself


@pytest.mark.slow
def test_training_needs_nothing_optional():
    """The names that most programs use load torch, numpy and scipy, and of the rest only what they need."""
    code = (
        "import sys, torch; before = set(sys.modules); import polynsd, polynsd.data.tables; "
        "polynsd.PolyNSD, polynsd.data.Graph, polynsd.training.fit, polynsd.kernels.use; "
        f"print([m for m in {OPTIONAL} if m in set(sys.modules) - before])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_listed():
    assert {"SheafClassifier", "PolyNSD", "Run", "read_run", "scale", "errors"} <= set(polynsd.__all__)
    assert set(polynsd.__all__) <= set(dir(polynsd))
    assert all(getattr(polynsd, name) is not None for name in polynsd.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'SheafClasifier'"):
        _ = polynsd.SheafClasifier


@pytest.mark.parametrize("name", [name for name in SUBPACKAGES if name != "cli"])
def test_a_subpackage_exports_what_it_imports(name):
    """`__all__` names every class and function in its namespace, and nothing that is missing."""
    module = importlib.import_module(f"polynsd.{name}")
    exported = set(getattr(module, "__all__", ()))
    assert all(hasattr(module, name) for name in exported)
    own = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("polynsd.")
    }
    assert own <= exported
