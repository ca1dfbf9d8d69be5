"""What is mounted where, from /proc/self/mountinfo: no file system is touched, so that a dead one cannot hang us."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

FILE_SYSTEM_TYPE = "fuse.offsetfs"


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the table. `device` is the st_dev of everything in it, `options` those of mount(8)."""

    device: int
    path: str
    type: str
    source: str
    options: str


def mounts() -> list[Mount]:
    """Return what this process sees mounted, in the order of mounting."""
    # The kernel writes a carriage return as it is: it must not end a line, or any mount point could forge the next one.
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        return parse(lines)


def parse(lines: Iterable[str]) -> list[Mount]:
    """Read lines of proc(5)'s mountinfo: `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw`."""
    found = []
    for line in lines:
        place, _, rest = line.rstrip("\n").partition(" - ")
        fields, (kind, source, *_) = place.split(" "), rest.split(" ")
        major, minor = fields[2].split(":")
        device = os.makedev(int(major), int(minor))
        found.append(Mount(device, _unescaped(fields[4]), _unescaped(kind), _unescaped(source), fields[5]))
    return found


def mount_at(path: str) -> Mount | None:
    """Return what is mounted at `path` itself, the topmost if several are; None when it is no mount point."""
    wanted = resolved(path)
    return next((mount for mount in reversed(mounts()) if mount.path == wanted), None)


def resolved(path: str) -> str:
    """Return `path` absolute and without links, without asking its last component: that one may hang."""
    parent, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(parent), name)


def _unescaped(field: str) -> str:
    """Undo the kernel's `\\040` for blanks, tabs, newlines and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
