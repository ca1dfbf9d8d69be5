"""Checks before a mount, and before a command writes to a log directory. Each failed check is a `Failure`.

The checks change nothing. A mount may still fail afterwards, because the daemon takes the lock and recovers the log.
"""

from __future__ import annotations

import errno
import grp
import importlib.util
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.cli.arguments.archives import READ_ONLY, attached, is_archive
from offsetfs.cli.exit_codes import SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.mounts import daemon_registry
from offsetfs.cli.mounts.serving_daemon import daemon_of, owner_remedy
from offsetfs.common.extras import install_command
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, mount_at, mount_holding, resolved
from offsetfs.storage import TopicPartition
from offsetfs.storage.directory import (
    MARKER_FILES,
    MIRROR_FILE,
    check_log_directory,
    has_meta_properties,
    split_paths,
)
from offsetfs.storage.errors import NotALogDirectory, counted
from offsetfs.storage.segments import parse_segment_name

if TYPE_CHECKING:  # a command that mounts nothing does without them
    from offsetfs.fs.options import MountOptions

FUSE_DEVICE = "/dev/fuse"
FUSE_CONFIG = "/etc/fuse.conf"
CAPABILITIES = "/proc/self/status"
CAP_SYS_ADMIN = 1 << 21
WITHOUT_MOUNT = "work without a mount: offsetfs ls, cat, follow and append show the same tree"
NOT_PERMITTED = (
    "this process may not mount: CAP_SYS_ADMIN is missing; start the container with --cap-add SYS_ADMIN (and "
    f"--security-opt apparmor=unconfined if AppArmor is in use), or {WITHOUT_MOUNT}"
)
AUTOMOUNT_TYPE = "autofs"
"""The type of a mount point that systemd's x-systemd.automount or automount(8) mounts at its first use."""

WARNINGS_MAX = 5
_PARTITION_FILES = ("partition.metadata", "leader-epoch-checkpoint")
_IGNORED_ENTRIES = (".lock", "lost+found")
_REMOTE_INDEX_CACHE = "remote-log-index-cache"  # Kafka's RemoteIndexCache, beside the partitions
_TRANSIENT_SUFFIXES = ("-delete", "-stray", "-future")  # Kafka's suffixes of partitions that are being deleted or moved


@dataclass(frozen=True, slots=True)
class CheckedDirectories:
    """The result of the checks: paths that can be served, paths that are left out with the reason, and warnings."""

    paths: list[str]
    left_out: dict[str, Exception]
    warnings: list[str]


def check(log_directories: Sequence[str], mount_point: str, options: MountOptions) -> CheckedDirectories:
    """Check everything that a mount needs; return the directories that can be mounted, with warnings. Or `Failure`."""
    warnings = check_mount(mount_point, options, log_directories)
    if options.listeners and len(log_directories) > 1:
        raise Failure("-o listen= serves one log directory; leave it out, or mount one of them", WRONG_CALL)
    may_be_empty = options.create or (bool(options.listeners) and not options.read_only)
    checked = check_directories(log_directories, read_only=options.read_only, may_be_empty=may_be_empty)
    checked.warnings.extend(warnings)
    if not options.read_only:
        from offsetfs.cli.mounts import retention_warnings

        for path in checked.paths:
            checked.warnings.extend(retention_warnings.warnings(path, options))
    return checked


def check_mount(mount_point: str, options: MountOptions, log_directories: Sequence[str] = ()) -> list[str]:
    """Check the mount point, for these directories, and the permission to mount; return warnings. Or `Failure`."""
    check_descriptors()
    check_mount_point(mount_point)
    check_pyfuse3()
    check_fuse(FUSE_DEVICE)
    check_capability(CAPABILITIES)
    if options.allow_other and os.geteuid() != 0:
        check_allow_other(FUSE_CONFIG)
    for path in log_directories:
        check_not_nested(path, mount_point)
    return hidden_entries(mount_point)


def check_directories(paths: Sequence[str], *, read_only: bool, may_be_empty: bool) -> CheckedDirectories:
    """Check each log directory. `Failure` if none can be served; otherwise those that cannot are left out.

    `may_be_empty`: whether an empty directory can be served, because partitions may be created in it.
    """
    checked, failures = CheckedDirectories([], {}, []), []
    for path in paths:
        try:
            may_begin = may_be_empty and not read_only
            warnings = check_directory(path, read_only=read_only, may_be_empty=may_be_empty, may_begin=may_begin)
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


