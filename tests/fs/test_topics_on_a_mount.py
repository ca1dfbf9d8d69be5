"""`topics` of a mount: lines written to a topic as a whole find their partitions as Kafka's producer finds them."""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsetfs.storage.records.format.partitioner import partition_of

pytestmark = pytest.mark.mount


_topics = itertools.count()


@pytest.fixture
def orders(tree: Path) -> Path:
    """`topics/<topic>` of a topic with three partitions."""
    topic = f"orders{next(_topics)}"
    for number in range(3):
        (tree / f"{topic}-{number}").mkdir()
    return tree / "topics" / topic


def partitions(topic: Path) -> list[Path]:
    return sorted(topic.parents[1].glob(f"{topic.name}-*"))


def records(partition: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (partition / "records.ndjson").read_text().splitlines()]


def errno_of(act: Callable[[], object]) -> int | None:
    try:
        act()
    except OSError as error:
        return error.errno
    return None


def test_topics_are_listed_with_what_can_be_written(orders: Path) -> None:
    assert orders.name in os.listdir(orders.parent) and "topics" in os.listdir(orders.parents[1])
    assert sorted(os.listdir(orders)) == [
        "append", "append.ndjson", "by-time", "last", "range", "records.ndjson", "values"
    ]  # fmt: skip
    assert (orders / "append").read_bytes() == b"" == (orders / "append.ndjson").read_bytes()
    for name in ("append.raw", "0", "first"):
        assert not (orders / name).exists()
    assert not (orders.parent / "nothing").exists()
    assert subprocess.run(["grep", "-r", "x", orders.parent], capture_output=True).returncode == 1


def test_each_key_goes_where_kafka_sends_it_and_keeps_its_order(orders: Path) -> None:
    lines = [{"key": f"key-{number % 50}", "value": str(number)} for number in range(10_000)]
    data = "".join(json.dumps(line) + "\n" for line in lines)
    subprocess.run(["sh", "-c", "cat > append.ndjson"], cwd=orders, input=data, text=True, check=True)
    found = [records(partition) for partition in partitions(orders)]
    assert sum(map(len, found)) == 10_000
    for number, there in enumerate(found):
        mine = [line["value"] for line in lines if partition_of(line["key"].encode(), 3) == number]
        assert [record["value"] for record in there] == mine


def test_what_has_no_key_takes_turns_batch_by_batch(orders: Path) -> None:
    for number in range(6):
        subprocess.run(["sh", "-c", f"echo {number} >> append"], cwd=orders, check=True)
    assert sorted((partition / "next").read_text() for partition in partitions(orders)) == ["2\n"] * 3
    everything = "".join((partition / "values").read_text() for partition in partitions(orders))
    assert sorted(everything.split()) == [str(number) for number in range(6)]


def test_many_lines_make_few_batches_in_all_partitions(orders: Path, tmp_path: Path) -> None:
    with open(tmp_path / "lines", "wb") as file:
        file.writelines(b"%099d\n" % number for number in range(60_000))
    subprocess.run(["sh", "-c", f"cat {tmp_path}/lines > append"], cwd=orders, check=True)
    everything = b"".join((partition / "values").read_bytes() for partition in partitions(orders))
    assert sorted(everything.splitlines()) == (tmp_path / "lines").read_bytes().splitlines()
    assert all(int((partition / "next").read_text()) > 10_000 for partition in partitions(orders))


def test_partition_offset_and_timestamp_are_read_back(orders: Path) -> None:
    lines = "".join(json.dumps({"key": f"k{number}", "timestamp": number}) + "\n" for number in range(6))
    fd = os.open(orders / "append.ndjson", os.O_RDWR)
    os.write(fd, lines.encode())
    reported = [tuple(map(int, line.split())) for line in os.read(fd, 4096).splitlines()]
    os.close(fd)
    assert len(reported) == 6
    for partition, offset, timestamp in reported:
        key = f"k{timestamp}"
        assert partition == partition_of(key.encode(), 3)
        assert records(partitions(orders)[partition])[offset]["key"] == key


def test_fsync_covers_every_partition(orders: Path) -> None:
    with open(orders / "append.ndjson", "wb", buffering=0) as file:
        file.write(b"".join(b'{"key":"%d"}\n' % number for number in range(100)))
        os.fsync(file.fileno())
        for partition in partitions(orders):
            info = json.loads((partition / "info").read_text())
            assert info["recovery_point"] == info["next_offset"] > 0


