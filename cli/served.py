"""Who serves a log directory that a command finds in use, and what its user can do instead."""

from __future__ import annotations

import os

from offsetfs.cli import running
from offsetfs.cli.exit_codes import Failure
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, mounts
from offsetfs.storage.errors import LogDirectoryLocked

UNMOUNT = "unmount it first: offsetfs umount {mount}"
"""What helps whoever needs the directory for himself, for `in_use`."""


def daemon_of(log_directory: str) -> running.Daemon | None:
    """Return the daemon of ours that has this log directory mounted for writing, if there is one."""
    directory = os.path.realpath(log_directory)
    ours = (running.find(mount.device, running.own_directory()) for mount in mounts() if mount.type == FILE_SYSTEM_TYPE)
    return next((d for d in ours if d and d.directory == directory and d.is_alive and "ro" not in d.options), None)


def in_use(error: LogDirectoryLocked, log_directory: str, instead: str) -> Failure:
    """Return what to raise when somebody else has the directory: who it is, and what helps.

    `instead` is what to do where a mount of ours has it, with `{mount}` for its mount point; a broker is to be stopped.
    """
    daemon = daemon_of(log_directory)
    if daemon is None:
        return Failure(f"{error}: stop it first (a running broker has tools of its own for this)")
    cure = instead.format(mount=daemon.mount_point)
    return Failure(f"{log_directory} is mounted at {daemon.mount_point} by process {daemon.pid}: {cure}")
