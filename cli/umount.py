"""`offsetfs umount`: take the mount away, and wait until its daemon has everything on disk."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess

import click

from offsetfs.cli import running
from offsetfs.cli.exit_codes import DONE, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.holders import holders
from offsetfs.fs.mount_table import FILE_SYSTEM_TYPE, Mount, mount_at

PATIENCE_MS = 5_000  # after this long without an end, say what is being waited for
HOLDERS_SHOWN = 5


@click.command("umount", short_help="Unmount, and wait until everything is on disk.")
@click.argument("mount_point", metavar="MNT")
def command(mount_point: str) -> int:
    """Unmount MNT, and return when its daemon has written everything and ended.

    When the mount is busy it stays, and the processes that hold it are named.

    \b
    offsetfs umount /mnt/kafka

    Exit codes: 1 wrong call or permissions, 2 something could not be saved, 8 interrupted, 32 busy.
    """
    mount = mount_at(mount_point)
    if mount is None:
        raise Failure(f"{mount_point}: nothing is mounted there", WRONG_CALL)
    if mount.type != FILE_SYSTEM_TYPE:
        raise Failure(f"{mount_point}: is no mount of offsetfs ({mount.type})", WRONG_CALL)
    daemon = running.find(mount.device, running.own_directory())
    with contextlib.ExitStack() as stack:
        process = _process_of(daemon)
        if process is not None:
            stack.callback(os.close, process)
        _unmount(mount)
        if daemon is None:
            click.echo("offsetfs umount: warning: its daemon is not known, and not waited for", err=True)
        elif process is not None:
            _wait(process, daemon)
    if daemon is not None:
        _report(daemon)
    return DONE


def _process_of(daemon: running.Daemon | None) -> int | None:
    """Return a descriptor of the daemon's process, None when it has ended: a pid may mean somebody else by then."""
    if daemon is None:
        return None
    try:
        process = os.pidfd_open(daemon.pid)
    except OSError:
        return None
    if not daemon.is_alive:
        os.close(process)
        return None
    return process


def _unmount(mount: Mount) -> None:
    command = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
    result = subprocess.run([*command, "--", mount.path], capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return
    if mount_at(mount.path) is None:  # somebody else was faster
        return
    reason = " ".join(result.stderr.split())
    if "busy" not in reason:
        raise Failure(reason or f"{mount.path}: {command[0]} failed", WRONG_CALL)
    found = holders(mount.path, mount.device)
    shown = ", ".join(str(holder) for holder in found[:HOLDERS_SHOWN])
    more = f" and {len(found) - HOLDERS_SHOWN} more" if len(found) > HOLDERS_SHOWN else ""
    raise Failure(f"{mount.path} is busy: held by {shown or 'processes that are not ours to see'}{more}")


def _wait(process: int, daemon: running.Daemon) -> None:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    if not poll.poll(PATIENCE_MS):
        click.echo(f"offsetfs umount: waiting for process {daemon.pid} to write everything to disk", err=True)
        poll.poll()


def _report(daemon: running.Daemon) -> None:
    """Say what the daemon left in its file when it could not save everything, and clear up after one that died."""
    place = running.own_directory()
    left = running.reread(daemon, place)
    if left is None:
        return
    running.unregister(daemon, place)
    if left.failures:
        raise Failure("; ".join(left.failures), SYSTEM)
    raise Failure(f"process {daemon.pid} died without closing {daemon.directory}: the next mount recovers it", SYSTEM)
