"""`offsetfs top`: the current read and write rates of a mount. Reads only `.offsetfs/metrics`."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.cli.mounts.metrics_samples import Sample, Values, read_sample
from offsetfs.cli.mounts.serving_daemon import reason_not_a_mount
from offsetfs.cli.terminal.printable import printable
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, mount_at
from offsetfs.library.formatting import columns, count, duration, size

if TYPE_CHECKING:
    from rich.console import RenderableType

INTERVAL_S_MIN = 0.1
KEY_POLL_S = 0.1  # between two checks for signals, while the keyboard is waited for
_ENDING = (signal.SIGINT, signal.SIGTERM)
HEADINGS = ("PARTITION", "NEXT", "IN REC/S", "IN B/S", "OUT B/S", "NOT ON DISK", "LAG", "FOLLOWERS")
_ROWS_RESERVED = 8  # of a screen: everything but the rows of partitions

Row = tuple[str, ...]


@click.command("top", short_help="Show the throughput of a mount, live.")
@click.argument("mount_point", metavar="MNT")
@click.option("--once", is_flag=True, help="Watch for one interval, print a table, and end. Needs no terminal.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=INTERVAL_S_MIN),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two samples.",
)
def command(mount_point: str, once: bool, interval_s: float) -> int:
    """Show the partitions of the mount MNT that are in use, the busiest first, until q or Ctrl-C.

    \b
    NEXT         the offset that the next record gets
    IN           records and bytes appended in a second
    OUT          bytes read in a second; reads from the page cache of the kernel are not counted
    NOT ON DISK  bytes accepted and not synced yet, and LAG, for how long
    FOLLOWERS    open follow files

    The numbers are those of MNT/.offsetfs/metrics. Partitions that were not used since the mount was made are not
    shown.

    \b
    offsetfs top /mnt/kafka
    offsetfs top /mnt/kafka --once --interval 10

    Exit codes: 1 wrong call, 2 system error, 32 the mount is gone.
    """
    mount = mount_at(mount_point)
    if mount is None or mount.type != FILE_SYSTEM_TYPE:
        raise Failure(f"{mount_point} {reason_not_a_mount(mount_point)}", WRONG_CALL)
    if once:
        before = _sample(mount_point)
        time.sleep(interval_s)
        click.echo("\n".join(lines(before, _sample(mount_point))))
        return DONE
    if not sys.stdout.isatty():
        raise Failure("the live view needs a terminal; use --once", WRONG_CALL)
    _watch(lambda: _sample(mount_point), interval_s)
    return DONE


def _sample(mount_point: str) -> Sample:
    try:
        return read_sample(mount_point)
    except FileNotFoundError as error:
        raise Failure(f"{mount_point} is no longer mounted", FAILED) from error
    except OSError as error:
        raise Failure(f"{mount_point}: {error.strerror}", FAILED) from error


def _watch(sample: Callable[[], Sample], interval_s: float) -> None:
    """Show until q, Ctrl-C or SIGTERM, and restore the terminal.

    The signals are taken between two polls: one that came while the screen is switched would leave it switched.
    """
    from rich.live import Live

    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        before = sample()
        with _single_keys() as keys, Live(_screen(before, before), screen=True, auto_refresh=False) as live:
            while not _is_ended(keys, interval_s):
                now = sample()
                live.update(_screen(before, now), refresh=True)
                before = now
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)


@contextlib.contextmanager
def _single_keys() -> Iterator[int | None]:
    """Let the terminal pass on each key at once; yield its descriptor, None where standard input is no terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSANOW)
    try:
        yield terminal
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def _is_ended(keys: int | None, seconds: float) -> bool:
    """Wait for `seconds`; return whether q, Ctrl-C or SIGTERM came meanwhile."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if signal.sigtimedwait(_ENDING, 0 if keys is not None else left) is not None:
            return True
        if keys is not None and select.select([keys], [], [], min(left, KEY_POLL_S))[0]:
            pressed = os.read(keys, 64)
            if not pressed:  # the terminal is gone
                return True
            if b"q" in pressed.lower():
                return True
    return False


def _screen(before: Sample, now: Sample) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if place == 0 else "right", no_wrap=True)
    found, room = rows(before, now), max(1, shutil.get_terminal_size().lines - _ROWS_RESERVED)
    for row in found[:room]:
        table.add_row(*map(Text, row))
    more = [Text(f"and {len(found) - room} more")] if len(found) > room else []
    return Group(*map(Text, summary(before, now)), Text(""), table, *more)


# --- what is shown ---------------------------------------------------------------------------------------------------


def lines(before: Sample, now: Sample) -> list[str]:
    """Return everything as text."""
    return [*summary(before, now), "", *columns([HEADINGS, *rows(before, now)])]


def summary(before: Sample, now: Sample) -> Iterator[str]:
    """Yield what concerns the mount as a whole."""
    labels, mount = now.labels, now.mount
    up = duration(time.time() - mount["start_time_seconds"])
    yield printable(f"{labels['log_directory']} on {labels['mount']}, {labels['mode']}, for {up}")
    requests = sum(_rates(before.operations, now.operations, now.taken_s - before.taken_s).values())
    yield f"requests {count(requests)}/s, open files {count(mount['open_files'])}, faults {count(mount['faults'])}"
    yield f"syncs    {_syncs(before.mount, mount, now.taken_s - before.taken_s)}"
    yield "caches   " + ", ".join(f"{name} {_cache(values)}" for name, values in now.caches.items())
    yield f"buffers  {size(mount['buffer_bytes'])} of {size(mount['buffer_limit_bytes'])}"


def rows(before: Sample, now: Sample) -> list[Row]:
    """Return a row for each partition, the busiest first."""
    seconds = now.taken_s - before.taken_s
    found = []
    for name, values in now.partitions.items():
        rates = _rates(before.partitions.get(name, {}), values, seconds)
        found.append((-rates["appended_bytes"] - rates["read_bytes"], name, _row(name, values, rates)))
    return [row for _, _, row in sorted(found)]


def _row(name: str, values: Values, rates: Values) -> Row:
    is_synced = not values["unsynced_batches"]
    state = " FAILED" if values.get("log_failed") else ""
    return (
        name + state,
        f"{values['log_next_offset']:.0f}" if "log_next_offset" in values else "",
        count(rates["appended_records"]),
        size(rates["appended_bytes"]),
        size(rates["read_bytes"]),
        "-" if is_synced else size(values["unsynced_bytes"]),
        "-" if is_synced else duration(values["unsynced_age_seconds"]),
        f"{values['followers']:.0f}",
    )


def _rates(before: Values, now: Values, seconds: float) -> dict[str, float]:
    """Return how much everything grew in a second; what fell began again."""
    return {name: max(0.0, value - before.get(name, 0.0)) / max(seconds, 1e-6) for name, value in now.items()}


def _syncs(before: Values, now: Values, seconds: float) -> str:
    rates = _rates(before, now, seconds)
    number, total = rates["sync_duration_seconds_count"], rates["sync_duration_seconds_sum"]
    mean = f", mean {duration(total / number)}" if number else ""
    failed = f", {now['sync_failures']:.0f} FAILED" if now["sync_failures"] else ""
    return f"{count(number)}/s{mean}{failed}"


def _cache(values: Values) -> str:
    total = values["cache_hits"] + values["cache_misses"]
    share = f" {values['cache_hits'] / total:.0%} found," if total else ""
    return f"{share} {size(values['cache_bytes'])}".strip()
