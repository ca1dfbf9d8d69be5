"""Finds the daemon that serves a log directory, and builds the error message for a directory that is in use."""

from __future__ import annotations

import os
import pwd

from offsetfs.cli.exit_codes import Failure
from offsetfs.cli.mounts import daemon_registry
from offsetfs.cli.mounts.mirroring_process import mirroring_process
from offsetfs.cli.mounts.serving_process import serving_process
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, Mount, mount_holding, mounts, resolved
from offsetfs.storage import files
from offsetfs.storage.errors import LogDirectoryLocked

COMMAND_LINE_BYTES_MAX = 4096
COMMAND_WORDS_MAX = 4
"""The name of the program is among these words: `python -m offsetfs VERB`, or `python …/bin/offsetfs VERB`."""
UNMOUNT_FIRST = "unmount it first: offsetfs umount {mount}"
"""The remedy of commands that need the directory exclusively, for `in_use`."""


def daemon_of(log_directory: str) -> daemon_registry.Daemon | None:
    """Return the daemon that serves this log directory for writing; None if there is none, or it is another user's."""
    directory = files.real_path(log_directory)
    served = (daemon_registry.serving(mount) for mount in mounts() if mount.type == FILE_SYSTEM_TYPE)
    daemons = (registered[0] for registered in served if registered is not None)
    return next((d for d in daemons if directory in d.directories and d.is_alive and _writes(d)), None)


def _writes(daemon: daemon_registry.Daemon) -> bool:
    """Whether a daemon writes its log directory: that of a mount of `kafka://` does, though the mount is read-only."""
    return "ro" not in daemon.options or "source" in daemon.options


def locked_directory(error: LogDirectoryLocked) -> str:
    """Return the path of the log directory whose lock another process holds."""
    return os.path.dirname(error.path or "")


def in_use(error: LogDirectoryLocked, log_directory: str, instead: str) -> Failure:
    """Return the error for a log directory that another process has locked. It names the process and the remedy.

    `instead`: the remedy if the process is an offsetfs mount, with `{mount}` for its mount point. A broker must be
    stopped.
    """
    daemon = daemon_of(log_directory)
    if daemon is not None:
        remedy = instead.format(mount=daemon.mount_point)
        return Failure(f"{log_directory} is mounted at {daemon.mount_point} by process {daemon.pid}: {remedy}")
    mount = _mount_of(log_directory)
    if mount is not None:
        remedy = instead.format(mount=mount.path)
        return Failure(f"{log_directory} is mounted at {mount.path} by user {user_name(mount.owner)}: {remedy}")
    server = serving_process(log_directory)
    if server is not None:
        remedy = f"stop it first (kill {server.pid}), or use a Kafka client"
        return Failure(f"{log_directory} is served at {server.addresses} by process {server.pid}: {remedy}")
    mirror = mirroring_process(log_directory)
    if mirror is not None:
        remedy = f"stop it first (kill {mirror['pid']}), or read beside it (-o ro, --read-only)"
        source = mirror["source"]
        return Failure(f"{log_directory} is mirrored from {source} by process {mirror['pid']}: {remedy}")
    command = _offsetfs_command(error.pid)
    if command is not None:
        remedy = f"wait until it ends, or stop it (kill {error.pid})"
        return Failure(f"{log_directory} is in use by process {error.pid} ({command}): {remedy}")
    return Failure(f"{error}: stop it first, or use Kafka's own tools with the running broker")


def is_offsetfs(log_directory: str, pid: int) -> bool:
    """Whether the process that has locked a log directory is of offsetfs, and no broker."""
    if daemon_of(log_directory) is not None or serving_process(log_directory) is not None:
        return True
    return pid == os.getpid() or mirroring_process(log_directory) is not None or _offsetfs_command(pid) is not None


def _offsetfs_command(pid: int | None) -> str | None:
    """Return the command that process `pid` runs, such as `offsetfs append`; None if it is not of offsetfs."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(COMMAND_LINE_BYTES_MAX).decode("utf-8", "replace").split("\0")
    except OSError:  # ended, or another user's that is hidden
        return None
    names = [os.path.basename(word) for word in words[:COMMAND_WORDS_MAX]]
    if "offsetfs" not in names:
        return None
    verb = words[names.index("offsetfs") + 1 :][:1]
    return " ".join(["offsetfs", *verb]).rstrip()


def _mount_of(log_directory: str) -> Mount | None:
    """Return the writable mount of this log directory from the mount table, which also has mounts of other users."""
    directory = files.real_path(log_directory)
    ours = (mount for mount in mounts() if mount.type == FILE_SYSTEM_TYPE and directory in mount.source.split(","))
    return next((mount for mount in ours if "ro" not in mount.options.split(",")), None)


def reason_not_a_mount(path: str) -> str:
    """Return why `path` is not an offsetfs mount point; names the mount that the user probably meant."""
    holding = mount_holding(path)
    if holding is not None and resolved(path) != holding.path:
        return f"is in the offsetfs mount {holding.path}; give that path"
    directory = files.real_path(path)
    for mount in (entry for entry in mounts() if entry.type == FILE_SYSTEM_TYPE):
        served = daemon_registry.serving(mount)
        if directory in (served[0].directories if served is not None else mount.source.split(",")):
            return f"is a log directory; it is mounted at {mount.path}: give that path"
    return "is not an offsetfs mount"


def owner_remedy(uid: int) -> str:
    """Return what to do about a file of another user."""
    name = user_name(uid)
    return f"it belongs to user {name}: run the command as this user (sudo -u {name})"


def user_name(uid: int | None) -> str:
    """Return the name of a user; the number if there is no name, "unknown" for None."""
    try:
        return "unknown" if uid is None else pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
