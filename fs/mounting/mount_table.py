"""Mounts and their mount points, from /proc/self/mountinfo.

No file system is accessed, because a call on a stale mount may block forever.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

TABLE = "/proc/self/mountinfo"
FILE_SYSTEM_TYPE = "fuse.offsetfs"


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the table. `device` is the st_dev of everything in it, `options` those of mount(8).

    `owner`: the user id whose daemon serves a FUSE mount; None for other file systems.
    """

    device: int
    path: str
    type: str
    source: str
    options: str
    owner: int | None = None


def mounts(table: str = TABLE) -> list[Mount]:
    """Return the mounts that this process sees, in the order of mounting; `table`: that of another process."""
    # The kernel does not escape a carriage return. With universal newlines it would end a line, and the name of a mount
    # point could forge the next one.
    with open(table, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        return parse(lines)


class MountTable:
    """The table, held open, so that it can be read when the process is out of file descriptors."""

    def __init__(self) -> None:
        self._file = open(TABLE, encoding="utf-8", errors="surrogateescape", newline="\n")

    def mount_at(self, path: str) -> Mount | None:
        """Return the topmost mount at `path`; None if it is not a mount point."""
        self._file.seek(0)
        return _topmost(parse(self._file), path)

    def close(self) -> None:
        """Close the table. A second call does nothing."""
        self._file.close()


def parse(lines: Iterable[str]) -> list[Mount]:
    """Parse the lines of mountinfo, see proc(5): `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw`."""
    table = []
    for line in lines:
        before, _, rest = line.rstrip("\n").partition(" - ")
        fields, (kind, source, *more) = before.split(" "), rest.split(" ")
        major, minor = fields[2].split(":")
        device = os.makedev(int(major), int(minor))
        owner = next((re.search(r"(?:^|,)user_id=([0-9]+)", text) for text in more[:1]), None)
        table.append(
            Mount(
                device,
                _unescaped(fields[4]),
                _unescaped(kind),
                _unescaped(source),
                fields[5],
                int(owner[1]) if owner else None,
            )
        )
    return table


def mount_at(path: str) -> Mount | None:
    """Return the topmost mount at `path`; None if it is not a mount point."""
    return _topmost(mounts(), path)


def _topmost(table: list[Mount], path: str) -> Mount | None:
    wanted = resolved(path)
    return next((mount for mount in reversed(table) if mount.path == wanted), None)


def mount_holding(path: str) -> Mount | None:
    """Return the offsetfs mount that contains `path`; None for other paths. Accesses no offsetfs mount."""
    wanted = resolved(path)
    ours = (mount for mount in reversed(mounts()) if mount.type == FILE_SYSTEM_TYPE)
    return next((mount for mount in ours if f"{wanted}/".startswith(f"{mount.path.rstrip('/')}/")), None)


def resolved(path: str) -> str:
    """Return `path` absolute and without links. Does not access its last component, which may be a stale mount."""
    parent, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(parent), name)


def _unescaped(field: str) -> str:
    """Undo the kernel's `\\040` for blanks, tabs, newlines and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
