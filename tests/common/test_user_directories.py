"""The directories of offsetfs among the files of a user."""

import os
import pwd

import pytest

from offsetfs.common.user_directories import cache_directory, state_directory

pytestmark = pytest.mark.unit

HOME = pwd.getpwuid(os.getuid()).pw_dir


@pytest.mark.parametrize(
    ("environment", "cache", "state"),
    [
        ({"HOME": "/home/anna"}, "/home/anna/.cache/offsetfs", "/home/anna/.local/state/offsetfs"),
        (
            {"HOME": "/home/anna", "XDG_CACHE_HOME": "/cache", "XDG_STATE_HOME": "/state"},
            "/cache/offsetfs",
            "/state/offsetfs",
        ),
        ({"XDG_CACHE_HOME": "relative", "XDG_STATE_HOME": "relative"}, None, None),
        ({}, f"{HOME}/.cache/offsetfs", f"{HOME}/.local/state/offsetfs"),  # as in a unit of systemd without User=
    ],
)
def test_directories_are_where_a_user_has_them(
    environment: dict[str, str], cache: str | None, state: str | None
) -> None:
    assert cache_directory(environment) == cache
    assert state_directory(environment) == state


def test_a_user_without_an_account_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 3)
    assert cache_directory({}) is None and state_directory({}) is None
