"""poll, select and epoll on a real mount, and `tail -f` over what retention takes away."""

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.machine.waiting import soon
from fixtures.mounts.blocked_readers import is_blocked_in_read

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]
WAKE_MS = 60_000
"""How long a test waits for what should take a millisecond."""


@pytest.fixture
def orders(mount: Mount, tmp_path: Path) -> Path:
    """The directory of a mounted partition with the records one and two."""
    (tmp_path / "log").mkdir()
    path: Path = mount(tmp_path / "log", "create,linger-ms=0").path / "orders-0"
    path.mkdir()
    append(path, b"one\ntwo\n")
    return path


def append(partition: Path, lines: bytes) -> None:
    with (partition / "append").open("ab", buffering=0) as file:
        file.write(lines)


def appended_soon(partition: Path, lines: bytes) -> threading.Thread:
    """Append when the caller waits for it."""
    waits_in = Path(f"/proc/self/task/{threading.get_native_id()}/wchan")

    def work() -> None:
        assert soon(lambda: waits_in.read_bytes().startswith((b"poll", b"do_", b"ep_poll")))
        append(partition, lines)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.fixture
def opened() -> Iterator[Callable[..., int]]:
    fds: list[int] = []

    def open_(path: Path, flags: int = os.O_RDONLY) -> int:
        fds.append(os.open(path, flags))
        return fds[-1]

    yield open_
    for fd in fds:
        os.close(fd)


def polled(fd: int, events: int, timeout_ms: int) -> int:
    """Return the events that hold, 0 when none came in time."""
    poll = select.poll()
    poll.register(fd, events)
    return dict(poll.poll(timeout_ms)).get(fd, 0)


# --- follow ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["follow", "follow.ndjson", "follow@-0"])
def test_follow_is_readable_when_a_record_waits(orders: Path, opened: Callable[..., int], name: str) -> None:
    fd = opened(orders / name)
    assert polled(fd, select.POLLIN, 300) == 0
    writer = appended_soon(orders, b"three\n")
    assert polled(fd, select.POLLIN, WAKE_MS) == select.POLLIN
    assert b"three" in os.read(fd, 1000)
    assert polled(fd, select.POLLIN, 0) == 0
    writer.join()


def test_select_and_epoll_wait_for_follow(orders: Path, opened: Callable[..., int]) -> None:
    fd, other = opened(orders / "follow"), opened(orders / "follow")
    with select.epoll() as epoll:
        epoll.register(fd, select.EPOLLIN | select.EPOLLET)
        for number in range(3):
            writer = appended_soon(orders, b"%d\n" % number)
            assert epoll.poll(WAKE_MS / 1000) == [(fd, select.EPOLLIN)]
            assert select.select([other], [], [], WAKE_MS / 1000)[0] == [other]
            assert os.read(fd, 100) == os.read(other, 100) == b"%d\n" % number
            writer.join()
        assert epoll.poll(0) == []


def test_a_deleted_partition_wakes_pollers(mount: Mount, tmp_path: Path, opened: Callable[..., int]) -> None:
    (tmp_path / "log").mkdir()
    path = mount(tmp_path / "log", "create,delete").path / "orders-0"
    path.mkdir()
    fd = opened(path / "follow")
    assert polled(fd, select.POLLIN, 0) == 0
    path.rmdir()
    assert polled(fd, select.POLLIN, WAKE_MS) & select.POLLHUP


# --- growing views ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["values", "records.ndjson"])
def test_a_growing_view_is_readable_when_there_is_more(orders: Path, opened: Callable[..., int], name: str) -> None:
    fd = opened(orders / name)
    assert polled(fd, select.POLLIN, 0) == select.POLLIN
    while os.read(fd, 1000):
        pass
    assert polled(fd, select.POLLIN, 0) == 0
    writer = appended_soon(orders, b"three\n")
    begun = time.monotonic()
    assert polled(fd, select.POLLIN, WAKE_MS) == select.POLLIN and time.monotonic() - begun < WAKE_MS / 2000
    writer.join()
    assert b"three" in os.read(fd, 1000)


