"""`import offsetfs`: what a program reads, from where to where, and what follows."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import sealed_records
from fixtures.simulation.fake_clock import FakeClock
from fixtures.spies import spy

import offsetfs
from offsetfs.storage.coordinators import CommittedOffset, commit_key, commit_value
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch import Batch

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
PARTITIONS = sorted(path.name.removesuffix(".expected.ndjson") for path in GOLDEN.glob("*.expected.ndjson"))
NOW_MS = 1_795_400_000_000
BEGINNING = datetime(2026, 11, 21, 13, tzinfo=UTC)


def expected(partition: str, *, committed: bool) -> list[dict[str, Any]]:
    with open(GOLDEN / f"{partition}.expected.ndjson") as lines:
        records = [json.loads(line) for line in lines]
    return [record for record in records if record["committed"] or not committed]


def is_it(reported: dict[str, Any], record: offsetfs.Record) -> bool:
    if (reported["offset"], reported["timestamp"]) != (record.offset, record.timestamp):
        return False
    if "value_sha256" in reported:
        return hashlib.sha256(record.value or b"").hexdigest() == str(reported["value_sha256"])
    return record.value == (None if reported["value_b64"] is None else base64.b64decode(reported["value_b64"]))


@pytest.fixture
def data(tmp_path: Path) -> Iterator[offsetfs.Directory]:
    """A directory with a hundred records, a second apart, in batches of seven."""
    with offsetfs.open(tmp_path, "a") as directory:
        (orders,) = directory.create("orders")
        records = [
            offsetfs.NewRecord(b"value %d" % n, b"key %d" % n, [("n", b"%d" % n)], _ms(BEGINNING) + 1000 * n)
            for n in range(100)
        ]
        for first in range(0, 100, 7):
            orders.extend(records[first : first + 7])
        yield directory


def _ms(when: datetime) -> int:
    return int(when.timestamp() * 1000)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("name", PARTITIONS)
def test_what_kafka_wrote_is_read(name: str, isolation: Any) -> None:
    reported = expected(name, committed=isolation == "read_committed")
    with offsetfs.open(GOLDEN, isolation=isolation) as directory:
        partition = directory.partition(name)
        records = list(partition.read())
        assert len(records) == len(reported) and all(map(is_it, reported, records))
        assert b"".join(partition.values()) == b"".join((each.value or b"") + b"\n" for each in records)
        lines = [json.loads(line) for line in b"".join(partition.ndjson()).splitlines()]
        assert [line["offset"] for line in lines] == [each.offset for each in records]
        assert all(partition.record(each.offset) == each for each in records[:20])


OLD = sorted(GOLDEN.parent.glob("kafka-0.*/*.expected.ndjson"))


@pytest.mark.long
def test_what_old_kafkas_wrote_is_read() -> None:
    assert len(OLD) > 50
    for path in OLD:
        with open(path) as lines, offsetfs.open(path.parent) as directory:
            partition = directory.partition(path.name.removesuffix(".expected.ndjson"))
            records = list(partition.read())
            reported = [json.loads(line) for line in lines]
            assert len(records) == len(reported) and all(map(is_it, reported, records)), path
            assert b"".join(partition.values()) == b"".join((each.value or b"") + b"\n" for each in records)
            middle = records[len(records) // 2].offset if records else 0
            assert list(partition.read(middle)) == records[len(records) // 2 :]


def _seconds(when: datetime) -> int:
    return int(when.timestamp())


PLACES: dict[str, tuple[Any, Any, range]] = {
    "everything": (None, None, range(100)),
    "from an offset": (95, None, range(95, 100)),
    "within a batch": (8, 11, range(8, 11)),
    "over batches": (5, 30, range(5, 30)),
    "the newest": (-3, None, range(97, 100)),
    "all but the newest": (90, -3, range(90, 97)),
    "more than there are": (-1000, None, range(100)),
    "from a time": (BEGINNING + timedelta(seconds=96.5), None, range(97, 100)),
    "to a time": (None, BEGINNING + timedelta(seconds=2), range(2)),
    "a time before all": (BEGINNING - timedelta(days=1), 2, range(2)),
    "a time after all": (BEGINNING + timedelta(days=1), None, range(0)),
    "another zone": (datetime.fromisoformat("2026-11-21T14:01:38+01:00"), None, range(98, 100)),
    "the end": (100, None, range(0)),
    "backwards": (10, 5, range(0)),
    "beyond the end": (99, 1000, range(99, 100)),
    "from a time as text": ("2026-11-21T13:01:37", None, range(97, 100)),
    "to a time as text": (None, "2026-11-21 14:00:02+01:00", range(2)),
    "from seconds since 1970": (f"@{_seconds(BEGINNING)}.500", 3, range(1, 3)),
    "from a time ago": ("-200w", 1, range(1)),
}


@pytest.mark.long
@pytest.mark.parametrize(("start", "stop", "offsets"), PLACES.values(), ids=PLACES)
def test_a_range_begins_and_ends_at_the_offsets_of_its_name(
    data: offsetfs.Directory, start: Any, stop: Any, offsets: range
) -> None:
    orders = data.partition("orders-0")
    records = list(orders.read(start, stop))
    assert [each.offset for each in records] == list(offsets)
    assert [each.headers for each in records] == [(("n", b"%d" % n),) for n in offsets]
    assert b"".join(orders.values(start, stop)) == b"".join(b"value %d\n" % n for n in offsets)
    lines = [json.loads(line) for line in b"".join(orders.ndjson(start, stop)).splitlines()]
    assert [(line["offset"], line["key"]) for line in lines] == [(n, f"key {n}") for n in offsets]
    reaching = list(orders.batches(start, stop))
    assert len(reaching) == len({n // 7 for n in offsets})
    assert all(bytes(batch.data)[:8] == batch.base_offset.to_bytes(8, "big") for batch in reaching)


@pytest.mark.parametrize("start", [101, 1000])
def test_a_start_outside_of_the_log_is_refused(data: offsetfs.Directory, start: int) -> None:
    with pytest.raises(offsetfs.errors.OffsetOutOfRange):
        list(data.partition("orders-0").read(start))


def test_deleted_records_are_reported_and_not_skipped(data: offsetfs.Directory) -> None:
    orders = data.partition("orders-0")
    reader = orders.read()
    assert next(reader).offset == 0
    data._directory.log(TopicPartition("orders", 0)).delete_records(50)
    with pytest.raises(offsetfs.errors.OffsetOutOfRange) as reported:
        list(orders.read(10))
    assert reported.value.log_start_offset == orders.start_offset == 50
    assert [each.offset for each in orders.read()] == list(range(50, 100))


def test_a_time_needs_a_zone(data: offsetfs.Directory) -> None:
    with pytest.raises(ValueError, match="has no zone"):
        data.partition("orders-0").offset_at(datetime(2026, 11, 21))


def test_a_place_without_a_record_has_none(data: offsetfs.Directory) -> None:
    orders = data.partition("orders-0")
    assert orders.record(100) is None
    found = orders.record(42)
    assert found is not None and (found.value, found.key) == (b"value 42", b"key 42")


def test_times_ago_start_from_the_clock_of_the_directory(data: offsetfs.Directory) -> None:
    (recent,) = data.create("recent")
    recent.extend(offsetfs.NewRecord(b"%d" % n, timestamp=NOW_MS - n * 60_000) for n in (90, 60, 30, 0))
    data._directory.clock = FakeClock(NOW_MS)
    assert [record.value for record in recent.read("-1h")] == [b"60", b"30", b"0"]
    assert [record.value for record in recent.read("-1h30m", "-30m")] == [b"90", b"60"]
    assert (recent.offset_at("-45m"), recent.offset_at("now")) == (2, 3)
    assert [record.value for record in recent.follow("-15m", timeout=0)] == [b"0"]


# --- topics and groups ------------------------------------------------------------------------------------------------


def test_topics_are_listed_with_their_partitions(data: offsetfs.Directory) -> None:
    data.create("users", 2)
    found = [(topic.name, [partition.name for partition in topic.partitions]) for topic in data.topics()]
    assert found == [("orders", ["orders-0"]), ("users", ["users-0", "users-1"])]


def test_a_topic_is_read_by_time_and_within_a_partition_by_offset(data: offsetfs.Directory) -> None:
    partitions = data.create("mixed", 3)
    times = [(10, 30, 20, 40), (20, 25, 50), (20, 60, 5)]
    for partition, stamps in zip(partitions, times, strict=True):
        partition.extend(offsetfs.NewRecord(b"%d" % stamp, timestamp=stamp) for stamp in stamps)
    records = list(data.topic("mixed").read())
    assert [(each.timestamp, each.partition) for each in records] == [
        *((10, 0), (20, 1), (20, 2), (25, 1)),
        *((30, 0), (20, 0), (40, 0), (50, 1), (60, 2), (5, 2)),
    ]
    assert [(each.offset, each.value) for each in records if each.partition == 0] == [
        *((0, b"10"), (1, b"30"), (2, b"20"), (3, b"40"))
    ]
    assert [each.value for each in data.topic("mixed").read(-1)] == [b"5", b"40", b"50"]
    after = datetime.fromtimestamp(0.021, UTC)
    assert [each.value for each in data.topic("mixed").read(after)] == [b"25", b"30", b"20", b"40", b"50", b"60", b"5"]
    (copy,) = data.create("copy")
    assert copy.extend(data.topic("mixed").read()) == range(10)


def test_reading_a_topic_reads_no_more_than_is_taken(data: offsetfs.Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = data.create("large", 3)
    for partition in partitions:
        for stamp in range(50):
            partition.append(b"v", timestamp=stamp)
    read: list[int] = []
    monkeypatch.setattr(Batch, "records", spy(read, lambda batch: batch.base_offset, Batch.records))
    assert [each.offset for each in itertools.islice(data.topic("large").read(), 6)] == [0, 0, 0, 1, 1, 1]
    assert max(read) <= 2 and len(read) <= 9


def test_groups_have_the_offsets_that_were_committed(data: offsetfs.Directory, tmp_path: Path) -> None:
    assert data.groups() == []
    data.create("__consumer_offsets", 1, {"cleanup.policy": "compact"})
    log = data._directory.log(TopicPartition("__consumer_offsets", 0))

    def commit(group: str, number: int, offset: int) -> None:
        key = commit_key(group, TopicPartition("orders", number))
        log.append(sealed_records([(key, commit_value(CommittedOffset(offset, -1, "", 1000)), (), 1000)]))

    commit("billing", 0, 42)
    commit("audit", 0, 7)
    commit("billing", 1, 5)
    assert [(group.name, dict(group.offsets)) for group in data.groups()] == [
        ("audit", {"orders-0": 7}),
        ("billing", {"orders-0": 42, "orders-1": 5}),
    ]
    commit("billing", 0, 43)
    assert data.groups()[1].offsets["orders-0"] == 43
    with offsetfs.open(tmp_path) as beside:
        assert beside.groups() == data.groups()


# --- a log that another writes ----------------------------------------------------------------------------------------


def test_a_reader_beside_a_writer_sees_what_is_appended(data: offsetfs.Directory) -> None:
    with offsetfs.open(data.path) as beside:
        orders = beside.partition("orders-0")
        assert orders.end_offset == 100 and not orders.wait(100, timeout=0)
        data.partition("orders-0").append(b"one more")
        assert orders.wait(100, timeout=10)
        assert [each.value for each in orders.read(100)] == [b"one more"]


def test_readers_in_many_threads_see_each_record_once(
    data: offsetfs.Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsetfs.storage.partition.follower.LOOK_INTERVAL_S", 0)
    found: list[list[int]] = []
    with offsetfs.open(data.path) as beside:
        orders = beside.partition("orders-0")

        def follow() -> None:
            found.append([each.offset for each in itertools.islice(orders.follow(100, timeout=30), 300)])

        threads = [threading.Thread(target=follow) for _ in range(6)]
        for thread in threads:
            thread.start()
        for n in range(300):
            data.partition("orders-0").append(b"%d" % n)
        for thread in threads:
            thread.join()
    assert found == [list(range(100, 400))] * 6


@pytest.fixture
def later() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Call it with what another thread is to do."""
    threads: list[threading.Thread] = []

    def start(work: Callable[[], object]) -> None:
        threads.append(threading.Thread(target=work))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


