"""Progress bars for operations that take longer than two seconds, on terminals only."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from offsetfs.cli.open_warnings import print_open_warnings
from offsetfs.cli.printable import printable
from offsetfs.storage.counted import counted

if TYPE_CHECKING:
    from offsetfs.storage.directory.directory import LogDirectory
    from offsetfs.storage.directory.log_directories import AnyLogDirectory
    from offsetfs.storage.recovery.recover_all import OnProgress, RecoveryProgress

QUIET_SECONDS = 2.0
CLEAR_LINE = "\r\x1b[K"
"""On a terminal: what comes next takes the place of the line."""

CUTS_SHOWN_MAX = 20
"""How many cuts of a recovery are shown one by one: a disk that failed may have thousands."""

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@contextlib.contextmanager
def bytes_progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for the bytes done and the bytes in all; a bar appears after two seconds, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(title, total=None)
    begun = time.monotonic()

    def show(done: int, total: int) -> None:
        if not bar.live.is_started and time.monotonic() - begun > QUIET_SECONDS:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        bar.stop()


@contextlib.contextmanager
def recovery_progress() -> Iterator[OnProgress]:
    """Yield what `LogDirectory.open` takes as `on_progress`: a bar, like that of `bytes_progress`."""
    with bytes_progress("Recovering") as show:
        yield lambda progress: show(progress.bytes_done, progress.bytes_total)


def open_for_writing(log_directory: str) -> LogDirectory:
    """Open a log directory as `LogDirectory.open` does, showing how far a recovery is, and what failed of it."""
    from offsetfs.storage.directory.directory import LogDirectory

    with recovery_progress() as on_progress:
        directory = LogDirectory.open(log_directory, on_progress=on_progress)
    print_open_warnings(directory)
    for sentence in cut_sentences(directory):
        click.echo(f"warning: {printable(sentence)}", err=True)
    return directory


def cut_sentences(directory: AnyLogDirectory) -> list[str]:
    """Return a sentence for each piece that the recovery of `directory` cut: where it was, and which file keeps it."""
    cuts = directory.cuts()
    sentences = [
        f"{cut.path}, position {cut.position}, offset {cut.offset}: {cut.reason}; `offsetfs dump {cut.kept}` shows it"
        for cut in cuts[:CUTS_SHOWN_MAX]
    ]
    more = len(cuts) - len(sentences)
    return sentences + ([f"recovery cut {more} pieces more: see offsetfs status {directory.path}"] if more else [])


class RecoveryTeller:
    """Tells in a line how far a recovery is, for those who have no terminal: a daemon's parent, its log."""

    def __init__(
        self,
        tell: Callable[[str], None],
        *,
        every_seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tell` is called after two seconds, and then every so often."""
        self._tell = tell
        self._every_seconds = every_seconds
        self._now = now
        self._begun = now()
        self._next = self._begun + QUIET_SECONDS

    def __call__(self, progress: RecoveryProgress) -> None:
        now = self._now()
        if now >= self._next:
            self._next = now + self._every_seconds
            self._tell(described(progress, now - self._begun))


def described(progress: RecoveryProgress, seconds: float) -> str:
    """Return how far a recovery is after so many seconds, and how long it may still take."""
    done = f"recovering {progress.partition}, {progress.partitions_done} of {progress.partitions_total} partitions done"
    if not progress.bytes_done or progress.bytes_done == progress.bytes_total:
        return done
    size, unit = next(((size, unit) for size, unit in _UNITS if progress.bytes_total >= size), (1e3, "kB"))
    left = seconds / progress.bytes_done * (progress.bytes_total - progress.bytes_done)
    amount = f"{progress.bytes_done / size:.1f} of {progress.bytes_total / size:.1f} {unit}"
    return f"{done}, {amount}, about {_duration(left)} left"


def bytes_text(size: int) -> str:
    """Return a number of bytes for people."""
    scale, unit = next(((scale, unit) for scale, unit in _UNITS if size >= scale), (1, ""))
    return f"{size / scale:.1f} {unit}" if unit else counted(size, "byte")


class Line:
    """A line of progress: rewritten in its place on a terminal; elsewhere printed anew every so often."""

    def __init__(self, prefix: str, *, every_seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._prefix = prefix
        self._every_seconds = every_seconds
        self._now = now
        self._next = now() + QUIET_SECONDS
        self.was_shown = False

    def show(self, text: str) -> None:
        """Say how far it is, if it is time to; call it often."""
        now = self._now()
        if now < self._next:
            return
        self.was_shown = True
        if sys.stderr.isatty():
            click.echo(f"{CLEAR_LINE}{self._prefix}: {text}", nl=False, err=True)
        else:
            self._next = now + self._every_seconds
            click.echo(f"{self._prefix}: {text}", err=True)

    def clear(self) -> None:
        """Take the line away, where it is in the way of what comes next."""
        if self.was_shown and sys.stderr.isatty():
            click.echo(CLEAR_LINE, nl=False, err=True)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
