"""`offsetfs archive`: keep a log directory in object storage."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archives import exit_code
from offsetfs.cli.arguments.clusters import name_patterns, topic_option
from offsetfs.cli.arguments.named_partitions import no_topic
from offsetfs.cli.arguments.numbers import DAYS_MS, SECONDS_MS, duration_type
from offsetfs.cli.arguments.object_stores import opened_store, partitions_in, store_options
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.common.ending import EndingEvent, until_signal
from offsetfs.common.formatting import printable, utc_time
from offsetfs.storage import remote_note
from offsetfs.storage.errors import StorageError, counted, sentence

if TYPE_CHECKING:
    from offsetfs.archive.archiver import Archiver, ArchiveRun
    from offsetfs.archive.expiry import Expired
    from offsetfs.archive.object_store import StoreSettings
    from offsetfs.common.name_patterns import NamePattern

_DAY_MS = 86_400_000
_KEEP_STATES_MAX = 36_500
_NAMED_MAX = 5
_STATES_SHOWN = 20
"""The newest states of a partition that --list prints, beside the oldest."""
_EXPIRY_S = 86_400.0
"""The time between two expiries of --follow --expire, which read every state that stays."""


@click.command("archive", short_help="Keep a log directory in object storage or HDFS.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("url", metavar="URL", required=False)
@topic_option
@click.option("--list", "lists", is_flag=True, help="Print the states of the archive URL and change nothing.")
@click.option("--follow", is_flag=True, help="Go on until SIGTERM or Ctrl-C.")
@click.option(
    "--interval",
    metavar="SECONDS",
    type=duration_type(SECONDS_MS, 0.1, 86_400),
    default=10.0,
    show_default=True,
    help="With --follow: the pause between two runs.",
)
@click.option("--expire", is_flag=True, help="Delete what retention allows, of these topics; with --follow once a day.")
@click.option(
    "--keep-states",
    metavar="DAYS",
    type=duration_type(DAYS_MS),
    default=7.0,
    show_default=True,
    help="With --expire: how long earlier states stay, for running readers and restore --as-of; at least 1.",
)
@click.option("--checksum", is_flag=True, help="Read and compare unchanged segments too.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Archive from now on what another log directory has archived here; a replica must continue it.",
)
@click.option("--storage-class", metavar="NAME", help="Of new objects in S3, such as STANDARD_IA.")
@click.option(
    "--encryption", type=click.Choice(("AES256", "aws:kms")), help="Of new objects in S3; default that of the bucket."
)
@click.option("--kms-key", metavar="ID", help="The key of aws:kms.")
@store_options
def command(
    log_directory: str,
    url: str | None,
    names: tuple[str, ...],
    lists: bool,
    follow: bool,
    interval: float,
    expire: bool,
    keep_states: float,
    checksum: bool,
    take_over: bool,
    storage_class: str | None,
    encryption: str | None,
    kms_key: str | None,
    endpoint: str | None,
    timeout_s: float,
) -> int:
    """Upload what an archive lacks of LOGDIR. LOGDIR is only read, also beside a broker, a mount or a mirror. Each byte
    goes up once; started again, also after a crash, the command continues where it ended.

    URL is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, abfs://CONTAINER/PREFIX or webhdfs://NAMENODE:9870/PATH. Credentials
    are those of the provider's own tools: environment, files, roles; in HDFS the user is HADOOP_USER_NAME. Each needs
    an extra: pip install 'offsetfs[s3]', [gcs], [azure] or [hdfs].

    Log directories may share a URL, such as those of the brokers of a cluster. A partition is archived by the one that
    came first; replicas elsewhere are left out, and --expire touches only what LOGDIR archives.

    With --follow, an archive that cannot be reached is tried again after the interval.

    The archive keeps what retention, compaction and deletion remove from LOGDIR, until --expire. offsetfs restore
    brings any state back, --as-of TIME. --list URL prints the times of the states of each partition, the newest last.

    \b
    offsetfs archive /var/lib/kafka/data s3://backup/kafka
    offsetfs archive ~/mirror s3://backup/kafka --topic 'orders|users.*' --follow
    offsetfs archive /var/lib/kafka/data s3://backup/kafka --expire --keep-states 30
    offsetfs archive --list s3://backup/kafka --topic orders
    offsetfs mount s3://backup/kafka /mnt
    offsetfs restore s3://backup/kafka ~/restored --as-of 2026-11-20T14:00

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused, or not everything was archived.
    """
    from offsetfs.archive.archiver import Archiver
    from offsetfs.archive.object_store import StoreSettings
    from offsetfs.cli.terminal.progress import bytes_progress
    from offsetfs.storage import LogDirectory

    if kms_key is not None and encryption != "aws:kms":
        raise Failure("--kms-key: goes with --encryption aws:kms", WRONG_CALL)
    if not 1 <= keep_states <= _KEEP_STATES_MAX:
        reason = f"write 1 to {_KEEP_STATES_MAX} days; readers that run use states of the last day"
        raise Failure(f"--keep-states {keep_states:g}: {reason}", WRONG_CALL)
    if take_over and follow:
        raise Failure(
            "--take-over: run it once without --follow, so that two directories do not take turns", WRONG_CALL
        )
    patterns = name_patterns("--topic", names or (".*",))
    if lists:
        settings = StoreSettings(timeout_s, endpoint)
        return _list(url or log_directory, settings, patterns, names)
    if url is None:
        raise click.UsageError("missing argument 'URL'")
    settings = StoreSettings(timeout_s, endpoint, storage_class, encryption, kms_key)
    preflight.check_directory(log_directory, read_only=True, may_be_empty=False)

    def takes(topic: str) -> bool:
        return any(pattern.fullmatch(topic) for pattern in patterns)

    with _reported(url), bytes_progress("Archiving") as show:
        directory = LogDirectory.open(log_directory, read_only=True)
        if names and not any(takes(partition.topic) for partition in directory.partitions()):
            raise no_topic(log_directory, directory.partitions(), names)
        archiver = Archiver(
            directory,
            opened_store(url, settings),
            takes=takes,
            checks_all=checksum,
            takes_over=take_over,
            on_progress=show,
        )
        with contextlib.closing(directory), contextlib.closing(archiver), until_signal() as is_ending:
            expiries = None if not expire else _Expiries(archiver, takes, keep_states, is_ending.is_set)
            runs = _Runs(archiver, expiries, is_background=follow)
            is_complete = runs.once(is_ending)
            while follow and not is_ending.wait(interval):
                is_complete = runs.again(is_ending)
            return DONE if runs.finish() and is_complete else FAILED


def _list(url: str, settings: StoreSettings, patterns: Sequence[NamePattern], names: tuple[str, ...]) -> int:
    """Print the times of the states of each partition: the oldest and the newest ones."""
    from offsetfs.archive import marker
    from offsetfs.archive.states import states_of

    with _reported(url):
        store = opened_store(url, settings)
        marker.check(store)
        is_empty = True
        for states in states_of(
            store, lambda topic: any(pattern.fullmatch(topic) for pattern in patterns), _STATES_SHOWN
        ):
            is_empty = False
            click.echo(f"{states.partition}: {counted(states.count, 'state')}")
            if states.oldest_ms is not None:
                click.echo(f"  {utc_time(states.oldest_ms)}")
            if states.count > len(states.newest_ms) + 1:
                click.echo(f"  … {states.count - len(states.newest_ms) - 1} more")
            for time_ms in states.newest_ms:
                click.echo(f"  {utc_time(time_ms)}")
        if is_empty and names:
            raise no_topic(url, partitions_in(store), names)
    if is_empty:
        raise Failure(f"{url}: has no partition", FAILED)
    return DONE


class _Expiries:
    """The expiries of one command, one after the other, each in a thread of its own.

    A listing of a large bucket takes minutes, and the archive goes on meanwhile.
    """

    def __init__(
        self, archiver: Archiver, takes: Callable[[str], bool], keep_states: float, is_ending: Callable[[], bool]
    ) -> None:
        self._store = archiver.store
        self._directories = archiver.directory_ids()
        self._takes = takes
        self._keep_states_ms = int(keep_states * _DAY_MS)
        self._is_ending = is_ending
        self._next_s = 0.0
        self._thread: threading.Thread | None = None
        self._done: Expired | None = None
        self._error: Exception | None = None

    def begin(self, run: ArchiveRun) -> None:
        """Begin an expiry if one is due and none runs. What `run` could not archive is left as it is."""
        if self._thread is None and not self._is_ending() and time.monotonic() >= self._next_s:
            self._thread = threading.Thread(target=self._expire, args=(run,), name="expiry", daemon=True)
            self._thread.start()

    def _expire(self, run: ArchiveRun) -> None:
        from offsetfs.archive.expiry import expire

        try:
            self._done = expire(
                self._store,
                keep_states_ms=self._keep_states_ms,
                takes=self._takes,
                starts=dict(run.starts),
                without=frozenset(run.failed),
                is_stopping=self._is_ending,
                directories=self._directories,
            )
        except Exception as error:
            self._error = error

    def ended(self, *, waits: bool) -> Expired | None:
        """Return what the expiry did once it has ended; None if none has. Raises its error: OSError.

        After an error, of a partition too, the next one is due at once; otherwise in a day.
        """
        if self._thread is None or (self._thread.is_alive() and not waits):
            return None
        self._thread.join()
        self._thread = None
        done, error = self._done, self._error
        self._done = self._error = None
        if error is not None:
            raise error
        assert done is not None
        if not done.failed:
            self._next_s = time.monotonic() + _EXPIRY_S
        return done


class _Runs:
    """The runs of one command. An error that repeats is printed once."""

    def __init__(self, archiver: Archiver, expiries: _Expiries | None, *, is_background: bool) -> None:
        """With `is_background` a run does not wait for the expiry that it begins."""
        self._archiver = archiver
        self._expiries = expiries
        self._is_background = is_background
        self._shown: dict[str, str] = {}
        self._not_expired: dict[str, str] = {}

    def once(self, is_ending: EndingEvent) -> bool:
        """Archive, and expire if that is due; print what changed. False if a partition failed, or lost records."""
        run = self._archiver.run(is_ending.is_set)
        is_idle = not _report(run) and not is_ending.is_set() and not run.failed
        if is_idle and run.partitions and not self._is_background:  # those that are left out are named elsewhere
            click.echo(f"nothing to upload: the archive has all of {counted(run.partitions, 'partition')}")
        failed = {str(partition): sentence(error) for partition, error in run.failed.items()}
        for partition, (first, end) in run.lost.items():
            missed = f"offsets {first} to {end - 1} were deleted before they were archived; run more often"
            failed[str(partition)] = missed
        if self._expiries is not None:
            self._look_at_expiry(self._expiries, waits=False)
            self._expiries.begin(run)
            self._look_at_expiry(self._expiries, waits=not self._is_background)
        self._show(_only_remote(run) | failed | self._not_expired | _left_out(run))
        return not failed

    def again(self, is_ending: EndingEvent) -> bool:
        """Do what `once` does; an error of the store is printed, and the next run tries again."""
        try:
            return self.once(is_ending)
        except OSError as error:
            self._show({"": f"{sentence(error)}; tried again"} | self._not_expired)
            return False

    def finish(self) -> bool:
        """Wait for the expiry that runs, and print what it did. False if it failed."""
        if self._expiries is not None and self._look_at_expiry(self._expiries, waits=True):
            self._show(self._shown | self._not_expired)
        return not self._not_expired

    def _look_at_expiry(self, expiries: _Expiries, *, waits: bool) -> bool:
        """Print and note what an expiry did that has ended; False if none has."""
        from offsetfs.common.formatting import size

        try:
            done = expiries.ended(waits=waits)
        except OSError as error:
            if not self._is_background:
                raise
            self._not_expired = {" expiry": f"{sentence(error)}; tried again"}
            return True
        if done is None:
            return False
        self._not_expired = {f"{partition} expiry": sentence(error) for partition, error in done.failed.items()}
        if done.segments or done.objects:
            left_out = f"{counted(done.segments, 'segment')} left the newest states"
            click.echo(f"{left_out}, {counted(done.objects, 'object')} deleted, {size(done.bytes)}")
        return True

    def _show(self, failed: dict[str, str]) -> None:
        for name, text in sorted(failed.items()):
            if self._shown.get(name) != text:
                click.echo(f"offsetfs archive: {f'{name.strip()}: ' if name else ''}{printable(text)}", err=True)
        self._shown = failed


def _left_out(run: ArchiveRun) -> dict[str, str]:
    """Return what is said, as an error is, of the partitions that other directories archive; they are no errors."""
    if not run.others:
        return {}
    named = [f"{partition} ({directory})" for partition, directory in sorted(run.others.items())]
    names = ", ".join(named[:_NAMED_MAX]) + (", …" if len(named) > _NAMED_MAX else "")
    return {"": f"left out {counted(len(named), 'partition')} that another log directory archives: {names}"}


def _only_remote(run: ArchiveRun) -> dict[str, str]:
    """Return what is said of the partitions that the archive lacks records of; they are no errors."""
    return {
        str(partition): f"{remote_note(first, end)}; the archive begins at offset {end}"
        for partition, (first, end) in run.only_remote.items()
    }


def _report(run: ArchiveRun) -> bool:
    """Print what a run has changed; return whether it has."""
    from offsetfs.common.formatting import size

    if not run.published and not run.objects:
        return False
    changed = f"{counted(run.published, 'partition')} of {run.partitions} changed"
    click.echo(f"{changed}, {counted(run.objects, 'object')} uploaded, {size(run.bytes)}")
    return True


@contextlib.contextmanager
def _reported(url: str) -> Iterator[None]:
    """Turn what the store, the log directory and the disk refuse into a `Failure`."""
    try:
        yield
    except StorageError as error:
        raise Failure(printable(sentence(error)), FAILED) from error
    except OSError as error:
        raise Failure(printable(sentence(error)), exit_code(error, url)) from error
