"""The directories of offsetfs among the files of a user (XDG base directory specification)."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Mapping


def cache_directory(environment: Mapping[str, str]) -> str | None:
    """Return the directory of what can be fetched or computed again; None for a user without a home directory."""
    return _directory(environment, "XDG_CACHE_HOME", ".cache")


def state_directory(environment: Mapping[str, str]) -> str | None:
    """Return the directory of logs and histories; None for a user without a home directory."""
    return _directory(environment, "XDG_STATE_HOME", ".local/state")


def _directory(environment: Mapping[str, str], name: str, below_home: str) -> str | None:
    base = environment.get(name) or os.path.join(_home(environment), below_home)
    return os.path.join(base, "offsetfs") if os.path.isabs(base) else None


def _home(environment: Mapping[str, str]) -> str:
    """Return the home directory, that of the password database where HOME is not set, as in units of systemd."""
    if not environment.get("HOME"):
        with contextlib.suppress(KeyError):
            return pwd.getpwuid(os.getuid()).pw_dir
    return environment.get("HOME", "")
