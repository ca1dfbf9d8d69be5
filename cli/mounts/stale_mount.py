"""Stale mounts: the daemon was killed, and each system call on the mount fails with ENOTCONN.

`offsetfs mount` removes a stale mount from its mount point, and then recovers the log directory as after every crash.

Only the errno of statfs(2) shows that a mount is stale. The registry of daemons does not, because the kernel reuses
device numbers, also for mounts of other programs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess

from offsetfs.cli.exit_codes import Failure
from offsetfs.cli.mounts import daemon_registry
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, Mount, mount_at

TIMEOUT_MS = 5_000  # of statfs(2): a stale mount fails at once, a mount whose daemon hangs never replies


def remove(mount_point: str) -> str | None:
    """Unmount stale mounts of offsetfs at `mount_point`; return a message if there was one.

    `Failure` if umount(8) refuses.
    """
    message = None
    while (mount := mount_at(mount_point)) is not None and is_stale(mount):
        served = daemon_registry.serving(mount)
        _unmount_lazily(mount)
        if served is not None and not served[0].is_alive:
            daemon_registry.unregister(*served)
            message = f"{mount_point}: removed the stale mount that process {served[0].pid} left when it died"
        else:
            message = f"{mount_point}: removed a stale mount whose daemon is gone"
    return message


def is_stale(mount: Mount) -> bool:
    """Whether this is a mount of offsetfs whose daemon has ended."""
    if mount.type != FILE_SYSTEM_TYPE:
        return False
    served = daemon_registry.serving(mount)
    if served is not None and served[0].is_alive and served[0].mount_point == mount.path:
        return False
    return _statfs_errno(mount.path) == errno.ENOTCONN


def _statfs_errno(path: str) -> int | None:
    """Return the errno of statfs(2), 0 if it succeeds, None if it does not return within `TIMEOUT_MS`.

    A child process makes the call, because a process that waits for a FUSE daemon that hangs cannot be killed.
    """
    child = os.fork()
    if child == 0:
        code = 0
        try:
            os.statvfs(path)  # not stat(2), which the kernel may answer from cached attributes
        except OSError as error:
            code = error.errno or errno.EIO
        finally:
            os._exit(code)
    process = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        if poll.poll(TIMEOUT_MS):
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        return None
    finally:
        os.close(process)


def _unmount_lazily(mount: Mount) -> None:
    # Lazily: a process that still has a file open there would keep the mount busy, and can only get errors from it.
    command = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
    result = subprocess.run([*command, "--", mount.path], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = " ".join(result.stderr.split()) or f"{command[0]} failed"
        raise Failure(f"{mount.path}: cannot remove a stale mount ({reason}); as root: umount -l {mount.path}")