def test_a_selector_that_reads_little_at_a_time_gets_all_of_a_view(orders: Path, opened: Callable[..., int]) -> None:
    fd, seen = opened(orders / "values"), b""
    while seen != b"one\ntwo\n":
        assert polled(fd, select.POLLIN, WAKE_MS) == select.POLLIN
        seen += os.read(fd, 3)


def test_a_sealed_range_is_always_ready(orders: Path, opened: Callable[..., int]) -> None:
    for name in ("range/0..1", "0", "next"):
        assert polled(opened(orders / name), select.POLLIN, 0) == select.POLLIN


# --- append ----------------------------------------------------------------------------------------------------------


def test_append_is_writable_while_there_is_space(orders: Path, opened: Callable[..., int]) -> None:
    fd = opened(orders / "append", os.O_WRONLY)
    assert polled(fd, select.POLLOUT, 0) == select.POLLOUT


def test_a_writer_that_does_not_block_polls_for_space(mount: Mount, tmp_path: Path, opened: Callable[..., int]) -> None:
    (tmp_path / "log").mkdir()
    options = "create,batch-bytes=64k,buffer-bytes=128k,linger-ms=20"
    path = mount(tmp_path / "log", options).path / "orders-0"
    path.mkdir()
    fd = opened(path / "append", os.O_WRONLY | os.O_NONBLOCK)
    lines = b"".join(b"%099d\n" % number for number in range(20_000))
    sent, waits = 0, 0
    while sent < len(lines):
        try:
            sent += os.write(fd, lines[sent : sent + 100_000])
        except BlockingIOError:
            waits += 1
            assert polled(fd, select.POLLOUT, WAKE_MS) & select.POLLOUT
    os.fsync(fd)
    assert (path / "values").read_bytes() == lines


# --- tail ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["-f", "-F"])
def test_tail_repeats_and_leaves_out_nothing_over_retention(mount: Mount, tmp_path: Path, how: str) -> None:
    (tmp_path / "log").mkdir()
    task_options = "log.initial.task.delay.ms=0,log.retention.check.interval.ms=50"
    segments = "segment.bytes=4096,max.message.bytes=4096,retention.bytes=12000"
    path = mount(tmp_path / "log", f"create,linger-ms=0,{task_options},{segments}").path / "orders-0"
    path.mkdir()
    append(path, b"line 0000 begin\n")
    tail = subprocess.Popen(["tail", how, "-s", "0.05", "-n", "+1", path / "values"], stdout=subprocess.PIPE, text=True)
    try:
        assert tail.stdout is not None and tail.stdout.readline() == "line 0000 begin\n"
        seen: list[str] = []
        wanted = [f"line {number:04d} {'x' * 200}" for number in range(1, 200)]
        for line in wanted:
            append(path, line.encode() + b"\n")
            if int(line[5:9]) % 20 == 0:  # retention waits for none, and tail looks twenty times a second
                seen += [tail.stdout.readline().rstrip("\n") for _ in range(20)]
        seen += [tail.stdout.readline().rstrip("\n") for _ in wanted[len(seen) :]]
        assert seen == wanted
        assert int((path / "start").read_text()) > 0  # retention was there
    finally:
        tail.kill()
        tail.communicate()


def test_a_read_only_mount_wakes_for_what_another_process_writes(mount: Mount, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    writing = mount(tmp_path / "log", "create,linger-ms=0").path / "orders-0"
    writing.mkdir()
    reading = mount(tmp_path / "log", "ro").path / "orders-0"
    fd = os.open(reading / "follow", os.O_RDONLY)
    writer = appended_soon(writing, b"one\n")
    begun = time.monotonic()
    assert polled(fd, select.POLLIN, WAKE_MS) == select.POLLIN and time.monotonic() - begun < WAKE_MS / 2000
    assert os.read(fd, 100) == b"one\n"
    writer.join()
    with subprocess.Popen(["cat", "follow"], cwd=reading, stdout=subprocess.PIPE) as cat:
        assert soon(lambda: is_blocked_in_read(cat.pid))
        append(writing, b"two\n")
        assert cat.stdout is not None and cat.stdout.readline() == b"two\n"
        cat.kill()
    os.close(fd)