def test_a_follower_waits_for_what_comes(data: offsetfs.Directory, later: Callable[..., Any]) -> None:
    begun = threading.Event()

    def write() -> None:
        begun.wait(30)
        for n in range(5):
            data.partition("orders-0").append(b"new %d" % n)

    later(write)
    with offsetfs.open(data.path) as beside:
        seen = []
        for record in itertools.islice(beside.partition("orders-0").follow(-2, timeout=30), 7):
            seen.append(record.value)
            begun.set()
    assert seen == [b"value 98", b"value 99", *(b"new %d" % n for n in range(5))]


def test_a_follower_ends_when_nothing_comes_for_so_long(data: offsetfs.Directory) -> None:
    begun = time.monotonic()
    assert [record.offset for record in data.partition("orders-0").follow(99, timeout=0.05)] == [99]
    assert time.monotonic() - begun >= 0.05


def test_a_follower_of_the_end_sees_nothing_old(data: offsetfs.Directory) -> None:
    assert list(data.partition("orders-0").follow(timeout=0)) == []


@pytest.mark.long
def test_a_follower_hears_of_a_log_that_was_cut(data: offsetfs.Directory) -> None:
    orders = data.partition("orders-0")
    follower = orders.follow(99, timeout=0)
    assert next(follower).offset == 99
    data._directory.log(TopicPartition("orders", 0)).truncate_to(10)
    with pytest.raises(offsetfs.errors.OffsetOutOfRange):
        next(follower)


