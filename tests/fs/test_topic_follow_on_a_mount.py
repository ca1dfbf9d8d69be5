"""`topics/<topic>/follow` on a real mount: all partitions in one blocking stream, each record once."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.mounts.blocked_readers import is_blocked_in_read

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]
PARTITIONS = 3
SECONDS_MAX = 20


@pytest.fixture
def root(mount: Mount, tmp_path: Path) -> Path:
    """A mount where `orders` has three partitions with the records 0 to 3 each."""
    (tmp_path / "log").mkdir()
    path: Path = mount(tmp_path / "log", "create,delete,delete-records,linger-ms=0").path
    for number in range(PARTITIONS):
        (path / f"orders-{number}").mkdir()
        append(path, number, *range(4))
    return path


def append(root: Path, partition: int, *numbers: int) -> None:
    with (root / f"orders-{partition}" / "append").open("ab", buffering=0) as file:
        file.write(b"".join(b"%d:%d\n" % (partition, number) for number in numbers))


def read_for(fd: int, count: int) -> list[bytes]:
    """Return `count` lines of a stream; fails after a while."""
    read, deadline = b"", time.monotonic() + SECONDS_MAX
    while read.count(b"\n") < count:
        assert select.select([fd], [], [], deadline - time.monotonic())[0], read
        read += os.read(fd, 4096)
    return read.splitlines()


def of_each(lines: list[bytes]) -> dict[int, list[int]]:
    """Return the numbers of each partition, in the order in which they came."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for line in lines:
        partition, number = line.split(b":")
        numbers[int(partition)].append(int(number))
    return dict(numbers)


@pytest.fixture
def opened() -> Iterator[Callable[..., int]]:
    fds: list[int] = []

    def open_one(path: Path, flags: int = 0) -> int:
        fds.append(os.open(path, os.O_RDONLY | flags))
        return fds[-1]

    yield open_one
    for fd in fds:
        os.close(fd)


Open = Callable[..., int]


def wait_until_blocked(process: subprocess.Popen[bytes]) -> None:
    """Return when the process waits in a read: it has opened the stream by then."""
    deadline = time.monotonic() + SECONDS_MAX
    while not is_blocked_in_read(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_topic_follow_begins_at_the_newest_or_at_a_time_and_goes_on(root: Path, opened: Open) -> None:
    topic = root / "topics" / "orders"
    streams = {name: opened(topic / name) for name in ("follow", "follow@-2", "follow@-15m", "follow@now")}
    assert of_each(read_for(streams["follow@-2"], 6)) == {number: [2, 3] for number in range(PARTITIONS)}
    assert of_each(read_for(streams["follow@-15m"], 12)) == {number: [0, 1, 2, 3] for number in range(PARTITIONS)}
    append(root, 2, 4, 5)
    append(root, 0, 4)
    for fd in streams.values():
        assert of_each(read_for(fd, 3)) == {2: [4, 5], 0: [4]}


def test_every_record_comes_once_in_order_while_all_are_written(root: Path, opened: Open) -> None:
    fd = opened(root / "topics/orders/follow")

    def write(partition: int) -> None:
        for number in range(4, 204):
            append(root, partition, number)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(PARTITIONS)]
    for writer in writers:
        writer.start()
    read = b""
    while read.count(b"\n") < 200 * PARTITIONS:
        read += os.read(fd, 100)
    for writer in writers:
        writer.join()
    assert of_each(read.splitlines()) == {number: list(range(4, 204)) for number in range(PARTITIONS)}


def test_a_record_larger_than_a_read_is_not_interrupted_by_another_partition(root: Path, opened: Open) -> None:
    fd = opened(root / "topics/orders/follow")
    for partition in range(PARTITIONS):
        with (root / f"orders-{partition}" / "append").open("ab", buffering=0) as file:
            file.write(b"%d" % partition * 5000 + b"\n")
    read = b""
    while read.count(b"\n") < PARTITIONS:
        read += os.read(fd, 700)
    assert sorted(read.splitlines()) == [b"%d" % partition * 5000 for partition in range(PARTITIONS)]


def test_lines_of_json_state_which_partition_they_are_of(root: Path, opened: Open) -> None:
    lines = read_for(opened(root / "topics/orders/follow@-1.ndjson"), PARTITIONS)
    assert sorted((line["partition"], line["offset"]) for line in map(json.loads, lines)) == [(0, 3), (1, 3), (2, 3)]