def check_descriptors() -> None:
    """Raise the limit of open files as far as this process may. `Failure` if that is not enough for a server."""
    from offsetfs.fs.mounting import descriptor_limits

    limit = descriptor_limits.raise_limit()
    if limit < descriptor_limits.MINIMUM:
        cause = f"{limit} open files are allowed, and at least {descriptor_limits.MINIMUM} are needed"
        raise Failure(f"{cause}; raise the limit, for example with ulimit -n 1024", SYSTEM)


def check_mount_point(path: str) -> None:
    """Check that `path` is a directory where nothing is mounted, except an automounter."""
    mounted = mount_at(path)
    if mounted is not None and mounted.type != AUTOMOUNT_TYPE:
        served = daemon_registry.serving(mounted) if mounted.type == FILE_SYSTEM_TYPE else None
        if served is not None and not served[0].is_alive:
            raise Failure(f"{path}: the daemon of this mount has ended; remove the mount: offsetfs umount {path}")
        if served is not None:
            raise Failure(f"{path}: {served[0].directory} is already mounted there, by process {served[0].pid}")
        raise Failure(f"{path}: another file system is already mounted there ({mounted.type})")
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise Failure(f"{path}: the mount point does not exist: create it with mkdir", WRONG_CALL) from None
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}", WRONG_CALL) from error
    if not stat.S_ISDIR(status.st_mode):
        raise Failure(f"{path}: is not a directory", WRONG_CALL)


def check_directory(path: str, *, read_only: bool, may_be_empty: bool, may_begin: bool = False) -> list[str]:
    """Check that `path` is a log directory with the permissions to read and, unless `read_only`, to write it.

    `/etc/dbus-1` is a valid partition name. Therefore a directory without marker files must contain a segment, and a
    directory that is named like a partition but contains other files must not be opened for writing.

    `may_be_empty`: whether an empty directory is accepted. `may_begin`: whether the command can make partitions in it,
    so that a message about another directory suggests an empty one.

    Return warnings. `Failure` if a check fails.
    """
    if is_archive(path):
        return _check_archive(path, read_only=read_only)
    check_single(path)
    check_not_mounted(path)
    needed = os.R_OK | os.X_OK | (0 if read_only else os.W_OK)
    if os.path.isdir(path) and not read_only:
        _check_writable(path)
    if os.path.isdir(path) and not os.access(path, needed):
        wanted = "read" if read_only else "read and write"
        raise Failure(f"{path}: no permission to {wanted} it; {owner_remedy(os.stat(path).st_uid)}", WRONG_CALL)
    try:
        check_log_directory(path, read_only=False)
    except NotALogDirectory as error:
        raise not_a_log_directory(error, may_begin=may_begin) from error
    entries = os.listdir(path)
    if not may_be_empty and all(name in _IGNORED_ENTRIES for name in entries):
        raise Failure(f"{path}: is empty{_empty_directory_hint(path, read_only)}", WRONG_CALL)
    directories = sorted(name for name in entries if _is_directory(os.path.join(path, name)))
    _check_partitions(path, [name for name in directories if TopicPartition.parse_or_none(name)], read_only)
    if not any(name in MARKER_FILES for name in entries) and not all(name in _IGNORED_ENTRIES for name in entries):
        _check_any_segment(path, [name for name in directories if TopicPartition.parse_or_none(name)])
    return _warnings(path, [name for name in directories if not _is_known(name)])


def not_a_log_directory(error: NotALogDirectory, code: int = WRONG_CALL, *, may_begin: bool = False) -> Failure:
    """Return the failure for a path that is no log directory; `may_begin` as in `check_directory`."""
    if ";" in str(error):  # the remedy
        return Failure(str(error), code)
    if error.path and "://" in error.path:
        return Failure(f"{error.path}: {_no_archive(error.path)}", code)
    return Failure(f"{error}; give a log directory{', or an empty one' if may_begin else ''}", code)


def _no_archive(url: str) -> str:
    from offsetfs.archive import urls

    if url.startswith("kafka://"):
        return "is a cluster; mount it, or copy its topics with offsetfs mirror"
    return f"is not the URL of an archive; their schemes are {', '.join(urls.PACKAGES)}"


def is_empty_or_missing(path: str) -> bool:
    """Whether `path` has nothing of a log, so that a command may begin one there."""
    if is_archive(path) or not os.path.isdir(path):
        return not is_archive(path) and not os.path.lexists(path)
    return all(name in _IGNORED_ENTRIES for name in os.listdir(path))


