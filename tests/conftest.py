"""One thread per process, because the graphs are small; the same examples in every run.

Where there is no GPU, Triton's kernels run in its interpreter, on the CPU.

`HYPOTHESIS_PROFILE=explore make test` looks for new ones.
"""

import gc
import os
import sys
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from sqlite3 import dbapi2

import pytest

pytest_plugins = ("limits",)


def pytest_configure(config):
    """Not in the process that only hands out tests."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    import torch
    from hypothesis import settings

    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
    torch.set_num_threads(1)
    settings.register_profile("repeatable", deadline=None, derandomize=True)
    settings.register_profile("explore", deadline=None)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@contextmanager
def untraced():
    """Without the tracer of coverage."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


def without_tracer(function):
    """The function, run without the tracer of coverage."""

    @wraps(function)
    def call(*args, **options):
        with untraced():
            return function(*args, **options)

    return call


def pytest_collection_finish():
    """What has been imported stays: the garbage collector need not look at it again and again."""
    gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()


@pytest.fixture
def no_tracer():
    """For long tests of code that shorter ones cover."""
    with untraced():
        yield


@pytest.fixture(autouse=True, scope="session")
def compilers_without_tracer():
    """A tracer slows Numba's compiler and Triton's interpreter threefold, and sees no code of ours there."""
    places = (("numba", "numba.core.dispatcher", "Dispatcher", "compile"),
              ("triton", "triton.runtime.interpreter", "GridExecutor", "__call__"))  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for package, module, name, method in places:
            if sys.gettrace() is not None and find_spec(package) is not None:
                owner = getattr(import_module(module), name)
                patch.setattr(owner, method, without_tracer(getattr(owner, method)))
        yield


@cache
def repository():
    from polynsd.runs import environment

    return environment._repository()


@pytest.fixture(autouse=True, scope="module")
def quick_runs(request):
    """Neither the disk nor, more than once, git is waited for; the tests of runs are about just that."""
    if request.path.parent.name == "runs":
        yield
        return
    from polynsd.runs import environment

    answer = repository()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(environment, "_repository", lambda: answer)
        yield


@pytest.fixture(autouse=True, scope="module")
def quick_studies(request):
    """Studies survive a killed process, and need not survive a power cut.

    SQLAlchemy connects through this module; it is not imported for tests without a study.
    """
    if request.path.parent.name not in ("search", "paper", "cli"):
        yield
        return
    connect = dbapi2.connect

    def connect_without_waiting(*args, **options):
        connection = connect(*args, **options)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dbapi2, "connect", connect_without_waiting)
        yield
