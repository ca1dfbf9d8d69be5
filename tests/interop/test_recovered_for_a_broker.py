"""A directory that a crash left with swaps, a torn end, too many offsets: we recover it, a broker goes on with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker

from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN, RECOVERY_POINTS
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX

pytestmark = pytest.mark.interop

LINES = b"".join(b"line %d\n" % number for number in range(60))
FAR = RELATIVE_OFFSET_MAX + 1


def swap_pending(partition: Path) -> None:
    """A compaction of the first segment that died when it had renamed its output."""
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(partition / f"{0:020d}{suffix}", partition / f"{0:020d}{suffix}.swap")
    (partition / f"{0:020d}.timeindex").rename(partition / f"{0:020d}.timeindex.deleted")
    (partition / f"{5:020d}.index").write_bytes(bytes(8))


def torn(partition: Path) -> None:
    with max(partition.glob("*.log")).open("ab") as log:
        log.write(bytes(build([(None, b"never acknowledged", (), 1000)], base_offset=60))[:-7])


def overflowed(partition: Path) -> None:
    """What old cleaners made of sparse segments: one with offsets that its indexes cannot hold."""
    with max(partition.glob("*.log")).open("ab") as log:
        for offset in (FAR, FAR + 5):
            records = [(b"k", b"far %d" % offset, (), 1_795_000_000_000)]
            log.write(bytes(build(records, base_offset=offset, leader_epoch=0)))


CRASHES = {"swapped": swap_pending, "torn": torn, "overflowed": overflowed}


@pytest.mark.promise("A broker opens a directory to which offsetfs appended without recovery and without errors.")
def test_a_broker_goes_on_with_what_we_recovered(kafka: KafkaBroker) -> None:
    for topic in CRASHES:
        settings = {"segment.bytes": "1048576", "index.interval.bytes": "100", "retention.ms": "-1"}
        kafka.create_topic(topic, configs=settings)
        for start in range(0, 60, 20):
            kafka.produce(topic, b"".join(LINES.splitlines(keepends=True)[start : start + 20]))
    kafka.stop()
    for name in (CLEAN_SHUTDOWN, RECOVERY_POINTS):
        (kafka.log_dir / name).unlink()
    for topic, crash in CRASHES.items():
        crash(kafka.log_dir / f"{topic}-0")

    directory = LogDirectory.open(str(kafka.log_dir))
    logs = {topic: directory.log(TopicPartition(topic, 0)) for topic in CRASHES}
    assert {topic: log.next_offset for topic, log in logs.items()} == {
        "swapped": 60, "torn": 60, "overflowed": FAR + 6
    }  # fmt: skip
    assert [topic for topic, log in logs.items() if log.damage] == ["torn"]
    assert [segment.base_offset for segment in logs["overflowed"].snapshot()] == [0, FAR]
    directory.close()

    kafka.start()
    assert kafka.complaints() == []
    for topic in CRASHES:
        kafka.produce(topic, b"last\n")
        far = b"far %d\nfar %d\n" % (FAR, FAR + 5) if topic == "overflowed" else b""
        assert kafka.consume(topic) == LINES + far + b"last\n"