# --- a log whose segments another process takes away while they are read ----------------------------------------------


@pytest.fixture
def segmented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[offsetfs.Partition]:
    """A partition of a hundred records in many segments, opened to read. Its files are polled where a reader asks."""
    monkeypatch.setattr("offsetfs.storage.partition.follower.LOOK_INTERVAL_S", 1e6)
    with offsetfs.open(tmp_path, "a", settings={"segment.bytes": "1000"}) as directory:
        (orders,) = directory.create("orders")
        for n in range(100):
            orders.append(b"value %d" % n)
    with offsetfs.open(tmp_path) as beside:
        yield beside.partition("orders-0")


def logs_of(data: Path) -> list[Path]:
    return sorted((data / "orders-0").glob("*.log"))


def replace(log: Path) -> None:
    """Put a copy in the place of a segment, as compaction does."""
    copy = log.with_suffix(".swap")
    copy.write_bytes(log.read_bytes())
    copy.replace(log)


READERS: dict[str, Callable[[offsetfs.Partition], Iterator[Any]]] = {
    "read": lambda orders: orders.read(),
    "batches": lambda orders: orders.batches(),
    "values": lambda orders: orders.values(),
    "ndjson": lambda orders: orders.ndjson(),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", READERS)
def test_reading_goes_on_when_another_process_replaces_segments(
    segmented: offsetfs.Partition, tmp_path: Path, kind: str
) -> None:
    reader = READERS[kind](segmented)
    seen = [next(reader)]
    for log in logs_of(tmp_path)[:-1]:
        replace(log)
    assert len(seen + list(reader)) == 100


def test_a_record_and_a_time_are_found_where_another_process_replaced_segments(
    segmented: offsetfs.Partition, tmp_path: Path
) -> None:
    assert segmented.end_offset == 100
    middle = segmented.record(50)
    assert middle is not None
    for log in logs_of(tmp_path)[:-1]:
        replace(log)
    first = segmented.record(0)
    assert first is not None and first.value == b"value 0"
    for log in logs_of(tmp_path)[:-1]:
        replace(log)
    assert segmented.offset_at(datetime.fromtimestamp(0, UTC)) == 0
    for log in logs_of(tmp_path)[:-1]:
        log.unlink()
    with pytest.raises(offsetfs.errors.OffsetOutOfRange):
        segmented.record(20)


@pytest.mark.parametrize("kind", READERS)
def test_a_reader_reports_the_offset_that_another_process_removed(
    segmented: offsetfs.Partition, tmp_path: Path, kind: str
) -> None:
    reader, logs = READERS[kind](segmented), logs_of(tmp_path)
    next(reader)
    for log in logs[:-1]:
        log.unlink()
    first, left = int(logs[1].stem), int(logs[-1].stem)
    with pytest.raises(offsetfs.errors.OffsetOutOfRange) as lost:
        list(reader)
    assert (lost.value.offset, lost.value.log_start_offset) == (first, left)
    assert [record.offset for record in segmented.read()] == list(range(left, 100))


def test_a_reader_reports_that_another_process_deleted_the_partition(
    segmented: offsetfs.Partition, tmp_path: Path
) -> None:
    reader = segmented.read()
    next(reader)
    shutil.rmtree(tmp_path / "orders-0")
    with pytest.raises(offsetfs.errors.UnknownPartition, match="deleted"):
        list(reader)


# --- the module -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_importing_it_loads_nothing_heavy() -> None:
    program = (
        "import sys, offsetfs\n"
        "loaded = [m for m in sys.modules if m.startswith('offsetfs.') or m in ('trio', 'pyfuse3', 'click', 'rich')]\n"
        "assert loaded == ['offsetfs.lazy_names'], loaded\n"
        f"data = offsetfs.open({str(GOLDEN)!r})\n"
        "assert data.partitions() and not {'trio', 'pyfuse3', 'click', 'rich'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_names_of_the_module_are_the_public_ones() -> None:
    names = dir(offsetfs)
    assert names == sorted(getattr(offsetfs, "__all__"))  # noqa: B009  # the stub has none
    assert {"NewRecord", "errors", "open", "serve", "Record", "__version__"} <= set(names)
    assert not {"lazy_names", "partition", "storage"} & set(names)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"mode": "w"}, ValueError),
        ({"isolation": "serializable"}, ValueError),
        ({"path": "/nowhere"}, offsetfs.errors.NotALogDirectory),
        ({"mode": "a", "settings": {"retention.msec": "1"}}, offsetfs.errors.InvalidConfig),
    ],
)
def test_what_cannot_be_opened_is_refused(tmp_path: Path, wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        offsetfs.open(**{"path": tmp_path, **wrong})


@pytest.mark.parametrize(("name", "error"), [("orders-7", "UnknownPartition"), ("..", "InvalidName")])
def test_a_missing_partition_is_reported(data: offsetfs.Directory, name: str, error: str) -> None:
    with pytest.raises(getattr(offsetfs.errors, error)):
        data.partition(name)
