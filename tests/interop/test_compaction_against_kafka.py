"""Kafka's own cleaner and ours over the same log: the same batches, the same records, the same tombstones."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.logs.cleaner import sealed_of
from fixtures.logs.keyed_logs import Keyed, end_of_transaction, keyed, records_of
from fixtures.logs.old_messages import message, wrapper

from offsetfs.storage.checkpoint import CLEANER_OFFSETS, read_offsets
from offsetfs.storage.compaction.compaction import clean, find_dirty_range
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition, segment_name
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.compression.compression import CODECS
from offsetfs.storage.records.format.batch import Batch

pytestmark = [pytest.mark.interop, pytest.mark.long]

WAIT_SECONDS_MAX = 60
OFF = {"log.cleaner.backoff.ms": "3600000"}  # it looks once, before there is anything to clean
ON = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100"}
RETENTION_MS = {"long": 86_400_000, "short": 0, "real": 86_400_000, "old": 86_400_000}
"""The topics, by what their `delete.retention.ms` is. `real`: written by Kafka's clients at first, the others by us;
`old`: in formats v0 and v1, of which Kafka's cleaner makes v2, and ours what they were."""


@pytest.mark.promise(
    "A broker opens a log that offsetfs compacted, and reads the records that its own cleaner would have left."
)
def test_kafkas_cleaner_and_ours_leave_the_same(new_kafka: Callable[..., KafkaBroker], tmp_path: Path) -> None:
    kafka = new_kafka(settings=OFF)
    theirs, ours = kafka.log_dir, tmp_path / "ours"
    with kafka:
        for topic, retention_ms in RETENTION_MS.items():
            kafka.create_topic(topic, configs=compacted(retention_ms))
        produce_with_kafka(kafka)
        kafka.stop()
    write(theirs, 0)
    plant_old_formats(theirs / "old-0")
    shutil.copytree(theirs, ours)

    expected = ends_of(theirs)
    clean_with_kafka(new_kafka, kafka, expected)
    checkpoint = clean_here(ours, {})
    assert checkpoint == expected
    compare(theirs, ours, after="the first round")

    for path in (theirs, ours):
        write(path, 1)
    expected = ends_of(theirs)
    clean_with_kafka(new_kafka, kafka, expected)
    assert clean_here(ours, checkpoint) == expected
    compare(theirs, ours, after="the second round")
    assert not tombstones(ours, "short", checkpoint) and tombstones(ours, "long", checkpoint)

    for topic in RETENTION_MS:
        shutil.rmtree(theirs / f"{topic}-0")
        shutil.copytree(ours / f"{topic}-0", theirs / f"{topic}-0")
    with kafka:
        assert kafka.complaints() == []
        for topic in RETENTION_MS:
            assert consumed(kafka, topic) == values_of(ours, topic)
            kafka.produce(topic, b"k=after\n", "-K", "=")
            everything = kafka.consume(topic, "-f", "%k=%s\\n", "-X", "isolation.level=read_uncommitted")
            assert everything.endswith(b"\nk=after\n")


def compacted(retention_ms: int) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        "delete.retention.ms": str(retention_ms),
        "index.interval.bytes": "500",
    }


# --- the input --------------------------------------------------------------------------------------------------------


def produce_with_kafka(kafka: KafkaBroker) -> None:
    """Keys, tombstones and transactions of Kafka's clients, in every codec."""
    for number, codec in enumerate(CODECS * 2):
        lines = b"".join(b"key-%d=value %d %d\n" % (n % 37, number, n) for n in range(150))
        kafka.produce("real", lines, "-K", "=", "-z", codec, "-X", "enable.idempotence=true")
        gone = b"".join(b"key-%d=\n" % n for n in range(number, 40, 7))
        kafka.produce("real", gone, "-K", "=", "-Z", "-z", codec)
        part = b"".join(lines.splitlines(keepends=True)[: 5 * number + 1])
        kafka.produce("real", part, "-K", "=", "-X", f"transactional.id=t-{number % 3}")
    kafka.console_produce(
        "real", "a:1\nb:2\na:3\n", "--reader-property", "parse.key=true", "--reader-property", "key.separator=:"
    )


def write(path: Path, part: int) -> None:
    """Append to the topics that are ours, and begin a segment in all of them."""
    directory = LogDirectory.open(str(path), defaults={"cleanup.policy": "compact"})
    for topic in RETENTION_MS:
        log = directory.log(TopicPartition(topic, 0))
        if topic in ("long", "short") or part == 1:
            Writer(log, part).write()
        log.roll()
        log.transactions.rebuild_indexes(0)  # a broker looks nowhere else for what was aborted
    directory.close()


