"""`offsetfs top`: the current read and write rates of a mount or broker. Reads only their metrics."""

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
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING

import click

from offsetfs.cli.arguments.numbers import SECONDS_MS, duration_type
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.cli.mounts.broker_samples import BrokerSample
from offsetfs.cli.mounts.metrics_samples import Sample, Values, read_sample, scrape_sample
from offsetfs.cli.mounts.serving_daemon import reason_not_a_mount
from offsetfs.cli.terminal.broker_tables import RateTable, broker_summary, broker_tables, rates
from offsetfs.common.formatting import columns, count, duration, printable, size
from offsetfs.fs.mounting.mount_table import FILE_SYSTEM_TYPE, mount_at

if TYPE_CHECKING:
    from rich.console import RenderableType

INTERVAL_S_MIN = 0.1
KEY_POLL_S = 0.1  # between two checks for signals, while the keyboard is waited for
_ENDING = (signal.SIGINT, signal.SIGTERM)
HEADINGS = ("PARTITION", "NEXT", "IN REC/S", "IN B/S", "OUT B/S", "NOT ON DISK", "LAG", "FOLLOWERS")

Row = tuple[str, ...]


@click.command("top", short_help="Show the throughput of a mount or broker, live.")
@click.argument("target", metavar="MNT|URL")
@click.option("--once", is_flag=True, help="Watch for one interval, print a table, and end. Needs no terminal.")
@click.option(
    "--interval",
    "interval_s",
    type=duration_type(SECONDS_MS, INTERVAL_S_MIN),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two samples.",
)
def command(target: str, once: bool, interval_s: float) -> int:
    """Show the partitions of the mount MNT that are in use, the busiest first, until q or Ctrl-C. With the URL of the
    metrics of a broker (offsetfs serve --metrics HOST:PORT): its connections, APIs, topics and consumer groups.

    \b
    NEXT         the offset that the next record gets
    IN           records and bytes appended in a second; with -o ro those of the broker, in bytes of the files
    OUT          bytes read in a second; reads from the page cache of the kernel are not counted
    NOT ON DISK  bytes accepted and not synced yet, and LAG, for how long
    FOLLOWERS    open follow files

    \b
    MEAN, P99    how long requests were handled
    WAIT         how long requests waited for records, or for other members of their group (mean)
    LAG          of a group: records behind its committed offsets

    The numbers are those of MNT/.offsetfs/metrics. Partitions that were not used since the mount was made are not
    shown.

    \b
    offsetfs top /mnt/kafka
    offsetfs top /mnt/kafka --once --interval 10
    offsetfs top http://127.0.0.1:9308

    Exit codes: 1 wrong call, 2 system error, 32 the mount or broker is gone.
    """
    is_url = target.startswith("http://")
    mount = None if is_url else mount_at(target)
    if not is_url and (mount is None or mount.type != FILE_SYSTEM_TYPE):
        raise Failure(f"{target} {reason_not_a_mount(target)}", WRONG_CALL)
    sample = partial(_sample_of_broker if is_url else _sample_of_mount, target)
    if once:
        before = sample()
        time.sleep(interval_s)
        click.echo("\n".join(lines(before, sample())))
        return DONE
    if not sys.stdout.isatty():
        raise Failure("the live view needs a terminal; use --once", WRONG_CALL)
    _watch(sample, interval_s)
    return DONE


def _sample_of_broker(url: str) -> Sample:
    try:
        sample = scrape_sample(url)
    except (OSError, ValueError, HTTPException) as error:
        cause = getattr(error, "reason", error)
        reason = getattr(cause, "strerror", None) or cause
        raise Failure(f"{url}: {reason}; offsetfs serve --metrics HOST:PORT serves metrics", FAILED) from error
    if sample.broker is None:
        raise Failure(f"{url} has no metrics of a broker of offsetfs", WRONG_CALL)
    return sample


