"""`import offsetfs`: what a program appends, where it comes to lie, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import offsetfs
from offsetfs import NewRecord, appending
from offsetfs.storage.names import TopicPartition

unit = pytest.mark.unit


@pytest.fixture
def data(tmp_path: Path) -> Iterator[offsetfs.Directory]:
    with offsetfs.open(tmp_path, "a") as directory:
        directory.create("orders")
        yield directory


@pytest.fixture
def orders(data: offsetfs.Directory) -> offsetfs.Partition:
    return data.partition("orders-0")


def reread(data: offsetfs.Directory, name: str = "orders-0") -> list[offsetfs.Record]:
    with offsetfs.open(data.path) as beside:
        return list(beside.partition(name).read())


@unit
def test_a_record_keeps_all_its_parts(data: offsetfs.Directory, orders: offsetfs.Partition) -> None:
    when = datetime(2026, 11, 21, 13, 5, tzinfo=UTC)
    assert orders.append(b"v", key=b"k", headers=[("h", b"x"), ("h", None)], timestamp=when) == 0
    assert orders.append(None, key=b"k", timestamp=7) == 1
    first, second = reread(data)
    assert (first.value, first.key, first.headers) == (b"v", b"k", (("h", b"x"), ("h", None)))
    assert (first.timestamp, second.timestamp, second.value) == (int(when.timestamp() * 1000), 7, None)


@unit
def test_many_records_go_in_few_batches(data: offsetfs.Directory, orders: offsetfs.Partition) -> None:
    assert orders.extend(NewRecord(b"x" * 100) for _ in range(30_000)) == range(30_000)
    assert 3 <= len(list(orders.batches())) <= 5
    assert orders.extend([]) == range(30_000, 30_000)


@unit
def test_records_of_one_partition_go_into_another(data: offsetfs.Directory, orders: offsetfs.Partition) -> None:
    orders.extend(NewRecord(b"%d" % n, b"k", [("n", None)], 5 + n) for n in range(3))
    (copies,) = data.create("copies")
    copies.extend(orders.read())
    assert reread(data, "copies-0") == reread(data)


@unit
def test_records_with_the_extremes_of_timestamps_are_appended(orders: offsetfs.Partition) -> None:
    """A batch stores differences of 64 bits: from -1 to 2^63-1 is one more."""
    times = [-1, 2**63 - 1, 5, 2**63 - 1, -1]
    assert orders.extend(NewRecord(b"v", timestamp=time) for time in times) == range(5)
    assert [record.timestamp for record in orders.read()] == times
    lines = b"".join(b'{"timestamp":%d}\n' % time for time in times)
    assert orders.append_ndjson(lines) == range(5, 10)
    assert [record.timestamp for record in orders.read(5)] == times


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"\n\r\n", [b"", b"\r"]),
        (b"x" * 1_000_000 + b"\ny\n", [b"x" * 1_000_000, b"y"]),
    ],
)
@unit
def test_lines_become_values(
    data: offsetfs.Directory, orders: offsetfs.Partition, lines: bytes, values: list[bytes]
) -> None:
    assert orders.append_lines(lines) == range(len(values))
    assert [each.value for each in reread(data)] == values


@unit
def test_lines_of_more_than_a_batch(orders: offsetfs.Partition) -> None:
    lines = b"".join(b"%d\n" % n for n in range(100_000))
    assert orders.append_lines(lines) == range(100_000)
    assert len(list(orders.batches())) == 2
    assert b"".join(orders.values()) == lines


@unit
def test_lines_of_json_become_records(data: offsetfs.Directory, orders: offsetfs.Partition) -> None:
    orders.extend([NewRecord(b"\xff", b"k", [("h", b"x")], 5), NewRecord(None, b"k", (), 6)])
    (copies,) = data.create("copies")
    assert copies.append_ndjson(b"".join(orders.ndjson())) == range(2)
    assert reread(data, "copies-0") == reread(data)


@unit
def test_a_wrong_line_is_named_and_what_came_before_it_is_kept(
    data: offsetfs.Directory, orders: offsetfs.Partition
) -> None:
    with pytest.raises(ValueError, match="line 3, byte 9: "):
        orders.append_ndjson(b'{"value":"a"}\n\n{"value":1}\n{"value":"b"}\n')
    assert [each.value for each in reread(data)] == [b"a"]


@unit
def test_json_values_are_taken_as_their_text_where_that_is_wanted(
    orders: offsetfs.Partition, data: offsetfs.Directory
) -> None:
    lines = b'{"value": {"a" : 1} }\n{"value":5}\n{"value":null,"key":"k"}\n{"value":"s"}\n'
    assert orders.append_ndjson(lines, json_values="text") == range(4)
    assert [each.value for each in reread(data)] == [b'{"a" : 1}', b"5", None, b"s"]
    with pytest.raises(ValueError, match=r"json_values='text' \(append_ndjson\)"):
        orders.append_ndjson(lines)
    with pytest.raises(ValueError, match="json_values is 'txt', but must be one of refuse, text"):
        orders.append_ndjson(lines, json_values="txt")


@unit
def test_a_large_record_gets_a_batch_of_its_own(data: offsetfs.Directory, tmp_path: Path) -> None:
    (large,) = data.create("large", settings={"max.message.bytes": "4000000"})
    values = [b"a", b"b" * 3_000_000, b"c"]
    assert large.extend(map(NewRecord, values)) == range(3)
    assert large.append_lines(b"\n".join(values)) == range(3, 6)
    assert [each.value for each in large.read()] == values * 2


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
@unit
def test_batches_are_compressed_as_the_topic_sets(data: offsetfs.Directory, codec: str) -> None:
    (packed,) = data.create(codec, settings={"compression.type": codec})
    packed.append_lines(b"the same\n" * 1000)
    assert [batch.header.codec_name for batch in packed.batches()] == [codec]


@unit
def test_what_is_too_large_is_refused_and_what_came_before_it_is_kept(
    data: offsetfs.Directory, orders: offsetfs.Partition
) -> None:
    with pytest.raises(offsetfs.errors.RecordTooLarge):
        orders.extend([NewRecord(b"a"), NewRecord(b"x" * 2_000_000), NewRecord(b"b")])
    with pytest.raises(offsetfs.errors.RecordTooLarge):
        orders.append_lines(b"c\n" + b"x" * 2_000_000)
    assert [each.value for each in reread(data)] == [b"a", b"c"]
    assert orders.append(b"d") == 2


@unit
def test_a_compacted_topic_wants_keys(data: offsetfs.Directory) -> None:
    (users,) = data.create("users", settings={"cleanup.policy": "compact"})
    assert users.append(b"v", key=b"k") == 0
    for refused in (lambda: users.append(b"v"), lambda: users.append_lines(b"v\n")):
        with pytest.raises(offsetfs.errors.PolicyViolation, match="without a key"):
            refused()
    with pytest.raises(ValueError, match="a compacted topic takes no record without a key"):
        users.append_ndjson(b'{"value":"v"}\n')
    assert users.end_offset == 1


@unit
def test_a_brokers_own_topics_are_left_alone(data: offsetfs.Directory) -> None:
    (internal,) = data.create("__consumer_offsets")
    with pytest.raises(PermissionError):
        internal.append(b"v", key=b"k")


@unit
def test_a_read_only_directory_appends_nothing(data: offsetfs.Directory) -> None:
    with offsetfs.open(data.path) as beside:
        orders = beside.partition("orders-0")
        for refused in (lambda: orders.append(b"v"), orders.sync, lambda: beside.create("more")):
            with pytest.raises(offsetfs.errors.ReadOnlyLog):
                refused()


@unit
def test_there_is_one_writer(data: offsetfs.Directory) -> None:
    with pytest.raises(offsetfs.errors.LogDirectoryLocked) as reported:
        offsetfs.open(data.path, "a")
    assert reported.value.pid == os.getpid()


@pytest.mark.promise("Records appended through `offsetfs.open` are on disk when the log directory is closed.")
@unit
def test_a_sync_moves_the_recovery_point_and_the_end_is_clean(
    data: offsetfs.Directory, orders: offsetfs.Partition
) -> None:
    log = data._directory.log(TopicPartition("orders", 0))
    orders.append(b"v")
    assert log.recovery_point == 0
    orders.sync()
    assert log.recovery_point == 1
    orders.append(b"v")
    data.close()
    assert log.recovery_point == 2
    data.close()
    assert os.path.exists(os.path.join(data.path, ".kafka_cleanshutdown"))


@unit
def test_flush_messages_of_the_topic_holds(data: offsetfs.Directory) -> None:
    (eager,) = data.create("eager", settings={"flush.messages": "3"})
    log = data._directory.log(TopicPartition("eager", 0))
    points = []
    for _ in range(7):
        eager.append(b"v")
        points.append(log.recovery_point)
    assert points == [0, 0, 3, 3, 3, 6, 6]


@unit
def test_settings_that_change_are_gone_by(data: offsetfs.Directory, orders: offsetfs.Partition) -> None:
    orders.append(b"v")
    data._directory.configure("orders", {"compression.type": "lz4", "max.message.bytes": "2000"})
    orders.append(b"v" * 1000)
    assert [batch.header.codec_name for batch in orders.batches()] == ["none", "lz4"]
    with pytest.raises(offsetfs.errors.RecordTooLarge):
        orders.append(os.urandom(3000))


@unit
def test_records_of_one_call_are_adjacent_despite_other_writers(orders: offsetfs.Partition) -> None:
    found: list[range] = []
    value = b"x" * (appending.BATCH_BYTES // 3)

    def write() -> None:
        found.extend(orders.extend(NewRecord(value) for _ in range(5)) for _ in range(4))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(offset for offsets in found for offset in offsets) == list(range(80))
    assert all(len(offsets) == 5 for offsets in found)


@pytest.mark.crash
@pytest.mark.promise("Records appended through `offsetfs.open` survive a crash of the process.")
def test_what_was_appended_survives_the_death_of_the_program(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, offsetfs\n"
        "(orders,) = offsetfs.open(sys.argv[1], 'a').create('orders')\n"
        "orders.append_lines(b'one\\ntwo\\n')\n"
        "assert orders.append(b'three') == 2\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    assert killed.returncode == -signal.SIGKILL
    with offsetfs.open(tmp_path, "a") as data:
        orders = data.partition("orders-0")
        assert [each.value for each in orders.read()] == [b"one", b"two", b"three"]
        assert orders.append(b"four") == 3


@unit
def test_nothing_is_written_after_the_directory_was_closed(tmp_path: Path) -> None:
    """Its lock is free then: what another process appends must not be overwritten."""
    with offsetfs.open(tmp_path, "a") as data:
        (orders,) = data.create("orders")
        orders.append(b"one")
    with offsetfs.open(tmp_path, "a") as other:
        other.partition("orders-0").append(b"two")
        refusals: list[Callable[[], object]] = [
            lambda: orders.append(b"late"),
            lambda: orders.extend([NewRecord(b"late")]),
            lambda: orders.append_lines(b"late\n"),
            lambda: orders.append_ndjson(b'{"value":"late"}\n'),
            lambda: data.partition("orders-0").append(b"late"),
            lambda: data.create("users"),
        ]
        for refused in refusals:
            with pytest.raises(offsetfs.errors.ReadOnlyLog, match="closed"):
                refused()
        other.partition("orders-0").append(b"three")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with offsetfs.open(tmp_path) as data:
        assert [record.value for record in data.partition("orders-0").read()] == [b"one", b"two", b"three"]
        assert [partition.name for partition in data.partitions()] == ["orders-0"]
