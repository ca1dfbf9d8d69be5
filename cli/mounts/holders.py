"""The processes that keep a mount busy: those with an open file, a current directory, a root or a mapping in it.

Also the places where a file system is still mounted: umount(8) neither removes bind mounts nor mounts of other mount
namespaces, such as those of containers. The daemon serves them until they are gone.

The links in /proc are read directly. `psutil.Process.open_files` is not used for two reasons: it calls stat(2) on each
path, which hangs if the daemon of the mount does not answer; and it leaves out open directories, which keep a mount
busy as well. Without root, only processes of the same user are found.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from offsetfs.fs.mounting.mount_table import mounts


@dataclass(frozen=True, slots=True)
class Holder:
    """A process; `path` is one of the paths that it holds."""

    pid: int
    command: str
    path: str

    def __str__(self) -> str:
        return f"{self.command} (pid {self.pid}, {self.path})"


def holders(mount_point: str, device: int) -> list[Holder]:
    """Return the processes that have a path below `mount_point` open, or a file of `device` mapped, by pid."""
    import psutil  # here, because only a busy mount needs it

    held = []
    for pid in sorted(psutil.pids()):
        path = next(_held_paths(f"/proc/{pid}", mount_point, device), None) if pid != os.getpid() else None
        if path is not None:
            held.append(Holder(pid, _command(pid), path))
    return held


def places(device: int) -> list[str]:
    """Return where a file system is mounted: paths, and for each other mount namespace one of its processes.

    Without root, only namespaces of processes of the same user are found.
    """
    import psutil

    mounted_at = [mount.path for mount in mounts() if mount.device == device]
    seen = {os.readlink("/proc/self/ns/mnt")}
    for pid in sorted(psutil.pids()):
        with contextlib.suppress(OSError):
            namespace = os.readlink(f"/proc/{pid}/ns/mnt")
            if namespace in seen:
                continue
            seen.add(namespace)
            paths = (mount.path for mount in mounts(f"/proc/{pid}/mountinfo") if mount.device == device)
            mounted_at += [f"the mount namespace of {Holder(pid, _command(pid), path)}" for path in paths]
    return mounted_at


def _held_paths(process: str, mount_point: str, device: int) -> Iterator[str]:
    # A process may end at any time, and /proc refuses processes of other users: both are OSError, and neither is found.
    for link in _links(process):
        with contextlib.suppress(OSError):
            target = os.readlink(link)
            if target == mount_point or target.startswith(mount_point.rstrip("/") + "/"):
                yield target
    with contextlib.suppress(OSError), open(f"{process}/maps", errors="replace") as lines:
        wanted = f"{os.major(device):02x}:{os.minor(device):02x}"
        for line in lines:
            fields = line.split(maxsplit=5)
            if fields[3] == wanted:
                yield fields[5].strip() if len(fields) > 5 else "a mapping"


def _links(process: str) -> Iterator[str]:
    yield f"{process}/cwd"
    yield f"{process}/root"
    with contextlib.suppress(OSError):
        yield from (f"{process}/fd/{name}" for name in os.listdir(f"{process}/fd"))


def _command(pid: int) -> str:
    import psutil

    try:
        return "".join(c if c.isprintable() else "?" for c in psutil.Process(pid).name())
    except psutil.Error:  # it ended meanwhile, or belongs to another user
        return "?"
