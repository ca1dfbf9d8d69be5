"""`offsetfs verify`: check every byte of a log directory and report damage; nothing is changed."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archives import is_archive
from offsetfs.cli.arguments.log_directories import log_directories
from offsetfs.cli.arguments.named_partitions import no_such, partitions_of
from offsetfs.cli.exit_codes import DONE, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.terminal.findings import found
from offsetfs.common.formatting import printable
from offsetfs.storage import TopicPartition
from offsetfs.storage.directory import split_paths
from offsetfs.storage.errors import NotALogDirectory, StorageError, UnknownPartition, counted, sentence
from offsetfs.storage.segments import parse_segment_name
from offsetfs.storage.verify import DAMAGE, NOTICE, Finding

if TYPE_CHECKING:
    from offsetfs.archive.object_store import ObjectStore
    from offsetfs.storage.verify import VerificationCounts

FINDINGS = 1
"""The exit code for findings. It equals `WRONG_CALL`; only a wrong call prints a message on stderr."""

Selection = dict[str, list[TopicPartition] | None]
"""The partitions to verify, by log directory, None for all of them."""


@click.command("verify", short_help="Check logs, indexes and checkpoints; change nothing.")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR [TOPIC[-PARTITION] …] | PARTITION_DIRECTORY …")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, the summary last.")
@click.option("--strict", is_flag=True, help="Exit with 1 for notices as well.")
@click.option(
    "--inflate-max",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    metavar="MIB",
    help="Largest size of a decompressed batch.",
)
def command(paths: tuple[str, ...], as_json: bool, strict: bool, inflate_max: int) -> int:
    """Check a log directory, some partitions of it, or partition directories. Nothing is changed.

    The command works beside a running broker or mount, and needs only read permission. It prints one line per finding:
    path, position in the file, offset, and meaning. The exit code is 1 for damage, and with --strict for notices as
    well (such as left-over files). offsetfs-findings(7) explains every finding.

    LOGDIR may be the URL of an archive: all bytes of its newest states are read and compared. An object that is damaged
    or missing is shown with the offsets that it concerns.

    \b
    offsetfs verify /var/lib/kafka/data
    offsetfs verify s3://backup/kafka
    offsetfs verify s3://backup/kafka orders-0
    offsetfs verify /var/lib/kafka/data orders-0 orders-1
    offsetfs verify /disk1/kafka,/disk2/kafka orders
    offsetfs verify --json /var/lib/kafka/data/orders-0

    Exit codes: 0 nothing found, 1 findings (or a wrong call), 2 a directory could not be read.
    """
    if any(is_archive(path) for path in paths):
        return _verify_archive(paths, as_json=as_json)
    severities: Counter[str] = Counter()

    def report(finding: Finding) -> None:
        severities[finding.severity] += 1
        click.echo(json.dumps(asdict(finding)) if as_json else str(finding))

    wanted = selection(paths)
    for path in wanted:
        preflight.check_not_mounted(path)
    begun = time.monotonic()
    try:
        tally = _verify(wanted, report, inflate_max << 20)
    except NotALogDirectory as error:
        raise preflight.not_a_log_directory(error, SYSTEM) from error
    except UnknownPartition as error:
        raise Failure(str(error), SYSTEM) from error
    except OSError as error:  # 1, the code of a missing permission elsewhere, means damage here
        raise Failure(printable(sentence(error)), SYSTEM) from error
    remote = {str(partition): note for partition, note in _remote_notes(wanted)}
    for name, note in ({} if as_json else remote).items():
        click.echo(f"{name}: {note}")
    summary = _Summary(tally, severities[DAMAGE], severities[NOTICE], time.monotonic() - begun, remote)
    click.echo(summary.as_json() if as_json else str(summary))
    return FINDINGS if summary.damage or (strict and summary.notices) else DONE


def _verify_archive(paths: tuple[str, ...], *, as_json: bool) -> int:
    import dataclasses

    from offsetfs.archive.verifying import VerifiedArchive, verify_archive
    from offsetfs.cli.arguments.object_stores import check_whole, opened_store
    from offsetfs.cli.terminal.progress import bytes_progress
    from offsetfs.common.formatting import size

    url, *names = paths
    chosen = set(names)

    def takes(partition: TopicPartition) -> bool:
        return not chosen or bool(chosen & {partition.topic, str(partition)})

    done, damage, read = VerifiedArchive(), 0, [0]

    begun = time.monotonic()

    def on_bytes(count: int) -> None:
        read[0] += count
        show(read[0], read[0])

    try:
        store = opened_store(url)
        _check_archived(url, store, names)
        with bytes_progress("Verifying") as show:
            for finding in verify_archive(store, takes=takes, on_bytes=on_bytes, done=done):
                damage += 1
                click.echo(json.dumps(dataclasses.asdict(finding)) if as_json else printable(str(finding)))
    except OSError as error:
        raise Failure(printable(sentence(error)), SYSTEM) from error
    if not done.partitions and not damage:
        check_whole(url)
        remedy = "give the URL of an archive, and after it the names of topics or partitions"
        raise Failure(f"{url}: no partition of an archive is there; {remedy}", SYSTEM)
    for name, note in ({} if as_json else done.remote_storage).items():
        click.echo(f"{name}: {note}")
    counts = f"{counted(done.partitions, 'partition')}, {counted(done.segments, 'segment')}"
    seconds = time.monotonic() - begun
    text = f"{counts}, {counted(done.objects, 'object')}, {size(done.bytes)} in {seconds:.1f} s: {found(damage)}"
    fields = {"kind": "summary", "damage": damage, "notices": 0, "seconds": round(seconds, 3)}
    click.echo(json.dumps({**fields, **dataclasses.asdict(done)}) if as_json else text)
    return FINDINGS if damage else DONE


def _check_archived(url: str, store: ObjectStore, names: Sequence[str]) -> None:
    """`Failure` for a name of which an archive has no topic or partition. A place without partitions passes."""
    from offsetfs.cli.arguments.object_stores import partitions_in

    present = partitions_in(store) if names else []
    known = {name for partition in present for name in (partition.topic, str(partition))}
    for name in names if present else ():
        if name not in known:
            raise Failure(f"{name}: {no_such([url], name, present)}", WRONG_CALL)


def _verify(wanted: Selection, report: Callable[[Finding], None], inflated_bytes_max: int) -> VerificationCounts:
    from offsetfs.cli.terminal.progress import bytes_progress
    from offsetfs.storage.verify import Verification, VerificationCounts

    total = VerificationCounts()
    for directory, partitions in wanted.items():
        with bytes_progress("Verifying") as on_progress:
            verification = Verification(
                directory, partitions, report=report, on_progress=on_progress, inflated_bytes_max=inflated_bytes_max
            )
            total += verification.run()
    return total


def _remote_notes(wanted: Selection) -> Iterator[tuple[TopicPartition, str]]:
    """Yield the partitions with records that are only in remote storage, each with a sentence on them."""
    from offsetfs.storage import LogDirectory

    for path, partitions in wanted.items():
        # A directory that cannot be opened has findings, or is reported already.
        with (
            contextlib.suppress(StorageError, OSError),
            contextlib.closing(LogDirectory.open(path, read_only=True)) as directory,
        ):
            for partition in directory.partitions() if partitions is None else partitions:
                note = directory.remote_note(partition)
                if note is not None:
                    yield partition, note


def selection(paths: tuple[str, ...]) -> Selection:
    """Resolve the arguments. Names without a slash after LOGDIR select topics and partitions of its directories."""
    named: dict[str, list[TopicPartition]] = {}
    whole: dict[str, bool] = {}
    directories: list[str] = []
    for path in paths:
        partition = TopicPartition.parse_or_none(os.path.basename(os.path.abspath(path)))
        chosen = _chosen(directories, path, partition) if os.sep not in path else {}
        if chosen:
            for directory in directories:
                named[directory] += chosen.get(directory, [])
                whole[directory] = False
        elif partition is not None and _is_partition(path):
            parent = _same(named, os.path.dirname(path.rstrip(os.sep)) or os.curdir)
            named.setdefault(parent, []).append(partition)
        elif directories and not os.path.exists(path) and len(split_paths(path)) == 1:
            present = [known for directory in directories for known in partitions_of(directory)]
            raise Failure(f"{path}: {no_such(directories, path, present)}", WRONG_CALL)
        else:
            directories = [_same(named, directory) for directory in log_directories(path)]
            for directory in directories:
                named.setdefault(directory, [])
                whole.setdefault(directory, True)
    selected = {path: None if whole.get(path) else list(dict.fromkeys(wanted)) for path, wanted in named.items()}
    return {path: wanted for path, wanted in selected.items() if wanted is None or wanted}


def _chosen(
    directories: Sequence[str], name: str, partition: TopicPartition | None
) -> Mapping[str, list[TopicPartition]]:
    """Return the partitions that `name` selects in each directory that has some of them."""
    of_topic = {directory: _of_topic(directory, name) for directory in directories}
    if any(of_topic.values()) or partition is None:
        return {directory: partitions for directory, partitions in of_topic.items() if partitions}
    return {directory: [partition] for directory in directories if os.path.isdir(os.path.join(directory, name))}


def _of_topic(directory: str, name: str) -> list[TopicPartition]:
    """Return the partitions of a topic of the directory; empty if `name` is the directory of a partition."""
    if not os.path.isdir(directory) or os.path.isdir(os.path.join(directory, name)):
        return []
    return [partition for partition in partitions_of(directory) if partition.topic == name]


def _same(known: Iterable[str], path: str) -> str:
    """Return the spelling of `path` among the known paths, `path` itself if it is new."""
    return next((spelling for spelling in known if os.path.abspath(spelling) == os.path.abspath(path)), path)


def _is_partition(path: str) -> bool:
    try:
        names = os.listdir(path)
    except OSError:
        return False
    parsed = (parse_segment_name(name) for name in names)
    return any(segment is not None and segment[1].startswith(".log") for segment in parsed)


@dataclass(frozen=True, slots=True)
class _Summary:
    """The summary line."""

    tally: VerificationCounts
    damage: int
    notices: int
    seconds: float
    remote: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.tally} in {self.seconds:.1f} s: {found(self.damage, self.notices)}"

    def as_json(self) -> str:
        fields = {"kind": "summary", "damage": self.damage, "notices": self.notices, "seconds": round(self.seconds, 3)}
        return json.dumps({**fields, **asdict(self.tally), "remote_storage": dict(self.remote)})
