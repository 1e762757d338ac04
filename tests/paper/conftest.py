"""What tests of pictures look at."""

import pytest


@pytest.fixture
def drawn(monkeypatch):
    """The panels of the pictures that a test draws."""
    from polynsd.report import panels

    seen = []
    finish = panels.Panels.finish

    def keep(self, path, title, handles):
        seen.append((self.axes, [handle.get_label() for handle in handles]))
        return finish(self, path, title, handles)

    monkeypatch.setattr(panels.Panels, "finish", keep)
    return seen


@pytest.fixture
def is_picture():
    return lambda path: path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000
