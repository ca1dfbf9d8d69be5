"""`mount.offsetfs`: what mount(8), fstab and systemd call to mount a log directory.

    mount -t offsetfs LOGDIR MNT -o …  →  /sbin/mount.offsetfs LOGDIR MNT [-sfnv] [-N NS] [-o …] [-t TYPE]  →  here

Arguments and exit codes are those of mount(8); `cli/commands/mount.py` does the work. `offsetfs install-helper`
installs the script that runs this module (`python -m offsetfs.cli.mount_helper`).
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from typing import NoReturn

import click

from offsetfs.cli import preflight, run
from offsetfs.cli.arguments.archives import is_archive
from offsetfs.cli.arguments.log_directories import log_directories
from offsetfs.cli.commands import mount as mounting
from offsetfs.cli.exit_codes import DONE, SYSTEM, WRONG_CALL, Failure
from offsetfs.common.formatting import printable

NAME = "mount.offsetfs"
_GIVEN_BY_MOUNT = ("rw",)
"""mount(8) adds it where the user gives no `ro`. A mount of a cluster is read-only without it."""

_CLONE_NEWNS = 0x00020000
_LOADED_LATE = ("trio", "pyfuse3", "offsetfs.fs.mounting.mount")


@click.command(NAME, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("mount_point", metavar="MNT")
@click.option("-o", "texts", metavar="OPT[,OPT=...]", multiple=True, help="Mount options, see offsetfs mount.")
@click.option("-f", "is_fake", is_flag=True, help="Fake: check everything, mount nothing.")
@click.option("-s", "is_sloppy", is_flag=True, help="Ignore unknown options.")
@click.option("-v", "is_verbose", is_flag=True, help="Print what was done.")
@click.option("-n", "no_mtab", is_flag=True, help="Accepted and ignored: /etc/mtab is never written.")
@click.option("-N", "namespace", metavar="NS", help="Mount in this mount namespace: a pid, or a file like …/ns/mnt.")
@click.option("-t", "file_system_type", metavar="TYPE", help="The file system type; ignored.")
def command(
    log_directory: str,
    mount_point: str,
    texts: tuple[str, ...],
    is_fake: bool,
    is_sloppy: bool,
    is_verbose: bool,
    no_mtab: bool,
    namespace: str | None,
    file_system_type: str | None,
) -> int:
    """Mount the Kafka log directory LOGDIR, or a cluster (kafka://…), at MNT.

    mount(8) runs this program; users run mount(8) or offsetfs mount. It returns when the mount is ready: the log is
    open, and recovered if it was not closed cleanly. In fstab, write a blank in a path as \\040. Options for mount(8)
    and systemd are ignored.

    \b
    mount -t offsetfs /var/lib/kafka/data /mnt/kafka -o ro
    mount /mnt/kafka

    \b
    # /etc/fstab
    /var/lib/kafka/data /mnt/kafka offsetfs ro,_netdev,nofail,x-systemd.automount 0 0
    /srv/logs /mnt/logs offsetfs create,nofail,x-systemd.mount-timeout=10min 0 0
    /home/ann/logs /home/ann/mnt offsetfs noauto,user 0 0
    kafka://broker1:9092/ /mnt/kafka offsetfs topic=orders,cache=/srv/cache,_netdev,nofail 0 0

    umount(8) returns when the mount is gone, but the daemon may still be writing accepted records; offsetfs umount
    waits until everything is on disk. Options cannot be changed with -o remount: unmount it, and mount it again.

    Exit codes: 1 wrong call or permissions, 2 system error, 4 internal error, 8 interrupted, 32 mount failed.
    """
    if any("remount" in text.split(",") for text in texts):
        raise Failure(
            f"-o remount is not supported: unmount {mount_point}, and mount it again with the new options", WRONG_CALL
        )
    if log_directory.startswith(mounting.KAFKA_SCHEME):
        _mount_kafka(log_directory, mount_point, texts, namespace, is_fake=is_fake, is_sloppy=is_sloppy)
    elif is_archive(log_directory):
        _mount_archive(log_directory, mount_point, texts, namespace, is_fake=is_fake, is_sloppy=is_sloppy)
    else:
        _mount(log_directory, mount_point, texts, namespace, is_fake=is_fake, is_sloppy=is_sloppy)
    if is_verbose and not is_fake:
        click.echo(printable(f"{NAME}: {log_directory} mounted on {mount_point}"))
    return DONE


def _mount(
    log_directory: str,
    mount_point: str,
    texts: tuple[str, ...],
    namespace: str | None,
    *,
    is_fake: bool,
    is_sloppy: bool,
) -> None:
    paths = log_directories(log_directory)
    options = mounting.parse_options(texts, log_directory, sloppy=is_sloppy)
    if namespace is not None:
        enter(namespace)
    if is_fake:
        preflight.check(paths, mount_point, options)
    else:
        mounting.mount(NAME, paths, mount_point, options, foreground=False)


def _mount_kafka(
    url: str, mount_point: str, texts: tuple[str, ...], namespace: str | None, *, is_fake: bool, is_sloppy: bool
) -> None:
    source, options = mounting.kafka_options(url, texts, sloppy=is_sloppy, ignored=_GIVEN_BY_MOUNT)
    if namespace is not None:
        enter(namespace)
    if is_fake:
        preflight.check_mount(mount_point, options)
    else:
        mounting.mount_kafka(NAME, source, mount_point, options, foreground=False)


def _mount_archive(
    url: str, mount_point: str, texts: tuple[str, ...], namespace: str | None, *, is_fake: bool, is_sloppy: bool
) -> None:
    archive, options = mounting.archive_options(url, texts, sloppy=is_sloppy)
    if namespace is not None:
        enter(namespace)
    if is_fake:
        preflight.check_mount(mount_point, options)
    else:
        mounting.mount_archive(NAME, archive, mount_point, options, foreground=False)


def enter(namespace: str) -> None:
    """Enter the mount namespace of -N. Modules are imported before, because that namespace may have no Python."""
    for name in _LOADED_LATE:
        importlib.import_module(name)
    path = f"/proc/{namespace}/ns/mnt" if namespace.isdecimal() else namespace
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}", WRONG_CALL) from error
    with open(fd, "rb"):
        if libc.setns(fd, _CLONE_NEWNS) != 0:
            raise Failure(f"{path}: {os.strerror(ctypes.get_errno())}", SYSTEM)


def main() -> NoReturn:
    """Run the command line of this process, and exit with its code."""
    sys.exit(run(sys.argv[1:], command, NAME))


if __name__ == "__main__":
    main()
