"""`offsetfs umount`: take the mount away, and wait until its daemon has everything on disk."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys

import click

from offsetfs.cli import running
from offsetfs.cli.exit_codes import DONE, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.holders import holders
from offsetfs.cli.printable import printable
from offsetfs.cli.progress import Line
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, Mount, mount_at

LOOK_MS = 250  # so often the daemon's file is looked at for what is left
LINE_SECONDS = 5.0  # so often it is told where there is no terminal
HOLDERS_SHOWN = 5


@click.command("umount", short_help="Unmount, and wait until everything is on disk.")
@click.argument("mount_point", metavar="MNT")
def command(mount_point: str) -> int:
    """Unmount MNT, and return when its daemon has written everything and ended.

    When the mount is busy it stays, and the processes that hold it are named. Else it tells what is left to do, once
    that takes longer than two seconds. umount(8) and fusermount3 -u unmount as well, and drain as well, but do not wait
    for it.

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
    was_told = False
    with contextlib.ExitStack() as stack:
        process = _process_of(daemon)
        if process is not None:
            stack.callback(os.close, process)
        _unmount(mount)
        if daemon is None:
            _say("warning: its daemon is not known, and not waited for")
        elif process is not None:
            was_told = _wait(process, daemon)
    if daemon is not None:
        _report(daemon)
    if was_told or sys.stderr.isatty():
        _say(f"{mount.path} is unmounted" + (", everything is on disk" if daemon is not None else ""))
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
    still = mount_at(mount.path)
    if still is None or still.device != mount.device:  # somebody else was faster
        return
    reason = " ".join(result.stderr.split())
    if "busy" not in reason:
        raise Failure(reason or f"{mount.path}: {command[0]} failed", WRONG_CALL)
    found = holders(mount.path, mount.device)
    shown = ", ".join(str(holder) for holder in found[:HOLDERS_SHOWN])
    more = f" and {len(found) - HOLDERS_SHOWN} more" if len(found) > HOLDERS_SHOWN else ""
    raise Failure(f"{mount.path} is busy: held by {shown or 'processes that are not ours to see'}{more}")


def _wait(process: int, daemon: running.Daemon) -> bool:
    """Return when the process has ended; whether anything was told meanwhile."""
    line = Line("offsetfs umount", every_seconds=LINE_SECONDS)
    place = running.own_directory()
    poll = select.poll()
    poll.register(process, select.POLLIN)
    try:
        while not poll.poll(LOOK_MS):
            now = running.reread(daemon, place)
            left = now.ending if now is not None and now.ending else "writing everything to disk"
            line.show(f"waiting for process {daemon.pid}: {printable(left)}")
    finally:
        line.clear()
    return line.was_shown


def _say(sentence: str) -> None:
    click.echo(f"offsetfs umount: {printable(sentence)}", err=True)


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
