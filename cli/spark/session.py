"""Options, session, progress bar and error messages of all jobs of `offsetfs spark`."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from offsetfs.cli.exit_codes import FAILED, INTERRUPTED, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.mounts import serving_daemon
from offsetfs.cli.spark.arguments import is_remote
from offsetfs.cli.terminal.progress import QUIET_SECONDS
from offsetfs.common.extras import install_command
from offsetfs.common.formatting import columns
from offsetfs.storage.errors import LogDirectoryLocked, StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from offsetfs.cli.spark.log import SparkLog

_Command = Callable[..., int]

TOPIC = click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")
"""The option of jobs that may take some topics only."""


def job(function: _Command) -> _Command:
    """Add what all jobs take."""
    options = (
        click.option("--master", metavar="URL", help="Spark's master, or sc://…; default: all cores of this machine."),
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text."),
    )
    for option in options:
        function = option(function)
    return function


def print_result(
    fields: Mapping[str, Any], sentence: str, as_json: bool, table: Sequence[tuple[str, ...]] = ()
) -> None:
    """Print what a job came to: a table, if there is one with more than its head, and a sentence."""
    for line in columns(table) if len(table) > 1 and not as_json else ():
        click.echo(line.rstrip())
    click.echo(json.dumps(fields) if as_json else sentence)


@contextlib.contextmanager
def open_session(
    master: str | None, conf: tuple[str, ...], as_json: bool, *, has_bar: bool = True
) -> Iterator[SparkSession]:
    """Yield the session that there is, or one that is stopped at the end; what a job raises becomes a sentence.

    What Spark itself says goes to a file, unless the user wants it here; a failure that is Spark's names it. `has_bar`:
    whether a bar is shown on a terminal.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise Failure(f"PySpark is not installed: {install_command('spark')}", SYSTEM)
    from pyspark.sql import SparkSession

    from offsetfs.cli.spark.log import SparkLog

    settings, log = _settings(conf), SparkLog()
    is_ours = SparkSession.getActiveSession() is None
    with _kept_handler():
        spark = _session(master, settings, log)
    is_watched = has_bar and sys.stderr.isatty() and not as_json and not is_remote(master)
    logging.getLogger().addFilter(_is_no_interrupt)
    try:
        with _bar(spark) if is_watched else contextlib.nullcontext():
            yield spark
        log.remove()
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, (OSError, Failure)) and not isinstance(error, ConnectionError):
            log.remove()
            raise
        raise _failure(error, log) from error
    finally:
        logging.getLogger().removeFilter(_is_no_interrupt)
        if is_ours:
            with contextlib.suppress(Exception):  # where the JVM is gone there is nothing to stop
                spark.stop()


@contextlib.contextmanager
def _kept_handler() -> Iterator[None]:
    """Restore the handler of SIGINT, which a new session replaces.

    PySpark's handler calls the JVM while the interrupted call still waits for it: both calls fail, with their stacks.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return False for what py4j logs of a KeyboardInterrupt, which is raised as well."""
    return not (record.exc_info and record.exc_info[0] is KeyboardInterrupt)


def _session(master: str | None, settings: dict[str, str], log: SparkLog) -> SparkSession:
    from pyspark import SparkContext

    from offsetfs.pipeline.jobs.workers import sentence_of
    from offsetfs.pipeline.session import session

    has_jvm = "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None or is_remote(master)
    has_own_output = "spark.log.level" in settings or has_jvm
    quiet = {"spark.ui.showConsoleProgress": "false", **({"spark.log.level": "OFF"} if has_jvm else {})}
    try:
        with contextlib.nullcontext() if has_own_output else log.catching():
            return session(master, {**({} if is_remote(master) else quiet), **settings})
    except Exception as error:
        log.add(error)
        cause = f"{log.reason() or sentence_of(error)} (the stack is in {log.path})"
        raise Failure(f"Spark does not start: {cause}") from error


def _bar(spark: SparkSession) -> contextlib.AbstractContextManager[None]:
    from rich.console import Console

    return shown(spark, Console(stderr=True))


def _failure(error: BaseException, log: SparkLog) -> Failure:
    """Return what ends the command: our own errors are sentences; one of Spark's becomes one that names the log."""
    from pyspark.errors import PySparkException

    from offsetfs.pipeline.jobs.workers import JobFailed, sentence_of

    if isinstance(error, LogDirectoryLocked):
        log.remove()
        return serving_daemon.in_use(error, serving_daemon.locked_directory(error), serving_daemon.UNMOUNT_FIRST)
    if isinstance(error, (StorageError, ValueError, JobFailed)) and not isinstance(error, PySparkException):
        log.remove()
        return Failure(str(error), WRONG_CALL if isinstance(error, ValueError) else FAILED)
    if isinstance(error, KeyboardInterrupt):
        log.remove()
        return Failure("interrupted", INTERRUPTED)
    log.add(error)
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return Failure(f"the JVM of Spark ended; its last messages are in {log.path}")
    return Failure(f"{sentence_of(error)} (the stack is in {log.path})")


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for setting in conf:
        name, equals, value = setting.partition("=")
        if not equals:
            raise Failure(f"--conf {setting}: give KEY=VALUE", WRONG_CALL)
        settings[name] = value
    return settings


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
