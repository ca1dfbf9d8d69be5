"""A progress bar of the finished tasks of a Spark job, on terminals only, after two seconds."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from offsetfs.cli.terminal.progress import QUIET_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

_POLL_SECONDS = 0.2


@contextlib.contextmanager
def shown(spark: SparkSession, console: Console, *, quiet_seconds: float = QUIET_SECONDS) -> Iterator[None]:
    """Show the tasks that are done, and all of those that are known, as long as the block takes."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), "tasks", TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    is_over = threading.Event()
    watch = threading.Thread(target=_follow, args=(spark, bar, is_over, time.monotonic() + quiet_seconds), daemon=True)
    watch.start()
    try:
        yield
    finally:
        is_over.set()
        watch.join()
        bar.stop()


def _follow(spark: Any, bar: Any, is_over: threading.Event, begin: float) -> None:
    task = bar.add_task("", total=None)
    tracker = spark.sparkContext.statusTracker()
    while not is_over.wait(_POLL_SECONDS):
        if time.monotonic() < begin:
            continue
        done, known = tasks_of(tracker)
        if known:
            bar.update(task, completed=done, total=known)
            bar.start()


def tasks_of(tracker: Any) -> tuple[int, int]:
    """Return how many tasks of the stages at work are done, and how many there are."""
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
