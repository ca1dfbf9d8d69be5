"""Check of committed offsets: groups whose next read is outside of their partition."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from offsetfs.answers.doctor.examination import Examination
from offsetfs.answers.report import Diagnosis, Severity
from offsetfs.kafka.protocol.message import id_text
from offsetfs.storage import LogDirectories, TopicPartition
from offsetfs.storage.coordinators import OFFSETS_TOPIC, Commit, ConsumerGroups
from offsetfs.storage.errors import StorageError, counted

OFFSETS_BYTES_MAX = 64 << 20
"""The size of `__consumer_offsets` up to which it is read here. `offsetfs groups` reads any."""


def commits(examined: Examination) -> Iterator[Diagnosis]:
    """Yield commits beyond the end of a partition, and below its start."""
    if examined.opened is None:
        return
    total = sum(found.bytes for found in examined.partitions() if found.partition.topic == OFFSETS_TOPIC)
    if total > OFFSETS_BYTES_MAX:
        examined.unseen.append(f"commits of groups: {OFFSETS_TOPIC} is larger than 64 MiB; see offsetfs groups")
        return
    groups = ConsumerGroups(examined.opened, lambda left_out: examined.unseen.append(f"{OFFSETS_TOPIC}: {left_out}"))
    groups.refresh(bytes_max=1 << 62)
    for group in groups.names():
        for commit in groups.commits(group) or ():
            bounds = _bounds(examined, commit.partition)
            if bounds is not None:
                yield from impossible(
                    group.decode(errors="replace"), commit, *bounds, topic_id_of(examined.opened, commit)
                )


def _bounds(examined: Examination, partition: TopicPartition) -> tuple[int, int] | None:
    """Return start and end of a partition, after the commits were read; None if it is not here or cannot be read."""
    assert examined.opened is not None
    if not examined.opened.has(partition):
        return None
    try:
        log = examined.opened.log(partition)
        log.refresh(is_forced=True)
        return log.log_start_offset, log.log_end_offset()
    except (StorageError, OSError):
        return None  # other checks report it


def topic_id_of(opened: LogDirectories, commit: Commit) -> bytes | None:
    """Return the id of the topic that is here now; None where the commit has none to compare, or it is not known."""
    if commit.topic_id is None or not opened.has(commit.partition):
        return None
    try:
        return opened.directory_of(commit.partition).topic_id(commit.partition)
    except (StorageError, OSError):
        return None  # other checks report it


def impossible(group: str, commit: Commit, start: int, end: int, topic_id: bytes | None) -> Iterator[Diagnosis]:
    """Yield a finding if a consumer that continues at `commit` is out of range, or gets records of another topic.

    `topic_id`: that of the topic that is here now, None if it is not known.
    """
    place = f"{group}: {commit.partition}"
    remedy = (
        f"kafka-consumer-groups.sh --bootstrap-server HOST:9092 --group {shlex.quote(group)} --reset-offsets "
        f"--topic {commit.partition.topic}:{commit.partition.partition} "
    )
    if commit.topic_id is not None and topic_id is not None and commit.topic_id != topic_id:
        evidence = (
            f"committed offset {commit.offset} of the topic with id {id_text(commit.topic_id)}, "
            f"and the topic of this name has id {id_text(topic_id)}"
        )
        # OffsetMetadataManager.isMismatchedTopicId
        consequence = (
            "the topic was deleted and created again: a consumer that asks by topic id (OffsetFetch 10) has no commit, "
            f"and auto.offset.reset decides; one that asks by name continues at {commit.offset} of {start} to {end}"
        )
        yield Diagnosis(
            Severity.WARNING,
            "commit-of-another-topic",
            place,
            evidence,
            consequence,
            f"{remedy}--to-earliest --execute",
        )
    elif commit.offset > end:
        evidence = f"committed offset {commit.offset}, and the partition ends at {end}"
        consequence = (
            "records were lost after they were consumed, and the consumer is out of range: auto.offset.reset=earliest "
            f"reads all {counted(end - start, 'offset')} again, latest skips what is written meanwhile, none fails"
        )
        yield Diagnosis(
            Severity.WARNING, "commit-beyond-end", place, evidence, consequence, f"{remedy}--to-offset {end} --execute"
        )
    elif commit.offset < start:
        evidence = f"committed offset {commit.offset}, and the partition begins at {start}"
        consequence = (
            f"the group did not read {counted(start - commit.offset, 'offset')} before their removal; "
            f"auto.offset.reset=earliest continues at {start}, latest skips to {end}, none fails"
        )
        yield Diagnosis(
            Severity.NOTICE, "commit-below-start", place, evidence, consequence, f"{remedy}--to-earliest --execute"
        )
