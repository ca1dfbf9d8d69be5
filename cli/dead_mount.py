"""A mount that outlived its daemon: every call on it is answered `Transport endpoint is not connected`.

A daemon that was killed leaves one. It is of no use, and stands where the next mount wants to be, so
`offsetfs mount` takes it away; the log directory is recovered by that mount as after every crash.

Only the answer proves it. What is known about daemons does not: numbers of devices are given anew, also to mounts of
others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess

from offsetfs.cli import running
from offsetfs.cli.exit_codes import Failure
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, Mount, mount_at

PATIENCE_MS = 5_000  # for the answer: a dead mount gives it at once, a hung one never


def clear(mount_point: str) -> str | None:
    """Take away dead mounts of offsetfs at `mount_point`; return a sentence when there was one.

    `Failure` when it cannot be done, with the command that can.
    """
    said = None
    while (mount := mount_at(mount_point)) is not None and is_dead(mount):
        served = running.serving(mount)
        _take_away(mount)
        if served is not None and not served[0].is_alive:
            running.unregister(*served)
            said = f"{mount_point}: removed the stale mount that process {served[0].pid} left when it died"
        else:
            said = f"{mount_point}: removed a stale mount whose daemon is gone"
    return said


def is_dead(mount: Mount) -> bool:
    """Whether this is a mount of offsetfs whose daemon is gone."""
    if mount.type != FILE_SYSTEM_TYPE:
        return False
    served = running.serving(mount)
    if served is not None and served[0].is_alive and served[0].mount_point == mount.path:
        return False
    return _answer(mount.path) == errno.ENOTCONN


def _answer(path: str) -> int | None:
    """Return the errno of statfs(2), 0 when there is none, None when there is no answer.

    Asked by a child, which is left behind when it waits for ever: who waits for FUSE cannot even be killed.
    """
    child = os.fork()
    if child == 0:
        code = 0
        try:
            os.statvfs(path)  # not stat, which the kernel may answer from what it remembers
        except OSError as error:
            code = error.errno or errno.EIO
        finally:
            os._exit(code)
    process = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        if poll.poll(PATIENCE_MS):
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        return None
    finally:
        os.close(process)


def _take_away(mount: Mount) -> None:
    """Lazily: who still has something open there holds nothing but errors."""
    command = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
    result = subprocess.run([*command, "--", mount.path], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = " ".join(result.stderr.split()) or f"{command[0]} failed"
        raise Failure(f"{mount.path}: a mount whose daemon is gone is in the way ({reason}): as root, umount -l it")