def plant_old_formats(partition: Path) -> None:
    """Put segments of loose messages and compressed sets of v0 and v1 in the place of the partition's."""
    for file in partition.glob("0*"):
        file.unlink()
    choice, offset = random.Random(9), 0
    for length in (60, 60, 60, 1):
        base, batches = offset, list[bytes]()
        for _ in range(length):
            magic, codec = choice.choice([0, 1]), choice.choice(["loose", "gzip", "snappy", "lz4"])
            count = choice.randint(1, 6)
            first = 0 if magic and codec != "loose" else offset
            messages = [old_message(choice, magic, first + n, 1000 + offset + n) for n in range(count)]
            offset += count
            is_loose = codec == "loose"
            batches += messages if is_loose else [wrapper(magic, offset - 1, messages, codec, timestamp=999 + offset)]
        (partition / segment_name(base, ".log")).write_bytes(b"".join(batches))


def old_message(choice: random.Random, magic: int, offset: int, timestamp: int) -> bytes:
    value = None if choice.random() < 0.2 else b"%d" % choice.getrandbits(200)
    return message(magic, offset, b"%d" % choice.randint(0, 40), value, timestamp)


class Writer:
    """The same batches each time, by chance but the same: plain, compressed, transactional, tombstones, no key."""

    def __init__(self, log: Log, part: int) -> None:
        self._log = log
        self._random = random.Random(part)
        self._now = 1_000 * (int(time.time()) // 3600 * 3600) + part * 1000
        self._sequences = dict.fromkeys(range(7001, 7007), 0) if part == 0 else dict.fromkeys(range(8001, 8005), 0)
        self._open: set[int] = set()
        self._part = part

    def write(self) -> None:
        for number in range(160):
            self._now += 1
            kind = self._random.choice(["plain"] * 4 + ["idempotent"] * 3 + ["transactional"] * 5 + ["end"] * 3)
            if kind == "end" and self._open:
                self._end(self._random.choice(sorted(self._open)))
            else:
                self._batch(kind)
            if number % 23 == 22:
                self._log.roll()
        for producer_id in sorted(self._open):
            self._end(producer_id)
        if self._part == 1:
            self._log.roll()
            self._open_transaction()

    def _batch(self, kind: str) -> None:
        producer, transactional = (-1, -1, -1), kind == "transactional"
        records = [self._record(number) for number in range(self._random.randint(1, 8))]
        if kind in ("idempotent", "transactional"):
            half = sorted(self._sequences)[kind == "transactional" :: 2]
            producer_id = self._random.choice(half)
            producer = (producer_id, 0, self._sequences[producer_id])
            self._sequences[producer_id] += len(records)
            if transactional:
                self._open.add(producer_id)
        codec = self._random.choice([*CODECS, "none", "none"])
        append_time = self._now if self._random.random() < 0.2 else None
        batch = keyed(0, *records, codec=codec, producer=producer, transactional=transactional, append_time=append_time)
        self._log.append(sealed_of(batch))

    def _record(self, number: int) -> Keyed:
        chance = self._random.random()
        key = None if chance < 0.03 else b"%d" % self._random.randint(0, 60 if chance < 0.9 else 1000)
        value = None if self._random.random() < 0.2 else b"%d" % self._random.getrandbits(200)
        headers = (("h", b"x"), ("n", None)) if self._random.random() < 0.2 else ()
        return Keyed(number, key, value, self._now + self._random.randint(-50, 50), headers)

    def _end(self, producer_id: int) -> None:
        self._open.discard(producer_id)
        kind = self._random.choice([ABORT, COMMIT])
        self._log.append(sealed_of(end_of_transaction(0, producer_id, kind, timestamp=self._now)))

    def _open_transaction(self) -> None:
        """Leave one open, and something cleanable behind it, which must wait for it."""
        open_one = keyed(0, Keyed(0, b"1", b"open", self._now), producer=(9001, 0, 0), transactional=True)
        self._log.append(sealed_of(open_one))
        for _ in range(3):
            self._log.append(sealed_of(keyed(0, Keyed(0, b"behind", b"x", self._now))))
        self._log.roll()


# --- both cleaners ----------------------------------------------------------------------------------------------------


def ends_of(path: Path) -> dict[TopicPartition, int]:
    """Return up to where each topic can be cleaned."""
    directory = LogDirectory.open(str(path), read_only=True)
    partitions = [TopicPartition(topic, 0) for topic in RETENTION_MS]
    found = {p: find_dirty_range(directory.log(p), None, 0).first_uncleanable for p in partitions}
    directory.close()
    return found


def clean_with_kafka(
    new_kafka: Callable[..., KafkaBroker], first: KafkaBroker, expected: dict[TopicPartition, int]
) -> None:
    """Run a broker over the first one's directory until its cleaner has come to its end."""
    settings = {**ON, "metadata.log.dir": str(first.folder / "metadata")}
    with new_kafka(log_dir=first.log_dir, settings=settings) as kafka:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not is_cleaned(kafka.log_dir, expected):
            assert time.monotonic() < deadline, f"{checkpoints(kafka.log_dir)} {expected}\n{kafka.log_text()[-3000:]}"
            time.sleep(0.05)
        kafka.stop()
        assert "uncleanable" not in kafka.log_text()


def is_cleaned(path: Path, expected: dict[TopicPartition, int]) -> bool:
    return expected.items() <= checkpoints(path).items()


def checkpoints(path: Path) -> dict[TopicPartition, int]:
    return read_offsets(str(path / CLEANER_OFFSETS))


def clean_here(path: Path, checkpoint: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Do one round over each topic, now; return how far each of them came."""
    ends = {}
    for topic, retention_ms in RETENTION_MS.items():
        settings = {"cleanup.policy": "compact", "delete.retention.ms": str(retention_ms)}
        directory = LogDirectory.open(str(path), defaults=settings)
        log = directory.log(TopicPartition(topic, 0))
        now_ms = int(time.time() * 1000)
        ends[log.partition] = clean(
            log, find_dirty_range(log, checkpoint.get(log.partition), now_ms), now_ms=now_ms
        ).end_offset
        log.check()
        directory.close()
    return ends


# --- the comparison ---------------------------------------------------------------------------------------------------


def batches_of(path: Path, topic: str) -> list[Batch]:
    directory = LogDirectory.open(str(path), read_only=True)
    log = directory.log(TopicPartition(topic, 0))
    found = [batch for segment in log.snapshot() for batch in segment.batches()]
    directory.close()
    return found


def compare(theirs: Path, ours: Path, *, after: str) -> None:
    for topic in RETENTION_MS:
        expected, found = batches_of(theirs, topic), batches_of(ours, topic)
        tell = records_reported if topic == "old" else reported
        for their_batch, our_batch in zip(expected, found, strict=False):
            assert tell(our_batch) == tell(their_batch), (topic, after)
        assert len(found) == len(expected), (topic, after)


def reported(batch: Batch) -> dict[str, object]:
    """Return all that a batch says but the moment of its cleaning, its size, which another compressor changes, and its
    leader epoch, which rises when a broker starts."""
    header = batch.header
    names = "base_offset last_offset attributes max_timestamp producer_id producer_epoch base_sequence count"
    return {name: getattr(header, name) for name in names.split()} | {"records": batch.records()}


def records_reported(batch: Batch) -> dict[str, object]:
    return {"records": [(record.offset, record.timestamp, record.key, record.value) for record in batch.records()]}


def tombstones(path: Path, topic: str, below: dict[TopicPartition, int]) -> list[int]:
    """Return the offsets of tombstones in the part that both rounds have seen."""
    records = (r for batch in batches_of(path, topic) if not batch.header.is_control for r in batch.records())
    return [r.offset for r in records if r.value is None and r.offset < below[TopicPartition(topic, 0)]]


def values_of(path: Path, topic: str) -> dict[bytes, bytes]:
    """Return the last value of every key below the last stable offset."""
    directory = LogDirectory.open(str(path), read_only=True)
    log = directory.log(TopicPartition(topic, 0))
    stable = log.last_stable_offset()
    latest = {record.key or b"": record.value for record in records_of(log) if record.offset < stable}
    directory.close()
    return {key: value for key, value in latest.items() if value is not None}


def consumed(kafka: KafkaBroker, topic: str) -> dict[bytes, bytes]:
    """Return the last value of every key that a consumer of committed records gets."""
    found = dict[bytes, bytes]()
    for line in kafka.consume(topic, "-f", "%k %S %s\\n", "-X", "isolation.level=read_committed").splitlines():
        key, size, value = line.split(b" ", 2)
        found.pop(key, None)
        if size != b"-1":
            found[key] = value
    return found
