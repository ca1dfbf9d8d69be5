"""What tests of the engine share."""

import os

import pytest


@pytest.fixture
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let syncs cost nothing: for tests that write much and pull no plug."""
    monkeypatch.setattr(os, "fsync", lambda _fd: None)
