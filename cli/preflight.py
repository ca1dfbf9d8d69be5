"""What can be known to be wrong before anything is mounted, each as one sentence with its exit code.

Nothing here changes anything. What passes may still fail: the lock is taken, and the log recovered, by the daemon.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from offsetfs.cli import expiring, running
from offsetfs.cli.exit_codes import SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.served import daemon_of, user_name
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, mount_at, mount_holding, resolved
from offsetfs.fs.options import MountOptions
from offsetfs.storage.counted import counted
from offsetfs.storage.directory.directory_listing import check_log_directory
from offsetfs.storage.errors import InvalidName, NotALogDirectory
from offsetfs.storage.names import TopicPartition, parse_segment_name

FUSE_DEVICE = "/dev/fuse"
FUSE_CONFIG = "/etc/fuse.conf"
CAPABILITIES = "/proc/self/status"
CAP_SYS_ADMIN = 1 << 21
NOT_PERMITTED = (
    "this process may not mount: CAP_SYS_ADMIN is missing; start the container with --cap-add SYS_ADMIN (and "
    "--security-opt apparmor=unconfined where AppArmor is in use), or do without a mount: offsetfs ls, cat, follow and "
    "append show the same tree"
)
AUTOMOUNT_TYPE = "autofs"
"""Of a place that is mounted at its first use, by systemd's x-systemd.automount or the automounter."""

WARNINGS_MAX = 5
SIGNS = (
    *("meta.properties", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"),
    *(".kafka_cleanshutdown", ".offsetfs-topics.json"),
)
"""Files that say of a directory that it is a log directory."""
_PARTITION_FILES = ("partition.metadata", "leader-epoch-checkpoint")
_NEUTRAL = (".lock", "lost+found")
_LEAVING = ("-delete", "-stray", "-future")  # Kafka's suffixes of partitions on their way out, or in


@dataclass(frozen=True, slots=True)
class Checked:
    """The log directories that can be served, those that are left out and why, and warnings about the former."""

    paths: list[str]
    left_out: dict[str, Exception]
    warnings: list[str]


def check(log_directories: Sequence[str], mount_point: str, options: MountOptions) -> Checked:
    """Raise `Failure` when the mount cannot succeed; return what can be mounted, with warnings."""
    check_mount_point(mount_point)
    for path in log_directories:
        check_apart(path, mount_point)
    checked = check_directories(log_directories, read_only=options.read_only, may_be_empty=options.create)
    checked.warnings.extend(hidden_entries(mount_point))
    if not options.read_only:
        for path in checked.paths:
            checked.warnings.extend(expiring.warnings(path, options))
    check_fuse(FUSE_DEVICE)
    check_capability(CAPABILITIES)
    if options.allow_other and os.geteuid() != 0:
        check_allow_other(FUSE_CONFIG)
    return checked


def check_directories(paths: Sequence[str], *, read_only: bool, may_be_empty: bool) -> Checked:
    """Check each log directory. `Failure` when there is only one, or none of them can be served.

    An empty directory among several is left out, unless partitions may be made in it.
    """
    checked, failures = Checked([], {}, []), []
    for path in paths:
        try:
            warnings = check_directory(path, read_only=read_only, may_be_empty=may_be_empty)
        except Failure as failure:
            failures.append(failure)
            cause = failure.__cause__
            checked.left_out[path] = cause if isinstance(cause, NotALogDirectory) else failure
            continue
        checked.paths.append(path)
        checked.warnings.extend(warnings)
    if not checked.paths:
        raise failures[0]
    return checked


def check_mount_point(path: str) -> None:
    """An existing directory, at which nothing is mounted yet but what waits for us to."""
    mounted = mount_at(path)
    if mounted is not None and mounted.type != AUTOMOUNT_TYPE:
        served = running.serving(mounted) if mounted.type == FILE_SYSTEM_TYPE else None
        if served is not None and not served[0].is_alive:
            raise Failure(f"{path}: the daemon of this mount is gone: offsetfs umount {path}")
        if served is not None:
            raise Failure(f"{path}: {served[0].directory} is mounted there already, by process {served[0].pid}")
        raise Failure(f"{path}: something is mounted there already ({mounted.type})")
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise Failure(f"{path}: no such directory to mount at: create it with mkdir", WRONG_CALL) from None
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}", WRONG_CALL) from error
    if not stat.S_ISDIR(status.st_mode):
        raise Failure(f"{path}: is not a directory", WRONG_CALL)


def check_directory(path: str, *, read_only: bool, may_be_empty: bool) -> list[str]:
    """A log directory that we may read and, unless `read_only`, write.

    `/etc/dbus-1` is a legal name of a partition. So where nothing says that this is a log directory, one of them has
    to hold a segment; and what is named like a partition and holds other things must not be opened for writing.
    """
    check_not_mounted(path)
    needed = os.R_OK | os.X_OK | (0 if read_only else os.W_OK)
    if os.path.isdir(path) and not read_only:
        _check_writable(path)
    if os.path.isdir(path) and not os.access(path, needed):
        owner = user_name(os.stat(path).st_uid)
        wanted = "read" if read_only else "read and write"
        raise Failure(f"{path}: no permission to {wanted} it; it belongs to user {owner}", WRONG_CALL)
    try:
        check_log_directory(path, read_only=False)
    except NotALogDirectory as error:
        raise Failure(str(error), WRONG_CALL) from error
    entries = os.listdir(path)
    if not may_be_empty and all(name in _NEUTRAL for name in entries):
        raise Failure(f"{path}: is empty{_how_to_begin(path, read_only)}", WRONG_CALL)
    directories = sorted(name for name in entries if _is_directory(os.path.join(path, name)))
    _check_partitions(path, [name for name in directories if _is_partition(name)], read_only)
    if not any(name in SIGNS for name in entries) and not all(name in _NEUTRAL for name in entries):
        _check_any_segment(path, [name for name in directories if _is_partition(name)])
    return _warnings(path, [name for name in directories if not _is_known(name)])