def test_without_waiting_it_is_eagain_and_poll_reports_new_records(root: Path, opened: Open) -> None:
    fd = opened(root / "topics/orders/follow", os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        os.read(fd, 100)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(0) == []
    for partition in (1, 0):
        append(root, partition, 9)
        assert poll.poll(5000) == [(fd, select.POLLIN)] and os.read(fd, 100) == b"%d:9\n" % partition
        assert poll.poll(0) == []


def test_a_new_partition_of_the_topic_joins_with_all_its_records(root: Path, opened: Open) -> None:
    fd = opened(root / "topics/orders/follow")
    with subprocess.Popen(["cat", "topics/orders/follow"], cwd=root, stdout=subprocess.PIPE) as cat:
        assert cat.stdout is not None
        wait_until_blocked(cat)
        append(root, 0, 4)
        assert cat.stdout.readline() == b"0:4\n" and read_for(fd, 1) == [b"0:4"]
        (root / "orders-3").mkdir()
        append(root, 3, 0, 1)
        assert [cat.stdout.readline() for _ in range(2)] == [b"3:0\n", b"3:1\n"]
        cat.terminate()
    assert read_for(fd, 2) == [b"3:0", b"3:1"]


def test_a_deleted_partition_leaves_and_the_last_one_ends_the_stream(root: Path, opened: Open) -> None:
    fd = opened(root / "topics/orders/follow", os.O_NONBLOCK)
    (root / "orders-1").rmdir()
    with pytest.raises(BlockingIOError):
        os.read(fd, 100)
    append(root, 2, 4)
    assert read_for(fd, 1) == [b"2:4"]
    with subprocess.Popen(["cat", "topics/orders/follow"], cwd=root, stderr=subprocess.PIPE) as cat:
        wait_until_blocked(cat)
        for number in (0, 2):
            (root / f"orders-{number}").rmdir()
        assert cat.stderr is not None and b"Stale file handle" in cat.stderr.read()
    with pytest.raises(OSError, match="Stale") as caught:
        os.read(fd, 100)
    assert caught.value.errno == errno.ESTALE


def test_a_partition_that_was_deleted_and_made_anew_joins_again(root: Path, opened: Open) -> None:
    fd = opened(root / "topics/orders/follow")
    (root / "orders-1").rmdir()
    (root / "orders-1").mkdir()
    append(root, 1, 7)
    assert read_for(fd, 1) == [b"1:7"]


def test_retention_that_overtakes_the_reader_is_epipe_once(root: Path, opened: Open) -> None:
    fd = opened(root / "topics/orders/follow@-4", os.O_NONBLOCK)
    (root / "orders-1" / "start").write_text("3\n")
    errors, read = 0, b""
    while True:
        try:
            read += os.read(fd, 4096)
        except BlockingIOError:
            break
        except BrokenPipeError:
            errors += 1
    assert errors == 1 and of_each(read.splitlines()) == {0: [0, 1, 2, 3], 1: [3], 2: [0, 1, 2, 3]}


def test_a_blocked_reader_ends_at_a_signal(root: Path) -> None:
    with subprocess.Popen(["cat", "topics/orders/follow"], cwd=root) as cat:
        wait_until_blocked(cat)
        cat.send_signal(signal.SIGTERM)
        assert cat.wait(SECONDS_MAX) == -signal.SIGTERM


def test_an_offset_is_refused_with_a_reason_because_it_belongs_to_one_partition(root: Path) -> None:
    topic = root / "topics" / "orders"
    for name in ("follow@2", "follow@2.ndjson", "follow@yesterday"):
        with pytest.raises(OSError, match="Invalid argument"):
            (topic / name).open("rb")
    errors = (root / ".offsetfs" / "errors").read_text()
    assert "offset 2 belongs to one partition; write orders-0/follow@2" in errors
    assert "'yesterday' is not a time" in errors
    assert not (topic / "followed").exists() and not any("follow" in name for name in os.listdir(topic))


def test_a_read_only_mount_follows_a_topic_that_another_process_writes(
    root: Path, mount: Mount, tmp_path: Path, opened: Open
) -> None:
    reader: Path = mount(tmp_path / "log", "ro").path
    fd = opened(reader / "topics/orders/follow")
    append(root, 1, 4)
    assert read_for(fd, 1) == [b"1:4"]
    (root / "orders-3").mkdir()
    append(root, 3, 0)
    assert read_for(fd, 1) == [b"3:0"]
    (root / "orders-0").rmdir()
    append(root, 2, 4)
    assert read_for(fd, 1) == [b"2:4"]
