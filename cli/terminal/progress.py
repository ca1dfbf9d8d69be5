"""Progress bars for operations that take longer than two seconds, on terminals only."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from offsetfs.cli.terminal.directory_warnings import print_directory_warnings
from offsetfs.common.formatting import duration, printable, size
from offsetfs.storage.errors import counted

if TYPE_CHECKING:
    from offsetfs.storage import AnyLogDirectory, LogDirectory
    from offsetfs.storage.directory import OnRecovery, RecoveryProgress

QUIET_SECONDS = 2.0
CLEAR_LINE = "\r\x1b[K"
"""Terminal control: the text that follows overwrites the current line."""

CUTS_SHOWN_MAX = 20
"""Cuts of a recovery that are listed one by one; a failed disk may cause thousands."""


@contextlib.contextmanager
def bytes_progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback `(bytes done, bytes total)`; it shows a progress bar on a terminal, after two seconds."""
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
def recovery_progress() -> Iterator[OnRecovery]:
    """Yield a callback for `on_progress` of `LogDirectory.open`, with the progress bar of `bytes_progress`."""
    with bytes_progress("Recovering") as show:
        yield lambda progress: show(progress.bytes_done, progress.bytes_total)


def open_for_writing(log_directory: str) -> LogDirectory:
    """Open a log directory for writing; show the progress of its recovery, and warnings on stderr."""
    from offsetfs.storage import LogDirectory

    with recovery_progress() as on_progress:
        directory = LogDirectory.open(log_directory, on_progress=on_progress)
    print_directory_warnings(directory)
    for sentence in cut_sentences(directory):
        click.echo(f"warning: {printable(sentence)}", err=True)
    return directory


def cut_sentences(directory: AnyLogDirectory) -> list[str]:
    """Return a message for each part of a log that recovery cut: path, position, reason, and the file that keeps it."""
    cuts = directory.cuts()
    sentences = [
        f"{cut.path}, position {cut.position}, offset {cut.offset}: {cut.reason}; `offsetfs dump {cut.kept}` shows it"
        for cut in cuts[:CUTS_SHOWN_MAX]
    ]
    more = len(cuts) - len(sentences)
    return sentences + (
        [f"recovery cut {counted(more, 'more part')}: see offsetfs status {directory.path}"] if more else []
    )


class RecoveryReporter:
    """Reports the progress of a recovery as text: to the parent of a daemon, its log, or systemd."""

    def __init__(
        self,
        report: Callable[[str], None],
        *,
        every_seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report` is called after two seconds, and then every `every_seconds`."""
        self._report = report
        self._every_seconds = every_seconds
        self._now = now
        self._begun = now()
        self._next = self._begun + QUIET_SECONDS

    def __call__(self, progress: RecoveryProgress) -> None:
        now = self._now()
        if now >= self._next:
            self._next = now + self._every_seconds
            self._report(described(progress, now - self._begun))


def described(progress: RecoveryProgress, seconds: float) -> str:
    """Describe the progress of a recovery that has taken `seconds`, with an estimate of the remaining time."""
    done = f"recovering {progress.partition}, {progress.partitions_done} of {progress.partitions_total} partitions done"
    if not progress.bytes_done or progress.bytes_done == progress.bytes_total:
        return done
    left_s = seconds / progress.bytes_done * (progress.bytes_total - progress.bytes_done)
    amount = f"{size(progress.bytes_done)} of {size(progress.bytes_total)}"
    return f"{done}, {amount}, about {duration(max(round(left_s), 1))} left"


class Line:
    """A line of progress: on a terminal it is overwritten in place, elsewhere a new line every `every_seconds`."""

    def __init__(self, prefix: str, *, every_seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._prefix = prefix
        self._every_seconds = every_seconds
        self._now = now
        self._next = now() + QUIET_SECONDS
        self.was_shown = False

    def show(self, text: str) -> None:
        """Show `text` if the line is due; callers call this often."""
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
        """Remove the line from the terminal, before other output."""
        if self.was_shown and sys.stderr.isatty():
            click.echo(CLEAR_LINE, nl=False, err=True)