def test_the_wrong_line_ends_it_in_the_order_of_the_lines(orders: Path) -> None:
    lines = b"".join(b'{"key":"%d"}\n' % number for number in range(20)) + b"oops\n" + b'{"key":"x"}\n'
    fd = os.open(orders / "append.ndjson", os.O_WRONLY)
    assert os.write(fd, lines) == lines.index(b"oops")
    assert errno_of(lambda: os.write(fd, b"oops\n")) == errno.EINVAL
    os.close(fd)
    assert sum(int((partition / "next").read_text()) for partition in partitions(orders)) == 20
    errors = (orders.parents[1] / ".offsetfs/errors").read_text()
    assert f"topics/{orders.name}/append.ndjson: line 21, byte 1: a line is one JSON object" in errors


def test_the_lines_of_a_partition_go_back_to_it_through_the_topic(orders: Path) -> None:
    lines = "".join(
        json.dumps({"key": f"k{number}", "value": str(number), "partition": 1}) + "\n" for number in range(9)
    )
    (orders / "append.ndjson").write_text(lines)
    assert [len(records(partition)) for partition in partitions(orders)] == [0, 9, 0]
    printed = (partitions(orders)[1] / "records.ndjson").read_text()
    (orders / "append.ndjson").write_text(printed)
    assert [len(records(partition)) for partition in partitions(orders)] == [0, 18, 0]
    (partitions(orders)[2] / "append.ndjson").write_text(printed)
    assert [len(records(partition)) for partition in partitions(orders)] == [0, 18, 9]


def test_a_partition_outside_the_topic_is_refused_and_the_line_named(orders: Path) -> None:
    fd = os.open(orders / "append.ndjson", os.O_WRONLY)
    lines = b'{"partition":2}\n{"partition":3}\n'
    assert os.write(fd, lines) == 16
    assert errno_of(lambda: os.write(fd, lines[16:])) == errno.EINVAL
    os.close(fd)
    assert [len(records(partition)) for partition in partitions(orders)] == [0, 0, 1]
    errors = (orders.parents[1] / ".offsetfs/errors").read_text()
    reason = "partition must be null or a number that the topic has, from 0 to 2; to choose the partition by the key"
    assert f"topics/{orders.name}/append.ndjson: line 2, byte 14: {reason}" in errors


def test_where_partitions_are_missing_nothing_is_taken(tree: Path) -> None:
    topic = f"gaps{next(_topics)}"
    (tree / f"{topic}-1").mkdir()
    path = tree / "topics" / topic / "append"
    assert errno_of(lambda: path.open("ab")) == errno.EINVAL
    assert f"topics/{topic}/append: partitions of the topic are missing" in (tree / ".offsetfs/errors").read_text()
    (tree / f"{topic}-0").mkdir()
    assert errno_of(lambda: path.open("ab").close()) is None


def test_a_brokers_own_topics_take_nothing_and_a_read_only_mount_neither(
    golden_copy: Path, mount: Callable[..., Any]
) -> None:
    root = mount(golden_copy).path
    assert errno_of(lambda: (root / "topics/__consumer_offsets/append").open("ab")) == errno.EPERM
    mounted = mount(Path(__file__).parents[1] / "golden" / "kafka-4.1", "ro")
    assert errno_of(lambda: (mounted.path / "topics/keyed/append").open("ab")) == errno.EROFS


def test_values_as_text_go_through_a_topic_and_a_partition(mount: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    root = mount(log, "create,json-values=text").path
    for number in range(2):
        (root / f"t-{number}").mkdir()
    (root / "topics/t/append.ndjson").write_text('{"partition":1,"value":{"a": 1}}\n')
    (root / "t-1/append.ndjson").write_text('{"value":2.50}\n')
    assert (root / "t-1/values").read_text() == '{"a": 1}\n2.50\n'


def test_a_topic_that_is_compacted_wants_keys(mount: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    root = mount(tmp_path / "log", "create,cleanup.policy=compact").path
    for number in range(2):
        (root / f"users-{number}").mkdir()
    assert errno_of(lambda: (root / "topics/users/append").write_text("x\n")) == errno.EINVAL
    (root / "topics/users/append.ndjson").write_text('{"key":"a"}\n{"key":"b"}\n')
    assert errno_of(lambda: (root / "topics/users/append.ndjson").write_text("{}\n")) == errno.EINVAL
