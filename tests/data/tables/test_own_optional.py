"""A package that is not installed is named together with the extra that brings it."""

import subprocess
import sys

import pytest

from polynsd.data.tables.optional import load
from polynsd.errors import ConfigError


def test_a_missing_package_names_the_extra():
    with pytest.raises(ConfigError, match=r"package 'no_such_package'.*pip install 'polynsd\[data\]'"):
        load("no_such_package.part")


def test_importing_loads_no_optional_package():
    code = (
        "import sys, polynsd.data.tables; "
        "print([m for m in ('pandas', 'pyarrow', 'torch_geometric') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