def check_not_mounted(path: str) -> None:
    """`Failure` where `path` is a mount of offsetfs, or in one: it shows a log directory and is none."""
    mount = mount_holding(path)
    if mount is None:
        return
    served = running.serving(mount)
    known = served[0].directory if served is not None else mount.source
    name = f": give its log directory, {known}" if known.startswith("/") else ""
    place = "is" if resolved(path) == mount.path else "is in"
    raise Failure(f"{path}: {place} an offsetfs mount, not a log directory{name}", WRONG_CALL)


def _check_writable(path: str) -> None:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise Failure(
            f"{path}: its file system is read-only: remount that for writing, or only read "
            "(offsetfs mount -o ro, ls, cat, verify)",
            WRONG_CALL,
        )


def hidden_entries(mount_point: str) -> list[str]:
    """Return a warning where the mount hides files. A place that an automounter serves is not looked into."""
    if mount_at(mount_point) is not None:
        return []
    try:
        count = len(os.listdir(mount_point))
    except OSError:
        return []
    if not count:
        return []
    return [f"{mount_point}: is not empty; the mount hides {counted(count, 'entry', 'entries')} until it is unmounted"]


def _how_to_begin(path: str, read_only: bool) -> str:
    daemon = daemon_of(path)
    if daemon is not None:
        return f": it is mounted at {daemon.mount_point} by process {daemon.pid}, where partitions can be made"
    return "" if read_only else ": mount it with -o create to begin a log directory"


def _check_partitions(path: str, partitions: list[str], read_only: bool) -> None:
    """Refuse a directory that has none but directories of others; beside real partitions they are damaged ones."""
    contents = {name: os.listdir(os.path.join(path, name)) for name in ([] if read_only else partitions)}
    if any(_is_segment(entry) for content in contents.values() for entry in content):
        return
    for name, content in contents.items():
        if content and not any(_belongs_to_partition(entry) for entry in content):
            raise Failure(f"{path}/{name} is named like a partition and holds none: move it, or use -o ro", WRONG_CALL)


def _check_any_segment(path: str, partitions: list[str]) -> None:
    for name in partitions:
        if any(parse_segment_name(entry) for entry in os.listdir(os.path.join(path, name))):
            return
    raise Failure(f"{path}: is not a log directory: no partition in it holds a segment", WRONG_CALL)


def _is_segment(name: str) -> bool:
    parsed = parse_segment_name(name)
    return parsed is not None and parsed[1] == ".log"


def _belongs_to_partition(name: str) -> bool:
    return name in _PARTITION_FILES or parse_segment_name(name) is not None


def _warnings(path: str, strangers: list[str]) -> list[str]:
    shown = [f"{path}: {name} is not a partition and is not shown" for name in strangers[:WARNINGS_MAX]]
    more = len(strangers) - len(shown)
    return shown + ([f"{path}: {more} more directories are not partitions"] if more else [])


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _is_known(name: str) -> bool:
    return name.startswith(".") or name in _NEUTRAL or name.endswith(_LEAVING) or _is_partition(name)


def _is_partition(name: str) -> bool:
    try:
        TopicPartition.parse(name)
    except InvalidName:
        return False
    return True


def check_apart(log_directory: str, mount_point: str) -> None:
    """Neither lies within the other: the mount would hide its own log, or show itself in it."""
    log, mount = os.path.realpath(log_directory), os.path.realpath(mount_point)
    if log == mount:
        raise Failure(f"{mount_point} is the log directory itself: mount it elsewhere", WRONG_CALL)
    if mount.startswith(log.rstrip("/") + "/"):
        raise Failure(f"{mount_point} lies in the log directory {log_directory}: mount it elsewhere", WRONG_CALL)
    if log.startswith(mount.rstrip("/") + "/"):
        raise Failure(f"the log directory {log_directory} lies in {mount_point}, which would hide it", WRONG_CALL)


def check_fuse(device: str) -> None:
    """The kernel offers FUSE, and we may use it: directly as root, else through fusermount3."""
    if not os.path.exists(device):
        raise Failure(
            f"there is no {device}: load the module (modprobe fuse), give the container it, or do without a mount: "
            "offsetfs ls, cat, follow and append show the same tree",
            SYSTEM,
        )
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        raise Failure("there is no fusermount3, which mounts for users: install the package fuse3", SYSTEM)
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        raise Failure(f"{device}: {error.strerror}", WRONG_CALL) from error


def check_capability(status_file: str) -> None:
    """Root may mount; in a container it often may not, and mount(2) says only that it is not permitted."""
    if os.geteuid() != 0:
        return
    with open(status_file) as lines:
        effective = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), CAP_SYS_ADMIN)
    if not effective & CAP_SYS_ADMIN:
        raise Failure(NOT_PERMITTED, SYSTEM)


def check_allow_other(configuration: str) -> None:
    """A user may let others in only where the administrator agreed."""
    try:
        with open(configuration) as lines:
            allowed = any(line.strip() == "user_allow_other" for line in lines)
    except OSError:
        allowed = False
    if not allowed:
        raise Failure(f"allow_other needs the line user_allow_other in {configuration}", WRONG_CALL)
