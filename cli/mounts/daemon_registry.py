"""The registry of daemons: a small file per mount, in the runtime directory, names the process that serves it.

    /run/offsetfs/0-57-4711.json                 of root; named by the device number of the mount and the pid
    $XDG_RUNTIME_DIR/offsetfs/0-57-4711.json     of a user; /tmp/offsetfs-<uid>/ if there is no such directory

The daemon writes its file when the mount answers, and removes it when it ends. While it ends, the file contains what
is left to do. If some records could not be saved, the file stays and contains the errors. No file is synced, because
the registry is not needed after a restart of the machine.

A pid is reused, so the file also contains the start time of the process. A device number is reused as soon as a mount
is gone, possibly before its daemon has ended. Therefore each daemon has a file of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from offsetfs.fs.mounting.mount_table import Mount, mounts
from offsetfs.storage import files


@dataclass(frozen=True, slots=True)
class Daemon:
    """A process and the mount that it serves. `started`: clock ticks between boot and start of the process.

    `failures`: error messages, after it ended. `ending`: what is left to do, while it ends.
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
    """The paths of the log directories; `directory` is the same list, separated by commas."""
    page: str = ""
    """The address of its page, with the token; "" without one."""

    @property
    def since_s(self) -> float:
        """The time at which the process started, in seconds since 1970, accurate to a second."""
        import psutil  # here, because only `offsetfs status` needs it

        return psutil.boot_time() + self.started / os.sysconf("SC_CLK_TCK")

    @property
    def is_alive(self) -> bool:
        """Whether this process still runs; false if another process has got its pid."""
        return started(self.pid) == self.started


def started(pid: int) -> int | None:
    """Return when process `pid` started, in clock ticks after boot; None if there is no such process.

    Not `psutil.Process.create_time`: it adds the boot time, which changes when the clock of the machine is set, and a
    running daemon would then look like another process.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    state, *fields = text[text.rindex(b")") + 2 :].split()
    return None if state in b"ZX" else int(fields[18])  # field 22; a zombie has ended


def directory(uid: int, environment: Mapping[str, str]) -> str:
    """Return the registry of the daemons of user `uid`."""
    if uid == 0:
        return "/run/offsetfs"
    runtime = environment.get("XDG_RUNTIME_DIR")
    return os.path.join(runtime, "offsetfs") if runtime else _temporary(uid)


def own_directory() -> str:
    """Return the registry of the daemons of this user."""
    return directory(os.geteuid(), os.environ)


def register(daemon: Daemon, registry: str) -> None:
    """Write the file of `daemon`. OSError if another user could change files of `registry`."""
    create_own(registry)
    _remove_dead(daemon, registry)
    replace_file(_path(daemon, registry), json.dumps(dataclasses.asdict(daemon), indent=1).encode() + b"\n")


def _remove_dead(daemon: Daemon, registry: str) -> None:
    """Remove the files of daemons that were killed and whose mount is gone. What a daemon could not save stays."""
    mounted = {mount.device for mount in mounts()}
    for other in _all_of("", registry):
        is_reused = other.device == daemon.device  # the kernel has reused the device number of a mount that is gone
        if not other.is_alive and (is_reused or (other.device not in mounted and not other.failures)):
            unregister(other, registry)


def create_own(registry: str) -> None:
    """Create the registry of this user if it is missing; OSError if another user could write to it."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(registry, 0o700)
    check_own(registry)


def unregister(daemon: Daemon, registry: str) -> None:
    """Remove the file of a daemon, if there is one."""
    with contextlib.suppress(OSError):
        os.unlink(_path(daemon, registry))


def find(device: int, registry: str, owner: int | None = None) -> Daemon | None:
    """Return the daemon of the mount with this st_dev. `owner`: of the registry, default this user.

    Several daemons may have registered this device number. A running one is preferred to one that died, and to one
    that is ending: the mount of an ending daemon is gone, and its number was reused.
    """
    try:
        check_own(registry, owner)
        known = _of_device(device, registry)
    except OSError:
        return None
    return max(known, key=lambda daemon: (daemon.is_alive, not daemon.ending, daemon.started), default=None)


def reread(daemon: Daemon, registry: str) -> Daemon | None:
    """Return the current content of the file of `daemon`; None if the daemon has saved everything and removed it."""
    return _read(_path(daemon, registry))


def serving(mount: Mount) -> tuple[Daemon, str] | None:
    """Return the daemon of a mount and its registry: for mounts of this user, and as root for mounts of all users.

    A file in the registry of a user is ignored if its process belongs to another user, because users can write any pid
    there.
    """
    for registry, owner in _registries(mount):
        daemon = find(mount.device, registry, owner)
        if daemon is not None and (not daemon.is_alive or owner_of(daemon.pid) == owner):
            return daemon, registry
    return None


def _registries(mount: Mount) -> Iterator[tuple[str, int]]:
    """Yield each registry that may contain the daemon of `mount`, and the user who owns it."""
    own = os.geteuid()
    yield own_directory(), own
    if own == 0 and mount.owner:
        for registry in directories_of(mount.owner):
            yield registry, mount.owner


def directories_of(uid: int) -> tuple[str, str]:
    """Return the registries in which daemons of another user may be."""
    return f"/run/user/{uid}/offsetfs", _temporary(uid)


def _temporary(uid: int) -> str:
    import tempfile  # 3 ms, and seldom needed

    return os.path.join(tempfile.gettempdir(), f"offsetfs-{uid}")


def owner_of(pid: int) -> int | None:
    """Return the user of a process; None if there is no such process."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _of_device(device: int, registry: str) -> list[Daemon]:
    return _all_of(f"{os.major(device)}-{os.minor(device)}-", registry)


def _all_of(prefix: str, registry: str) -> list[Daemon]:
    paths = [os.path.join(registry, name) for name in os.listdir(registry) if name.startswith(prefix)]
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
            tuple(str(failure) for failure in content["failures"]),
            str(content.get("ending", "")),
            tuple(str(path) for path in content.get("directories", ())),
            str(content.get("page", "")),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def replace_file(path: str, data: bytes) -> None:
    """Replace the file at `path` atomically: a reader sees the old content or the new one, never a part."""
    temporary = path + ".tmp"
    with contextlib.suppress(FileNotFoundError):  # of a daemon that was killed, or planted
        os.unlink(temporary)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def _path(daemon: Daemon, registry: str) -> str:
    return os.path.join(registry, f"{os.major(daemon.device)}-{os.minor(daemon.device)}-{daemon.pid}.json")


def check_own(registry: str, owner: int | None = None) -> None:
    """Raise OSError if a user other than `owner` (None: this one) could write to a registry."""
    status = os.lstat(registry)
    is_own = status.st_uid == (os.geteuid() if owner is None else owner) and not stat.S_IMODE(status.st_mode) & 0o022
    if not stat.S_ISDIR(status.st_mode) or not is_own:
        raise PermissionError(1, "is not a directory of ours alone", registry)