def _sample_of_mount(mount_point: str) -> Sample:
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
    from rich.table import Table as RichTable
    from rich.text import Text

    head, all_tables = list(summary(before, now)), tables(before, now)
    # A blank line, the headings and "and n more" belong to each table.
    left = shutil.get_terminal_size().lines - len(head) - 3 * len(all_tables)
    parts: list[RenderableType] = [*map(Text, head)]
    for number, (headings, rows_found) in enumerate(all_tables):
        shown = max(1, left // (len(all_tables) - number))
        table = RichTable(box=None, padding=(0, 2, 0, 0))
        for heading in headings:
            table.add_column(heading, justify="left" if heading == headings[0] else "right", no_wrap=True)
        for row in rows_found[:shown]:
            table.add_row(*map(Text, row))
        parts += [Text(""), table]
        if len(rows_found) > shown:
            parts.append(Text(f"and {len(rows_found) - shown} more"))
        left -= min(shown, len(rows_found))
    return Group(*parts)


# --- what is shown ---------------------------------------------------------------------------------------------------


def lines(before: Sample, now: Sample) -> list[str]:
    """Return everything as text."""
    table_lines = [line for headings, rows in tables(before, now) for line in ("", *columns([headings, *rows]))]
    return [*summary(before, now), *table_lines]


def summary(before: Sample, now: Sample) -> Iterator[str]:
    """Yield what concerns the mount and the broker as a whole."""
    if now.mount:
        yield from _summary_of_mount(before, now)
    if now.broker is not None:
        yield from broker_summary(before.broker or BrokerSample(), now.broker, now.taken_s - before.taken_s)


def tables(before: Sample, now: Sample) -> list[RateTable]:
    """Return the tables below the summary: partitions of a mount; APIs, topics and groups of a broker."""
    shown_tables = [RateTable(HEADINGS, rows(before, now))] if now.mount else []
    if now.broker is not None:
        shown_tables += broker_tables(before.broker or BrokerSample(), now.broker, now.taken_s - before.taken_s)
    return shown_tables


def _summary_of_mount(before: Sample, now: Sample) -> Iterator[str]:
    labels, mount = now.labels, now.mount
    up = duration(time.time() - mount["start_time_seconds"])
    yield printable(f"{labels['log_directory']} on {labels['mount']}, {labels['mode']}, for {up}")
    requests = sum(rates(before.operations, now.operations, now.taken_s - before.taken_s).values())
    yield f"requests {count(requests)}/s, open files {count(mount['open_files'])}, faults {count(mount['faults'])}"
    yield f"syncs    {_syncs(before.mount, mount, now.taken_s - before.taken_s)}"
    yield "caches   " + ", ".join(f"{name} {_cache(values)}" for name, values in now.caches.items())
    yield f"buffers  {size(mount['buffer_bytes'])} of {size(mount['buffer_limit_bytes'])}"


def rows(before: Sample, now: Sample) -> list[Row]:
    """Return a row for each partition, the busiest first."""
    seconds = now.taken_s - before.taken_s
    ranked = []
    for name, values in now.partitions.items():
        changed = rates(before.partitions.get(name, {}), values, seconds)
        if now.labels.get("mode") == "ro":
            changed |= _appended_by_others(before.partitions.get(name, values), values, seconds)
        ranked.append((-changed["appended_bytes"] - changed["read_bytes"], name, _row(name, values, changed)))
    return [row for _, _, row in sorted(ranked)]


def _appended_by_others(before: Values, now: Values, seconds: float) -> Values:
    """Return what grew in a log that another process writes, such as a broker: a read-only mount appends nothing."""
    grown = rates(before, now, seconds)
    return {
        "appended_records": grown.get("log_next_offset", 0.0),
        "appended_bytes": grown.get("log_size_bytes", 0.0),
    }


def _row(name: str, values: Values, changed: Values) -> Row:
    is_synced = not values["unsynced_batches"]
    state = " FAILED" if values.get("log_failed") else ""
    return (
        name + state,
        f"{values['log_next_offset']:.0f}" if "log_next_offset" in values else "",
        count(changed["appended_records"]),
        size(changed["appended_bytes"]),
        size(changed["read_bytes"]),
        "-" if is_synced else size(values["unsynced_bytes"]),
        "-" if is_synced else duration(values["unsynced_age_seconds"]),
        f"{values['followers']:.0f}",
    )


def _syncs(before: Values, now: Values, seconds: float) -> str:
    changed = rates(before, now, seconds)
    number, total = changed["sync_duration_seconds_count"], changed["sync_duration_seconds_sum"]
    mean = f", mean {duration(total / number)}" if number else ""
    failed = f", {now['sync_failures']:.0f} FAILED" if now["sync_failures"] else ""
    return f"{count(number)}/s{mean}{failed}"


def _cache(values: Values) -> str:
    total = values["cache_hits"] + values["cache_misses"]
    share = f" {values['cache_hits'] / total:.0%} found," if total else ""
    return f"{share} {size(values['cache_bytes'])}".strip()
