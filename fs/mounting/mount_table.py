"""What is mounted where, from /proc/self/mountinfo: no file system is touched, so that a dead one cannot hang us."""

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


def mounts() -> list[Mount]:
    """Return what this process sees mounted, in the order of mounting."""
    # The kernel writes a carriage return as it is: it must not end a line, or any mount point could forge the next one.
    with open(TABLE, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        return parse(lines)


class MountTable:
    """The table, held open: it can be read when no file can be opened any more."""

    def __init__(self) -> None:
        self._file = open(TABLE, encoding="utf-8", errors="surrogateescape", newline="\n")

    def mount_at(self, path: str) -> Mount | None:
        """Return what `mount_at` returns, as of now."""
        self._file.seek(0)
        return _topmost(parse(self._file), path)

    def close(self) -> None:
        """Let go of the table; a second call does nothing."""
        self._file.close()


def parse(lines: Iterable[str]) -> list[Mount]:
    """Read lines of proc(5)'s mountinfo: `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw`."""
    found = []
    for line in lines:
        place, _, rest = line.rstrip("\n").partition(" - ")
        fields, (kind, source, *more) = place.split(" "), rest.split(" ")
        major, minor = fields[2].split(":")
        device = os.makedev(int(major), int(minor))
        owner = next((re.search(r"(?:^|,)user_id=([0-9]+)", text) for text in more[:1]), None)
        found.append(
            Mount(
                device,
                _unescaped(fields[4]),
                _unescaped(kind),
                _unescaped(source),
                fields[5],
                int(owner[1]) if owner else None,
            )
        )
    return found


def mount_at(path: str) -> Mount | None:
    """Return what is mounted at `path` itself, the topmost if several are; None when it is no mount point."""
    return _topmost(mounts(), path)


def _topmost(table: list[Mount], path: str) -> Mount | None:
    wanted = resolved(path)
    return next((mount for mount in reversed(table) if mount.path == wanted), None)


def mount_holding(path: str) -> Mount | None:
    """Return the mount of offsetfs that `path` is, or lies in; None when there is none. Asks no file system of ours."""
    wanted = resolved(path)
    ours = (mount for mount in reversed(mounts()) if mount.type == FILE_SYSTEM_TYPE)
    return next((mount for mount in ours if f"{wanted}/".startswith(f"{mount.path.rstrip('/')}/")), None)


def resolved(path: str) -> str:
    """Return `path` absolute and without links, without asking its last component: that one may hang."""
    parent, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(parent), name)


def _unescaped(field: str) -> str:
    """Undo the kernel's `\\040` for blanks, tabs, newlines and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
