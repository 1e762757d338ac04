"""`import polynsd` is cheap: nothing optional is loaded."""

import subprocess
import sys

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
)


def test_import_loads_nothing_optional():
    code = (
        "import sys, torch; before = set(sys.modules); import polynsd; "
        f"print([m for m in {OPTIONAL} if m in set(sys.modules) - before])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_exists():
    import polynsd

    assert all(hasattr(polynsd, name) for name in polynsd.__all__)
    assert polynsd.__all__ == sorted(polynsd.__all__, key=lambda n: (not n.isupper(), n[0].islower(), n))
