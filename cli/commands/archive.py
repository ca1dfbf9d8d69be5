"""`offsetfs archive`: keep a log directory in object storage."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.clusters import name_patterns
from offsetfs.cli.exit_codes import DONE, FAILED, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.terminal.printable import printable
from offsetfs.storage.errors import StorageError, counted, sentence

if TYPE_CHECKING:
    from offsetfs.archive.archiver import Archiver, ArchiveRun
    from offsetfs.archive.object_store import ObjectStore, StoreSettings


def store_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options of commands that use object storage."""
    for option in (
        click.option("--endpoint", metavar="URL", help="The service, if it is not that of the provider."),
        click.option(
            "--timeout",
            "timeout_s",
            metavar="SECONDS",
            type=click.FloatRange(min=0, min_open=True),
            default=30.0,
            show_default=True,
            help="The longest time of one request, retries included.",
        ),
    ):
        function = option(function)
    return function


@click.command("archive", short_help="Keep a log directory in object storage.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("url", metavar="URL")
@click.option("--topic", "names", metavar="REGEX", multiple=True, help="Topics whose whole name matches; default all.")
@click.option("--follow", is_flag=True, help="Go on until SIGTERM or Ctrl-C.")
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    help="With --follow: the pause between two runs.",
)
@click.option("--expire", is_flag=True, help="Afterwards delete what the retention of the topics allows.")
@click.option(
    "--keep-states",
    metavar="DAYS",
    type=click.FloatRange(min=0),
    default=7.0,
    show_default=True,
    help="With --expire: how long earlier states stay, for restore --as-of.",
)
@click.option("--checksum", is_flag=True, help="Read and compare unchanged segments too.")
@click.option("--storage-class", metavar="NAME", help="Of new objects in S3, such as STANDARD_IA.")
@click.option(
    "--encryption", type=click.Choice(("AES256", "aws:kms")), help="Of new objects in S3; default that of the bucket."
)
@click.option("--kms-key", metavar="ID", help="The key of aws:kms.")
@store_options
def command(
    log_directory: str,
    url: str,
    names: tuple[str, ...],
    follow: bool,
    interval: float,
    expire: bool,
    keep_states: float,
    checksum: bool,
    storage_class: str | None,
    encryption: str | None,
    kms_key: str | None,
    endpoint: str | None,
    timeout_s: float,
) -> int:
    """Upload what an archive lacks of LOGDIR. LOGDIR is only read, also beside a broker, a mount or a mirror. Each byte
    goes up once; started again, also after a crash, the command goes on where it ended.

    URL is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, abfs://CONTAINER/PREFIX or hdfs://HOST/PATH. Credentials are those of
    the provider's own tools: environment, files, roles. Each needs an extra: pip install 'offsetfs[s3]', [gcs], [azure]
    or [hdfs].

    The archive keeps what retention, compaction and deletion remove from LOGDIR, until --expire. offsetfs restore
    brings any state back, --as-of TIME.

    \b
    offsetfs archive /var/lib/kafka/data s3://backup/kafka
    offsetfs archive ~/mirror s3://backup/kafka --topic 'orders|users.*' --follow
    offsetfs archive /var/lib/kafka/data s3://backup/kafka --expire --keep-states 30
    offsetfs mount s3://backup/kafka /mnt
    offsetfs restore s3://backup/kafka ~/restored --as-of 2026-11-20T14:00

    Exit codes: 0 done, 1 wrong call or permissions, 2 system error, 32 refused, or not everything was archived.
    """
    from offsetfs.archive.archiver import Archiver
    from offsetfs.archive.object_store import StoreSettings
    from offsetfs.cli.terminal.progress import bytes_progress
    from offsetfs.storage import LogDirectory

    if kms_key is not None and encryption != "aws:kms":
        raise Failure("--kms-key: goes with --encryption aws:kms", WRONG_CALL)
    patterns = name_patterns("--topic", names or (".*",))
    settings = StoreSettings(timeout_s, endpoint, storage_class, encryption, kms_key)
    preflight.check_directory(log_directory, read_only=True, may_be_empty=False)
    with _reported(), opened_store(url, settings) as store, bytes_progress("Archiving") as show:
        directory = LogDirectory.open(log_directory, read_only=True)
        done = [0]

        def on_upload(count: int) -> None:
            done[0] += count
            show(done[0], done[0])

        archiver = Archiver(
            directory, store, takes=lambda topic: _matches(patterns, topic), checks_all=checksum, on_upload=on_upload
        )
        with contextlib.closing(archiver), contextlib.closing(directory), _until_signal() as is_ending:
            return _run(archiver, is_ending, interval if follow else None, keep_states if expire else None)


def _run(archiver: Archiver, is_ending: threading.Event, interval: float | None, keep_states: float | None) -> int:
    from offsetfs.archive.expiry import expire

    while True:
        run = archiver.run(is_ending.is_set)
        _report(run)
        if keep_states is not None and not is_ending.is_set():
            removed = expire(archiver.store, keep_states_ms=int(keep_states * 86_400_000), starts=run.starts)
            if removed.objects:
                click.echo(f"{counted(removed.objects, 'object')} of earlier states deleted")
        if interval is None or is_ending.wait(interval):
            return FAILED if run.failed else DONE


def _report(run: ArchiveRun) -> None:
    from offsetfs.library.formatting import size

    if run.published or run.objects:
        changed = f"{counted(run.published, 'partition')} of {run.partitions} changed"
        click.echo(f"{changed}, {counted(run.objects, 'object')} uploaded, {size(run.bytes)}")
    for partition, error in sorted(run.failed.items(), key=lambda each: str(each[0])):
        click.echo(f"offsetfs archive: {partition}: {printable(sentence(error))}", err=True)


def _matches(patterns: Sequence[re.Pattern[str]], topic: str) -> bool:
    return any(each.fullmatch(topic) for each in patterns)


@contextlib.contextmanager
def opened_store(url: str, settings: StoreSettings) -> Iterator[ObjectStore]:
    """Yield the store of a URL; `Failure` for anything else, or if the package for its scheme is missing."""
    from offsetfs.archive import urls
    from offsetfs.archive.object_store import ObjectStore

    if not urls.is_remote(url):
        known = ", ".join(f"{each}://" for each in ("s3", "gs", "abfs", "hdfs"))
        raise Failure(f"{url}: is no URL of object storage; write {known}", WRONG_CALL)
    yield ObjectStore(url, settings)


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Turn what the store, the log directory and the disk refuse into a `Failure`."""
    try:
        yield
    except StorageError as error:
        raise Failure(printable(sentence(error)), FAILED) from error
    except OSError as error:
        raise Failure(printable(sentence(error)), SYSTEM) from error


@contextlib.contextmanager
def _until_signal() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and SIGINT set; the partitions in work are completed."""
    is_ending = threading.Event()
    before = {number: signal.signal(number, lambda *_: is_ending.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield is_ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
