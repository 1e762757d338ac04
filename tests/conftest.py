"""One thread per process, because the graphs are small; the same examples in every run.

Where there is no GPU, Triton's kernels run in its interpreter, on the CPU.

`HYPOTHESIS_PROFILE=explore make test` looks for new ones.

The tracer of coverage doubles the time of what it sees. So of a test with parameters it sees the first cases
and those with a new value, of a test of Hypothesis the first examples, and epochs of training in the tests of
training alone.
"""

import gc
import os
import sys
from collections import Counter
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages
from sqlite3 import dbapi2

import pytest

pytest_plugins = ("limits",)
TRACED_CASES = 3
TRACED_EXAMPLES = 20
OURS = ("polynsd", "polynsd_paper")
OTHERS = (
    *("hypothesis", "torch_geometric.data", "torch_geometric.datasets", "sklearn.utils", "pandas"),
    *("matplotlib.pyplot", "numba", "optuna", "triton"),
)


def pytest_configure(config):
    """Heavy packages, before any module of ours; not in the process that only hands out tests."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    with untraced():
        import torch

        if not torch.cuda.is_available():
            os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
        for package in OTHERS:
            if find_spec(package.partition(".")[0]) is not None:
                import_module(package)
    from hypothesis import settings

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


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Our modules are imported under the tracer, the tests, which pytest rewrites, are not."""
    if sys.gettrace() is not None:
        for package in OURS:
            for module in walk_packages(import_module(package).__path__, f"{package}."):
                if not module.name.endswith("__main__"):
                    import_module(module.name)
    with untraced():
        return (yield)


def pytest_collection_modifyitems(items):
    """Marks the cases that the tracer need not see: their file has had all their values before."""
    cases, seen = Counter(), set()
    for item in items:
        test = (item.path, getattr(item, "originalname", None) or item.name)
        values = (
            {(item.path, name) for name in item.callspec.id.split("-")}
            if hasattr(item, "callspec")
            else set()
        )
        cases[test] += 1
        if cases[test] > TRACED_CASES and values <= seen:
            item.add_marker("untraced")
        seen |= values


def pytest_collection_finish():
    """What has been imported stays: the garbage collector need not look at it again and again."""
    gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    tracer = sys.gettrace()
    if tracer is None:
        return (yield)
    if item.get_closest_marker("untraced"):
        sys.settrace(None)
    elif hasattr(item.obj, "hypothesis"):
        item.obj.hypothesis.inner_test = traced_at_first(item.obj.hypothesis.inner_test)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


def traced_at_first(test):
    """The body of a test of Hypothesis; after the first examples nothing is traced until it is over."""
    examples = 0

    @wraps(test)
    def call(*args, **options):
        nonlocal examples
        examples += 1
        if examples > TRACED_EXAMPLES:
            sys.settrace(None)
        return test(*args, **options)

    return call


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


@pytest.fixture(autouse=True, scope="module")
def training_without_tracer(request):
    if request.path.parent.name == "training":
        yield
        return
    from polynsd.training.population import Population
    from polynsd.training.replicas import _Training

    with pytest.MonkeyPatch.context() as patch:
        for owner, method in ((Population, "run_epoch"), (_Training, "__init__")):
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
