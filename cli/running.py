"""Which daemon serves which mount: a small file per mount, in the runtime directory.

    /run/offsetfs/0-57.json                 of root; named by the mount's device number
    $XDG_RUNTIME_DIR/offsetfs/0-57.json     of a user; /tmp/offsetfs-<uid>/ when there is no such directory

The daemon writes it when the mount answers and removes it at the end; one that could not save everything leaves it,
with what failed. A pid alone proves nothing, so the file also holds when the process started.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from offsetfs.storage import files

SYSTEM_DIRECTORY = "/run/offsetfs"


@dataclass(frozen=True, slots=True)
class Daemon:
    """A process and the mount it serves. `started`: clock ticks after boot; `failures`: sentences, once it ended."""

    pid: int
    started: int
    device: int
    mount_point: str
    directory: str
    options: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Whether that very process still runs."""
        return started(self.pid) == self.started


def started(pid: int) -> int | None:
    """Return when process `pid` started, in clock ticks after boot; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    state, *fields = text[text.rindex(b")") + 2 :].split()
    return None if state in b"ZX" else int(fields[18])  # field 22; a zombie has ended


def directory(uid: int, environment: Mapping[str, str]) -> str:
    """Return where daemons of `uid` are registered."""
    if uid == 0:
        return SYSTEM_DIRECTORY
    runtime = environment.get("XDG_RUNTIME_DIR")
    return os.path.join(runtime, "offsetfs") if runtime else os.path.join(tempfile.gettempdir(), f"offsetfs-{uid}")


def own_directory() -> str:
    """Return where daemons of this user are registered."""
    return directory(os.geteuid(), os.environ)


def register(daemon: Daemon, place: str) -> None:
    """Write the file of `daemon`. OSError when `place` is somebody else's: it would say what they like."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, 0o755 if place == SYSTEM_DIRECTORY else 0o700)
    _check_own(place)
    files.replace_file(_path(daemon.device, place), json.dumps(dataclasses.asdict(daemon), indent=1).encode() + b"\n")


def unregister(device: int, place: str) -> None:
    """Remove the file of a daemon; nothing when there is none."""
    with contextlib.suppress(OSError):
        os.unlink(_path(device, place))


def find(device: int) -> Daemon | None:
    """Return what is known about the daemon of the mount with this st_dev: ours, or root's."""
    for place in dict.fromkeys((own_directory(), SYSTEM_DIRECTORY)):
        try:
            _check_own(place)
            return _read(_path(device, place))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return None


def _read(path: str) -> Daemon:
    content = json.loads(files.read_file(path, 1 << 20))
    return Daemon(
        int(content["pid"]),
        int(content["started"]),
        int(content["device"]),
        str(content["mount_point"]),
        str(content["directory"]),
        {str(name): str(value) for name, value in content["options"].items()},
        tuple(str(each) for each in content["failures"]),
    )


def _path(device: int, place: str) -> str:
    return os.path.join(place, f"{os.major(device)}-{os.minor(device)}.json")


def _check_own(place: str) -> None:
    status = os.lstat(place)
    is_own = status.st_uid in (0, os.geteuid()) and not stat.S_IMODE(status.st_mode) & 0o022
    if not stat.S_ISDIR(status.st_mode) or not is_own:
        raise PermissionError(1, "is not a directory of ours alone", place)
