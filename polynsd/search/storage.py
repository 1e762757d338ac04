"""Storages of a study: an SQLite file, a PostgreSQL server, or a journal file.

| address                              | for                                                            |
|--------------------------------------|----------------------------------------------------------------|
| `sqlite:///folder/study.db`          | one machine, any number of processes                           |
| `postgresql://user@host/database`    | many machines                                                  |
| `journal:///folder/study.log`        | machines that share a folder                                   |
| `memory:`                            | this process; nothing is kept                                  |
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from polynsd.errors import ConfigError, DataError, PolyNSDError
from polynsd.optional import load_optuna

SQLITE, JOURNAL, POSTGRES = "sqlite:///", "journal:///", ("postgresql://", "postgres://")
MEMORY = "memory:"
LOCK_SECONDS = 60  # how long a process waits for its turn to write
ATTEMPTS = 10  # at making the tables, where another process does so at the same time
RACE_ERRORS = (
    "already exists",
    "UNIQUE constraint",
    "UniqueViolation",
    "duplicate key",
    "database is locked",
)


def open_storage(url: str) -> Any:
    """Optuna's storage at an address; tables and folders are made where they are missing."""
    storages = load_optuna().storages
    if url == MEMORY:
        return storages.InMemoryStorage()
    if url.startswith(JOURNAL):
        backend = storages.journal.JournalFileBackend(str(_make_parent(url, JOURNAL)))
        return storages.JournalStorage(backend)
    if url.startswith(SQLITE):
        _make_parent(url, SQLITE)
        storage = _lock_early(_open_database(url, {"connect_args": {"timeout": LOCK_SECONDS}}))
        _check_pages(storage)
        return storage
    if url.startswith(POSTGRES):
        if find_spec("psycopg2") is None:
            raise ConfigError("PostgreSQL needs psycopg2; install it with: pip install 'polynsd[postgres]'")
        return _open_database(f"postgresql+psycopg2://{url.partition('://')[2]}", {"pool_pre_ping": True})
    raise ConfigError(
        f"a storage is {SQLITE}FILE, {POSTGRES[0]}USER@HOST/NAME or {JOURNAL}FILE; got {url!r}."
    )


def _make_parent(url: str, scheme: str) -> Path:
    path = Path(url[len(scheme) :])
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _open_database(url: str, engine: dict[str, Any], attempt: int = 1) -> Any:
    """Retries where another process makes the tables at the same time."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return load_optuna().storages.RDBStorage(url, engine_kwargs=engine)
    except (SQLAlchemyError, load_optuna().exceptions.OptunaError, RuntimeError) as error:
        if attempt == ATTEMPTS or not any(word in str(error) for word in RACE_ERRORS):
            reason = str(error.__cause__ or error).splitlines()[0]
            raise ConfigError(f"the storage {hide_password(url)} cannot be opened: {reason}") from error
    time.sleep(0.1 * attempt)
    return _open_database(url, engine, attempt + 1)


def _lock_early(storage: Any) -> Any:
    """Lets SQLite lock the file from the first statement of a transaction on.

    Optuna reads a trial and then changes it; without the lock two processes may read before either changes,
    and both get the trial.
    """
    from sqlalchemy import event

    engine = storage.engine
    event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    engine.dispose()  # connections that were made before
    return storage


@contextmanager
def one_transaction(storage: Any) -> Iterator[None]:
    """Stores what the block writes to an SQLite file in one go, also where the block raises.

    Optuna commits every parameter and attribute by itself, and a disk needs milliseconds for each. Other
    processes wait while the block runs, so it should be short. Other storages are written to as ever.
    """
    backend: Any = getattr(storage, "_backend", None)
    engine: Any = getattr(backend, "engine", None)
    sessions: Any = getattr(backend, "scoped_session", None)  # of this thread
    if engine is None or engine.dialect.name != "sqlite" or sessions().bind is not engine:
        yield  # another storage, or a block in a block
        return
    with engine.connect() as connection:
        transaction = connection.begin()
        sessions.remove()
        sessions(bind=connection, join_transaction_mode="create_savepoint")  # its commits end savepoints only
        try:
            yield
        finally:
            sessions.remove()
            transaction.commit()


def _check_pages(storage: Any) -> None:
    with storage.engine.connect() as connection:
        found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
    if found != "ok":
        raise ValueError(" ".join(str(found).split()))


@contextmanager
def tell_damage(url: str) -> Iterator[None]:
    """Turns whatever a damaged storage raises, in SQLite, SQLAlchemy or Optuna, into one `DataError`."""
    try:
        yield
    except PolyNSDError:
        raise
    except Exception as error:
        reason = (str(error.__cause__ or error).splitlines() or [""])[0][:200]
        raise DataError(
            f"the storage {hide_password(url)} is damaged ({type(error).__name__}: {reason}). Restore a copy "
            "of it, or begin another study (--storage)."
        ) from error


def hide_password(url: str) -> str:
    """The address without a password."""
    scheme, _, rest = url.partition("://")
    account, at, host = rest.rpartition("@")
    return f"{scheme}://{account.partition(':')[0]}{at}{host}"
