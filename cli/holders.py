"""Who keeps a mount busy: processes with an open file, a current directory, a root or a mapping in it.

Found by reading the links of /proc, never by touching the mount, which may not answer. Processes of other users show
nothing unless we are root.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Holder:
    """A process; `path` is one of the places it holds."""

    pid: int
    command: str
    path: str

    def __str__(self) -> str:
        return f"{self.command} (pid {self.pid}, {self.path})"


def holders(mount_point: str, device: int) -> list[Holder]:
    """Return the processes that hold something below `mount_point`, or a file of `device` mapped."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            path = next(_held(f"/proc/{name}", mount_point, device), None)
            if path is not None:
                found.append(Holder(int(name), _command(name), path))
    return sorted(found, key=lambda holder: holder.pid)


def _held(process: str, mount_point: str, device: int) -> Iterator[str]:
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


def _command(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return "".join(c if c.isprintable() else "?" for c in file.read().rstrip("\n"))
    except OSError:
        return "?"
