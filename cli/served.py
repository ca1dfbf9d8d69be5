"""The process that serves a log directory which a command finds in use, and what the user can do instead."""

from __future__ import annotations

import os
import pwd

from offsetfs.cli import running
from offsetfs.cli.exit_codes import Failure
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, Mount, mount_holding, mounts, resolved
from offsetfs.storage.errors import LogDirectoryLocked

UNMOUNT = "unmount it first: offsetfs umount {mount}"
"""The remedy of commands that need the directory for themselves, for `in_use`."""


def daemon_of(log_directory: str) -> running.Daemon | None:
    """Return the daemon that has this log directory mounted for writing, if this user may know it."""
    directory = os.path.realpath(log_directory)
    served = (running.serving(mount) for mount in mounts() if mount.type == FILE_SYSTEM_TYPE)
    daemons = (found[0] for found in served if found is not None)
    return next((d for d in daemons if directory in d.directories and d.is_alive and "ro" not in d.options), None)


def locked_directory(error: LogDirectoryLocked) -> str:
    """Return the path of the log directory whose lock another process holds."""
    return os.path.dirname(error.path or "")


def in_use(error: LogDirectoryLocked, log_directory: str, instead: str) -> Failure:
    """Return what to raise when another process has the directory: which one, and the remedy.

    `instead` is the remedy where an offsetfs mount has it, with `{mount}` for its mount point; a broker is to be
    stopped.
    """
    daemon = daemon_of(log_directory)
    if daemon is not None:
        cure = instead.format(mount=daemon.mount_point)
        return Failure(f"{log_directory} is mounted at {daemon.mount_point} by process {daemon.pid}: {cure}")
    mount = _mount_of(log_directory)
    if mount is not None:
        cure = instead.format(mount=mount.path)
        return Failure(f"{log_directory} is mounted at {mount.path} by user {user_name(mount.owner)}: {cure}")
    return Failure(f"{error}: stop it first (a running broker has tools of its own for this)")


def _mount_of(log_directory: str) -> Mount | None:
    """Return the mount for writing of this log directory, by the table of mounts alone: another user's, too."""
    directory = os.path.realpath(log_directory)
    ours = (mount for mount in mounts() if mount.type == FILE_SYSTEM_TYPE and directory in mount.source.split(","))
    return next((mount for mount in ours if "ro" not in mount.options.split(",")), None)


def not_a_mount(path: str) -> str:
    """Return why `path` is no mount point of offsetfs, with the mount that was probably meant."""
    holding = mount_holding(path)
    if holding is not None and resolved(path) != holding.path:
        return f"is in the offsetfs mount {holding.path}; give that path"
    directory = os.path.realpath(path)
    for mount in (each for each in mounts() if each.type == FILE_SYSTEM_TYPE):
        served = running.serving(mount)
        if directory in (served[0].directories if served is not None else mount.source.split(",")):
            return f"is a log directory; it is mounted at {mount.path}: give that path"
    return "is not an offsetfs mount"


def user_name(uid: int | None) -> str:
    """Return the name of a user, the number where there is no name."""
    try:
        return "unknown" if uid is None else pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
