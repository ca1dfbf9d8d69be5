"""`offsetfs umount`: unmount, and wait until the daemon has written everything to disk."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time

import click

from offsetfs.cli.exit_codes import DONE, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.mounts import daemon_registry
from offsetfs.cli.mounts.holders import holders, places
from offsetfs.cli.mounts.serving_daemon import reason_not_a_mount, user_name
from offsetfs.cli.terminal.progress import Line
from offsetfs.common.formatting import printable
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, Mount, mount_at

POLL_MS = 250  # the interval at which the file of the daemon is read for its progress
LINE_SECONDS = 5.0  # the interval of progress reports without a terminal
HOLDERS_SHOWN = 5
BUSY_SECONDS = 2.0  # for how long a busy mount is tried again
BUSY_PAUSE_SECONDS = 0.05


@click.command("umount", short_help="Unmount, and wait until everything is on disk.")
@click.argument("mount_point", metavar="MNT")
@click.option("--lazy", is_flag=True, help="Detach a busy mount now; its daemon ends with the last open file.")
def command(mount_point: str, lazy: bool) -> int:
    """Unmount MNT, and return when its daemon has written everything to disk and ended.

    A busy mount is tried again for two seconds. Then it stays mounted, and the message names the processes that keep
    holding it. With --lazy it is detached at once: processes can no longer open files in it. The daemon writes
    everything and ends when the last file is closed; the command does not wait for that. Progress is shown after two
    seconds. After umount(8) or fusermount3 -u the daemon writes everything as well, but these commands do not wait for
    it.

    \b
    offsetfs umount /mnt/kafka
    offsetfs umount --lazy /mnt/kafka

    Exit codes: 1 wrong call or permissions, 2 something could not be saved, 8 interrupted, 32 busy.
    """
    mount = mount_at(mount_point)
    if mount is None:
        reason = reason_not_a_mount(mount_point)
        if reason == "is not an offsetfs mount":
            reason = "nothing is mounted there"
        raise Failure(f"{mount_point}: {reason}", WRONG_CALL)
    if mount.type != FILE_SYSTEM_TYPE:
        raise Failure(f"{mount_point}: is not an offsetfs mount ({mount.type})", WRONG_CALL)
    _check_owner(mount)
    daemon, registry = daemon_registry.serving(mount) or (None, "")
    was_reported = False
    with contextlib.ExitStack() as stack:
        process = _process_of(daemon)
        if process is not None:
            stack.callback(os.close, process)
        if not _unmount(mount, lazy):
            left = f"process {daemon.pid}" if daemon is not None else "its daemon"
            _print(f"{mount.path} is detached; {left} writes everything and ends when the last file is closed")
            return DONE
        if daemon is None:
            _print("warning: the daemon of this mount is not known; it may still be writing")
        elif process is not None:
            was_reported = _wait(process, daemon, registry, mount)
    if daemon is not None:
        _report(daemon, registry)
    if was_reported or sys.stderr.isatty():
        _print(f"{mount.path} is unmounted" + (", everything is on disk" if daemon is not None else ""))
    return DONE


def _process_of(daemon: daemon_registry.Daemon | None) -> int | None:
    """Return a pidfd of the daemon, None if it has ended. A pid alone may already belong to another process."""
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
    """`Failure` if the mount belongs to another user: only that user and root may unmount it."""
    if mount.owner is not None and os.geteuid() not in (0, mount.owner):
        owner = user_name(mount.owner)
        raise Failure(
            f"{mount.path}: is a mount of user {owner}: run offsetfs umount as {owner} or as root", WRONG_CALL
        )


def _unmount(mount: Mount, lazy: bool) -> bool:
    """Unmount. Return False if the mount was busy and has been detached instead."""
    command = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
    until = time.monotonic() + BUSY_SECONDS
    while _is_busy(mount, command):
        if lazy:
            _detach(mount, command)
            return False
        # Whatever looks at the mount, such as `offsetfs status` or df(1), holds it for some milliseconds.
        if time.monotonic() >= until:
            raise _busy(mount)
        time.sleep(BUSY_PAUSE_SECONDS)
    return True


def _is_busy(mount: Mount, command: list[str]) -> bool:
    """Unmount; return whether that was refused because the mount is in use. `Failure` for other refusals."""
    result = subprocess.run([*command, "--", mount.path], capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return False
    still = mount_at(mount.path)
    if still is None or still.device != mount.device:  # another process unmounted it meanwhile
        return False
    reason = " ".join(result.stderr.split())
    if "busy" not in reason:
        raise Failure(reason or f"{mount.path}: {command[0]} failed", WRONG_CALL)
    return True


def _busy(mount: Mount) -> Failure:
    """Return the refusal. It names the processes that hold the mount at two moments, or the last one if none does."""
    before = {holder.pid for holder in holders(mount.path, mount.device)}
    time.sleep(BUSY_PAUSE_SECONDS)
    now = holders(mount.path, mount.device)
    holding = [holder for holder in now if holder.pid in before] or now
    shown = ", ".join(str(holder) for holder in holding[:HOLDERS_SHOWN])
    more = f" and {len(holding) - HOLDERS_SHOWN} more" if len(holding) > HOLDERS_SHOWN else ""
    held_by = f"{shown or 'processes of other users'}{more}"
    return Failure(f"{mount.path} is busy: held by {held_by}: end these processes, or detach it with --lazy")


def _detach(mount: Mount, command: list[str]) -> None:
    flag = "-l" if command == ["umount"] else "-z"
    result = subprocess.run([*command, flag, "--", mount.path], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Failure(" ".join(result.stderr.split()) or f"{mount.path}: {command[0]} {flag} failed", WRONG_CALL)


def _wait(process: int, daemon: daemon_registry.Daemon, registry: str, mount: Mount) -> bool:
    """Wait until the process has ended. Return whether progress was shown."""
    line = Line("offsetfs umount", every_seconds=LINE_SECONDS)
    poll = select.poll()
    poll.register(process, select.POLLIN)
    try:
        while not poll.poll(POLL_MS):
            now = daemon_registry.reread(daemon, registry)
            left = (now.ending if now is not None else "") or _still_mounted(mount) or "writing everything to disk"
            line.show(f"waiting for process {daemon.pid}: {printable(left)}")
    finally:
        line.clear()
    return line.was_shown


def _still_mounted(mount: Mount) -> str:
    """Return why the daemon does not end: the file system is mounted elsewhere. Empty if it is not."""
    mount_points = places(mount.device)
    more = f" and {len(mount_points) - HOLDERS_SHOWN} more places" if len(mount_points) > HOLDERS_SHOWN else ""
    return (
        f"it serves what is still mounted in {', '.join(mount_points[:HOLDERS_SHOWN])}{more}; unmount it there"
        if mount_points
        else ""
    )


def _print(sentence: str) -> None:
    click.echo(f"offsetfs umount: {printable(sentence)}", err=True)


def _report(daemon: daemon_registry.Daemon, registry: str) -> None:
    """Raise `Failure` if the daemon died, or could not save everything; remove its file from the registry."""
    left = daemon_registry.reread(daemon, registry)
    if left is None:
        return
    daemon_registry.unregister(daemon, registry)
    if left.failures:
        raise Failure("; ".join(left.failures), SYSTEM)
    raise Failure(f"process {daemon.pid} died before it closed {daemon.directory}: the next mount recovers it", SYSTEM)
