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
from offsetfs.cli.served import not_a_mount, user_name
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, Mount, mount_at

LOOK_MS = 250  # so often the daemon's file is looked at for what is left
LINE_SECONDS = 5.0  # the interval of progress reports without a terminal
HOLDERS_SHOWN = 5


@click.command("umount", short_help="Unmount, and wait until everything is on disk.")
@click.argument("mount_point", metavar="MNT")
@click.option("--lazy", is_flag=True, help="Detach a busy mount now; its daemon ends with the last open file.")
def command(mount_point: str, lazy: bool) -> int:
    """Unmount MNT, and return when its daemon has written everything and ended.

    A busy mount stays, and the message names the processes that hold it. With --lazy it is detached: new accesses no
    longer reach it, and the daemon writes everything and ends when the last file is closed; the command does not wait
    for that. Progress is shown once the end takes longer than two seconds. umount(8) and fusermount3 -u unmount as
    well, and the daemon writes everything as well, but they do not wait for it.

    \b
    offsetfs umount /mnt/kafka
    offsetfs umount --lazy /mnt/kafka

    Exit codes: 1 wrong call or permissions, 2 something could not be saved, 8 interrupted, 32 busy.
    """
    mount = mount_at(mount_point)
    if mount is None:
        reason = not_a_mount(mount_point)
        if reason == "is not an offsetfs mount":
            reason = "nothing is mounted there"
        raise Failure(f"{mount_point}: {reason}", WRONG_CALL)
    if mount.type != FILE_SYSTEM_TYPE:
        raise Failure(f"{mount_point}: is not an offsetfs mount ({mount.type})", WRONG_CALL)
    _check_owner(mount)
    daemon, place = running.serving(mount) or (None, "")
    was_told = False
    with contextlib.ExitStack() as stack:
        process = _process_of(daemon)
        if process is not None:
            stack.callback(os.close, process)
        if not _unmount(mount, lazy):
            left = f"process {daemon.pid}" if daemon is not None else "its daemon"
            _say(f"{mount.path} is detached; {left} writes everything and ends when the last file is closed")
            return DONE
        if daemon is None:
            _say("warning: the daemon of this mount is not known; it may still be writing")
        elif process is not None:
            was_told = _wait(process, daemon, place)
    if daemon is not None:
        _report(daemon, place)
    if was_told or sys.stderr.isatty():
        _say(f"{mount.path} is unmounted" + (", everything is on disk" if daemon is not None else ""))
    return DONE


def _process_of(daemon: running.Daemon | None) -> int | None:
    """Return a descriptor of the daemon's process, None when it has ended: a pid may be another process's by then."""
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


def _check_owner(mount: Mount) -> None:
    """`Failure` where the mount is another user's: only that user and root may unmount it."""
    if mount.owner is not None and os.geteuid() not in (0, mount.owner):
        owner = user_name(mount.owner)
        raise Failure(
            f"{mount.path}: is a mount of user {owner}: run offsetfs umount as {owner} or as root", WRONG_CALL
        )


def _unmount(mount: Mount, lazy: bool) -> bool:
    """Unmount; False where the mount was busy and has been detached instead."""
    command = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
    result = subprocess.run([*command, "--", mount.path], capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return True
    still = mount_at(mount.path)
    if still is None or still.device != mount.device:  # another process unmounted it meanwhile
        return True
    reason = " ".join(result.stderr.split())
    if "busy" not in reason:
        raise Failure(reason or f"{mount.path}: {command[0]} failed", WRONG_CALL)
    if lazy:
        _detach(mount, command)
        return False
    found = holders(mount.path, mount.device)
    shown = ", ".join(str(holder) for holder in found[:HOLDERS_SHOWN])
    more = f" and {len(found) - HOLDERS_SHOWN} more" if len(found) > HOLDERS_SHOWN else ""
    held_by = f"{shown or 'processes of other users'}{more}"
    raise Failure(f"{mount.path} is busy: held by {held_by}: end these processes, or detach it with --lazy")


def _detach(mount: Mount, command: list[str]) -> None:
    flag = "-l" if command == ["umount"] else "-z"
    result = subprocess.run([*command, flag, "--", mount.path], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Failure(" ".join(result.stderr.split()) or f"{mount.path}: {command[0]} {flag} failed", WRONG_CALL)


def _wait(process: int, daemon: running.Daemon, place: str) -> bool:
    """Return when the process has ended; whether anything was reported meanwhile."""
    line = Line("offsetfs umount", every_seconds=LINE_SECONDS)
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


def _report(daemon: running.Daemon, place: str) -> None:
    """Say what the daemon left in its file when it could not save everything, and clear up after one that died."""
    left = running.reread(daemon, place)
    if left is None:
        return
    running.unregister(daemon, place)
    if left.failures:
        raise Failure("; ".join(left.failures), SYSTEM)
    raise Failure(f"process {daemon.pid} died without closing {daemon.directory}: the next mount recovers it", SYSTEM)