def make_missing(path: str) -> bool:
    """Create the log directory of a command that puts topics into it, if it is missing. Return whether it was.

    Parents are not created, because they may be a typing error: `Failure`.
    """
    if is_archive(path) or os.path.lexists(path):
        return False
    check_parent(path)
    os.mkdir(path)
    return True


def check_parent(path: str) -> None:
    """Check that the directory of a log directory that will be created exists. `Failure`."""
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise Failure(f"{parent}: there is no such directory; create it with mkdir", WRONG_CALL)


def check_single(path: str) -> None:
    """Check that LOGDIR of a command that takes one log directory is not a list. `Failure`."""
    several = split_paths(path)
    if len(several) > 1:
        cause = f"{path}: names {len(several)} log directories, and this command takes one"
        raise Failure(f"{cause}; run it for each", WRONG_CALL)


def check_mirror(path: str) -> None:
    """Check that a directory can be that of a mirror. `Failure`.

    The directory of a broker cannot: the broker removes topics that its cluster does not know.
    """
    check_directory(path, read_only=False, may_be_empty=True, may_begin=True)
    if has_meta_properties(path) and not os.path.exists(os.path.join(path, MIRROR_FILE)):
        raise Failure(
            f"{path}: is the log directory of a Kafka broker (it has meta.properties), and no mirror; give a new "
            "directory, or that of a mirror",
            WRONG_CALL,
        )


def _check_archive(path: str, *, read_only: bool) -> list[str]:
    if not read_only:
        raise Failure(f"{path}: {READ_ONLY}", WRONG_CALL)
    try:
        check_log_directory(attached(path), read_only=True)
    except NotALogDirectory as error:
        raise Failure(str(error), WRONG_CALL) from error
    return []


def check_not_mounted(path: str) -> None:
    """`Failure` if `path` is an offsetfs mount or in one: a mount shows a log directory, but is not one."""
    if is_archive(path):
        return
    mount = mount_holding(path)
    if mount is None:
        return
    served = daemon_registry.serving(mount)
    known = served[0].directory if served is not None else mount.source
    name = f": give its log directory, {known}" if known.startswith("/") else ""
    relation = "is" if resolved(path) == mount.path else "is in"
    raise Failure(f"{path}: {relation} an offsetfs mount, not a log directory{name}", WRONG_CALL)


def _check_writable(path: str) -> None:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise Failure(
            f"{path}: its file system is read-only: remount it for writing, or use commands that only read "
            "(offsetfs mount -o ro, serve --read-only, ls, cat, verify)",
            WRONG_CALL,
        )


def hidden_entries(mount_point: str) -> list[str]:
    """Return a warning if the mount would hide files. `Failure` if it would hide a log directory."""
    if mount_at(mount_point) is not None:
        return []  # an automounter: listing its directory would trigger the mount
    if _is_log_directory(mount_point):
        raise Failure(
            f"{mount_point}: is a log directory, which the mount would hide; write offsetfs mount LOGDIR MNT, with the "
            "mount point last",
            WRONG_CALL,
        )
    try:
        count = len(os.listdir(mount_point))
    except OSError:
        return []
    if not count:
        return []
    return [f"{mount_point}: is not empty; the mount hides {counted(count, 'entry', 'entries')} until it is unmounted"]


def _is_log_directory(path: str) -> bool:
    try:
        check_log_directory(path, read_only=True)
        names = os.listdir(path)
        if any(name in MARKER_FILES for name in names):
            return True
        partitions = [name for name in names if TopicPartition.parse_or_none(name) is not None]
        return any(_is_segment(entry) for name in partitions for entry in os.listdir(os.path.join(path, name)))
    except (NotALogDirectory, OSError):
        return False


def _empty_directory_hint(path: str, read_only: bool) -> str:
    daemon = daemon_of(path)
    if daemon is not None:
        return f": it is mounted at {daemon.mount_point} by process {daemon.pid}; create partitions there"
    return "" if read_only else ": to start a new log directory, mount it with -o create, or use offsetfs create"


def _check_partitions(path: str, partitions: list[str], read_only: bool) -> None:
    """`Failure` if no partition has a segment and one contains foreign files.

    Beside a real partition, such a directory counts as a damaged partition.
    """
    contents = {name: os.listdir(os.path.join(path, name)) for name in ([] if read_only else partitions)}
    if any(_is_segment(entry) for content in contents.values() for entry in content):
        return
    for name, content in contents.items():
        if content and not any(_belongs_to_partition(entry) for entry in content):
            raise Failure(
                f"{path}/{name}: is named like a partition, but contains other files: move it, or use -o ro", WRONG_CALL
            )


