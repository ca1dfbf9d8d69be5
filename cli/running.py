"""Which daemon serves which mount: a small file per mount, in the runtime directory.

    /run/offsetfs/0-57-4711.json                 of root; named by the mount's device number and the pid
    $XDG_RUNTIME_DIR/offsetfs/0-57-4711.json     of a user; /tmp/offsetfs-<uid>/ when there is no such directory

The daemon writes it when the mount answers and removes it at the end; one that could not save everything leaves it,
with what failed; while it ends it says there what is left to do. Nothing of this has to survive the machine, so
nothing is synced. A pid alone proves nothing, so the file also holds when the process started. A device number is given
anew as soon as a mount is gone, perhaps before its daemon has ended: so each daemon has a file of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from offsetfs.fs.mounting.mount_table import Mount
from offsetfs.storage import files


@dataclass(frozen=True, slots=True)
class Daemon:
    """A process and the mount it serves. `started`: clock ticks after boot.

    `failures`: sentences, once it ended. `ending`: what is left to do, while it ends.
    """

    pid: int
    started: int
    device: int
    mount_point: str
    directory: str
    options: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    ending: str = ""
    directories: tuple[str, ...] = ()
    """The paths of the log directories, of which `directory` is the list with commas."""

    @property
    def since_s(self) -> float:
        """When the process started, in seconds since 1970; right to a second."""
        return _booted_s() + self.started / os.sysconf("SC_CLK_TCK")

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


def _booted_s() -> float:
    with open("/proc/stat", "rb") as lines:
        return next((float(line.split()[1]) for line in lines if line.startswith(b"btime ")), 0.0)


def directory(uid: int, environment: Mapping[str, str]) -> str:
    """Return where daemons of `uid` are registered."""
    if uid == 0:
        return "/run/offsetfs"
    runtime = environment.get("XDG_RUNTIME_DIR")
    return os.path.join(runtime, "offsetfs") if runtime else os.path.join(tempfile.gettempdir(), f"offsetfs-{uid}")


def own_directory() -> str:
    """Return where daemons of this user are registered."""
    return directory(os.geteuid(), os.environ)


def register(daemon: Daemon, place: str) -> None:
    """Write the file of `daemon`. OSError when `place` is another user's, who could change it."""
    make_own(place)
    for other in _of_device(daemon.device, place):
        if not other.is_alive:  # its mount is gone: the number is ours now
            unregister(other, place)
    _replace(_path(daemon, place), json.dumps(dataclasses.asdict(daemon), indent=1).encode() + b"\n")


def make_own(place: str) -> None:
    """Make the directory for daemons of ours if it is missing; OSError when it is not ours alone."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, 0o700)
    _check_own(place)


def unregister(daemon: Daemon, place: str) -> None:
    """Remove the file of a daemon; nothing when there is none."""
    with contextlib.suppress(OSError):
        os.unlink(_path(daemon, place))


def find(device: int, place: str, owner: int | None = None) -> Daemon | None:
    """Return what is known about the daemon of the mount with this st_dev; `owner` of the place, ours if left out.

    One that lives comes before one that died, and before one that still ends: its mount is gone, and the number is
    another's.
    """
    try:
        _check_own(place, owner)
        known = _of_device(device, place)
    except OSError:
        return None
    return max(known, key=lambda daemon: (daemon.is_alive, not daemon.ending, daemon.started), default=None)


def reread(daemon: Daemon, place: str) -> Daemon | None:
    """Return what the file of `daemon` says now; None when it has removed it, having saved everything."""
    return _read(_path(daemon, place))


def serving(mount: Mount) -> tuple[Daemon, str] | None:
    """Return the daemon of a mount and where it is registered: of a mount of this user, and for root of any user.

    A user's file is used only where the process it names belongs to that user: it could name any other.
    """
    for place, owner in _places(mount):
        daemon = find(mount.device, place, owner)
        if daemon is not None and (not daemon.is_alive or _owner_of(daemon.pid) == owner):
            return daemon, place
    return None


def _places(mount: Mount) -> Iterator[tuple[str, int]]:
    """Yield where the daemon of `mount` can be registered, and which user that is."""
    own = os.geteuid()
    yield own_directory(), own
    if own == 0 and mount.owner:
        yield f"/run/user/{mount.owner}/offsetfs", mount.owner
        yield os.path.join(tempfile.gettempdir(), f"offsetfs-{mount.owner}"), mount.owner


def _owner_of(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _of_device(device: int, place: str) -> list[Daemon]:
    beginning = f"{os.major(device)}-{os.minor(device)}-"
    paths = [os.path.join(place, name) for name in os.listdir(place) if name.startswith(beginning)]
    return [daemon for daemon in map(_read, paths) if daemon is not None]


def _read(path: str) -> Daemon | None:
    try:
        content = json.loads(files.read_file(path, 1 << 20))
        return Daemon(
            int(content["pid"]),
            int(content["started"]),
            int(content["device"]),
            str(content["mount_point"]),
            str(content["directory"]),
            {str(name): str(value) for name, value in content["options"].items()},
            tuple(str(each) for each in content["failures"]),
            str(content.get("ending", "")),
            tuple(str(each) for each in content.get("directories", ())),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _replace(path: str, data: bytes) -> None:
    """Put `data` in the place of `path`, whole for every reader."""
    temporary = path + ".tmp"
    with contextlib.suppress(FileNotFoundError):  # of a daemon that was killed, or planted
        os.unlink(temporary)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def _path(daemon: Daemon, place: str) -> str:
    return os.path.join(place, f"{os.major(daemon.device)}-{os.minor(daemon.device)}-{daemon.pid}.json")


def _check_own(place: str, owner: int | None = None) -> None:
    status = os.lstat(place)
    is_own = status.st_uid == (os.geteuid() if owner is None else owner) and not stat.S_IMODE(status.st_mode) & 0o022
    if not stat.S_ISDIR(status.st_mode) or not is_own:
        raise PermissionError(1, "is not a directory of ours alone", place)
