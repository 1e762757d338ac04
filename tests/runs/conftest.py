"""Runs of these tests do not ask git and the machine where they are."""

import os

import pytest

from polynsd.runs import environment


@pytest.fixture
def quick(monkeypatch):
    """No process for git, and no waiting for the disk: a killed process loses nothing that it wrote."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(environment, "session", lambda: {"started": "2026-01-01T00:00:00+00:00"})