def _check_any_segment(path: str, partitions: list[str]) -> None:
    for name in partitions:
        if any(parse_segment_name(entry) for entry in os.listdir(os.path.join(path, name))):
            return
    raise Failure(f"{path}: is not a log directory: none of its partitions contains a segment", WRONG_CALL)


def _is_segment(name: str) -> bool:
    parsed = parse_segment_name(name)
    return parsed is not None and parsed[1] == ".log"


def _belongs_to_partition(name: str) -> bool:
    return name in _PARTITION_FILES or parse_segment_name(name) is not None


def _warnings(path: str, unknown: list[str]) -> list[str]:
    shown = [f"{path}: {name} is not a partition and is not shown" for name in unknown[:WARNINGS_MAX]]
    more = len(unknown) - len(shown)
    return shown + ([f"{path}: {more} more directories are not partitions"] if more else [])


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _is_known(name: str) -> bool:
    if name.startswith(".") or name in (*_IGNORED_ENTRIES, _REMOTE_INDEX_CACHE):
        return True
    return name.endswith(_TRANSIENT_SUFFIXES) or TopicPartition.parse_or_none(name) is not None


def check_not_nested(log_directory: str, mount_point: str) -> None:
    """Check that neither path contains the other: the mount would hide its own log, or contain itself."""
    log, mount = os.path.realpath(log_directory), os.path.realpath(mount_point)
    if log == mount:
        raise Failure(f"{mount_point} is the log directory itself: mount it elsewhere", WRONG_CALL)
    if mount.startswith(log.rstrip("/") + "/"):
        raise Failure(f"{mount_point} is in the log directory {log_directory}: mount it elsewhere", WRONG_CALL)
    if log.startswith(mount.rstrip("/") + "/"):
        raise Failure(f"{mount_point} contains the log directory {log_directory}: mount it elsewhere", WRONG_CALL)


def check_pyfuse3() -> None:
    """Check that the extra `mount` is installed. It is none of the base, since pip compiles it against libfuse."""
    if importlib.util.find_spec("pyfuse3") is None:
        raise Failure(
            "pyfuse3 is not installed, which only mounting needs: apt-get install fuse3 libfuse3-dev pkg-config gcc "
            f"python3-dev; then {install_command('mount')}; or work without a mount: offsetfs ls, cat, follow and "
            "append show the same tree",
            SYSTEM,
        )


def check_fuse(device: str) -> None:
    """Check that the kernel offers FUSE, and that this user may use it: root directly, others with fusermount3."""
    if not os.path.exists(device):
        raise Failure(
            f"{device} does not exist: load the module (modprobe fuse), start the container with --device {device}, or "
            f"{WITHOUT_MOUNT}",
            SYSTEM,
        )
    import shutil

    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        raise Failure("fusermount3 is missing, which mounts for users: install the package fuse3", SYSTEM)
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        raise Failure(f"{device}: {error.strerror}; {_device_remedy(device, error)}", WRONG_CALL) from error


def _device_remedy(device: str, error: OSError) -> str:
    status = os.stat(device)
    if error.errno == errno.EPERM:  # of the control group, not of the file
        remedy = f"start the container with --device {device}"
    elif status.st_mode & stat.S_IWGRP and status.st_gid != 0:
        remedy = f"add this user to group {_group_name(status.st_gid)} (usermod -aG)"
    else:
        remedy = f"let all users open it (chmod 666 {device})"
    return f"{remedy}, or {WITHOUT_MOUNT}"


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def check_capability(status_file: str) -> None:
    """Check that root has CAP_SYS_ADMIN; in containers it is often missing, and mount(2) returns only EPERM."""
    if os.geteuid() != 0:
        return
    with open(status_file) as lines:
        effective = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), CAP_SYS_ADMIN)
    if not effective & CAP_SYS_ADMIN:
        raise Failure(NOT_PERMITTED, SYSTEM)


def check_allow_other(configuration: str) -> None:
    """Check that fuse.conf permits allow_other for users."""
    try:
        with open(configuration) as lines:
            allowed = any(line.strip() == "user_allow_other" for line in lines)
    except OSError:
        allowed = False
    if not allowed:
        raise Failure(f"allow_other needs the line user_allow_other in {configuration}", WRONG_CALL)
