"""Limits of connections and requests: how many, how large, how long; clients that pipeline; the end of the broker."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import socket
import struct
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from fixtures.broker.running import Running, decoded, framed, received, reserved_bytes

from offsetfs.common.task_runner import TaskRunner
from offsetfs.kafka.broker.connections import idle_connections
from offsetfs.kafka.broker.connections.closed_peers import ClosedPeers
from offsetfs.kafka.broker.connections.listeners import open_listeners
from offsetfs.kafka.broker.connections.request_limits import (
    FREE_BYTES_MAX,
    LARGE_MAX,
    LOGGED_S,
    PAUSE_S_MAX,
    RareLines,
    RequestLimits,
)
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.kafka.broker.server import serve, serve_until
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.maintenance.background_tasks import TaskQueue

pytestmark = pytest.mark.unit

LONG_WAIT = m.FetchRequest(
    max_wait_ms=60_000,
    min_bytes=1,
    topics=[m.FetchRequestFetchTopic(topic="t", partitions=[m.FetchRequestFetchPartition(0, partition_max_bytes=99)])],
)
VERSIONS = m.ApiVersionsRequest()
MANY_NAMES = m.MetadataRequest([m.MetadataRequestTopic(name=f"{each:0200}") for each in range(1000)], False)


@asynccontextmanager
async def serving(directory: LogDirectory, nursery: trio.Nursery, **settings: Any) -> AsyncIterator[Running]:
    running = Running(directory, replace(ServerSettings(), **settings))
    nursery.start_soon(running.run)
    yield running
    running.broker.stop()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(30):
        while not condition():
            await trio.sleep(0.005)


async def test_a_client_that_pipelines_and_leaves_while_a_fetch_waits_is_noticed(running: Running) -> None:
    """The next request hid the end of the connection: the Fetch waited for its whole time."""
    stream = await trio.open_tcp_stream(*running.address)
    await stream.send_all(framed(1, "Fetch", 11, LONG_WAIT) + framed(18, "ApiVersions", 0, VERSIONS))
    await until(lambda: any(each._waiting is not None for each in running.broker._connections))
    await stream.aclose()
    await until(lambda: not running.broker._connections)


async def test_a_client_that_leaves_while_a_later_fetch_waits_is_noticed(running: Running) -> None:
    """A connection is watched from its first request that may wait."""
    stream = await trio.open_tcp_stream(*running.address)
    short = m.FetchRequest(max_wait_ms=1, min_bytes=1, topics=LONG_WAIT.topics)
    for _ in range(2):
        await stream.send_all(framed(1, "Fetch", 11, short))
        await received(stream)
    await stream.send_all(framed(1, "Fetch", 11, LONG_WAIT))
    await stream.aclose()
    await until(lambda: not running.broker._connections)
    assert not running.broker._closed_peers._scopes


async def test_a_descriptor_that_is_used_again_is_watched_anew(nursery: trio.Nursery) -> None:
    peers = ClosedPeers()
    nursery.start_soon(peers.run)
    for has_left in (False, True):  # before the connection is closed
        ours, theirs = socket.socketpair()
        with peers.until_closed(ours):
            if has_left:
                theirs.close()
                await trio.sleep(30)
        for _ in range(2):
            with peers.until_closed(ours) as scope:
                await trio.testing.wait_all_tasks_blocked()
            assert scope.cancelled_caught == has_left
        theirs.close()
        another, theirs = socket.socketpair()
        peers.forget(ours)
        descriptor = ours.detach()
        os.dup2(another.fileno(), descriptor)  # closes it
        another.close()
        ours = socket.socket(fileno=descriptor)
        with trio.fail_after(30), peers.until_closed(ours) as scope:
            await trio.testing.wait_all_tasks_blocked()
            assert not scope.cancel_called
            theirs.close()
            await trio.sleep_forever()
        assert scope.cancelled_caught
        peers.forget(ours)
        ours.close()
    assert not peers._scopes and not peers._closed


async def test_a_fetch_that_waits_is_not_cancelled_by_the_next_request(running: Running) -> None:
    stream = await trio.open_tcp_stream(*running.address)
    short = m.FetchRequest(max_wait_ms=100, min_bytes=1, topics=LONG_WAIT.topics)
    async with stream:
        await stream.send_all(framed(1, "Fetch", 11, short) + framed(18, "ApiVersions", 0, VERSIONS))
        fetched = decoded(1, "Fetch", 11, await received(stream))
        assert fetched.responses[0].topic == "t"


async def test_pipelined_requests_are_answered_in_order(running: Running) -> None:
    requests = b"".join(
        struct.pack(">i", len(body)) + body
        for body in (struct.pack(">hhih", 18, 0, number, -1) for number in range(200))
    )
    stream = await trio.open_tcp_stream(*running.address)
    answers = b""
    async with stream:
        await stream.send_all(requests)
        seen: list[int] = []
        with trio.fail_after(30):
            while len(seen) < 200:
                answers += await stream.receive_some()
                while len(answers) >= 8 and len(answers) >= 4 + struct.unpack_from(">i", answers)[0]:
                    size, number = struct.unpack_from(">ii", answers)
                    seen.append(number)
                    answers = answers[4 + size :]
    assert seen == list(range(200))


@pytest.mark.expect_log("1 connection refused, the last one from 127.0.0.1: max.connections")
@pytest.mark.parametrize("setting", ["max_connections", "max_connections_per_ip"])
async def test_connections_above_a_limit_are_closed(
    directory: LogDirectory, nursery: trio.Nursery, setting: str
) -> None:
    async with serving(directory, nursery, **{setting: 2}) as running:
        kept = [await trio.open_tcp_stream(*running.address) for _ in range(2)]
        await until(lambda: len(running.broker._connections) == 2)
        refused = await trio.open_tcp_stream(*running.address)
        assert await refused.receive_some() == b""
        await refused.aclose()
        await kept.pop().aclose()
        await until(lambda: len(running.broker._connections) == 1)
        assert (await running.send(18, "ApiVersions", 0, VERSIONS)).error_code == ErrorCode.NONE
        await kept.pop().aclose()


async def test_what_clients_cause_is_logged_once_in_a_while(autojump_clock: trio.testing.MockClock) -> None:
    refusals = RareLines()
    assert [refusals.count() for _ in range(1000)] == [1] + [0] * 999
    await trio.sleep(LOGGED_S + 1)
    assert refusals.count() == 1000


@pytest.mark.expect_log("127.0.0.1: connection closed: API 99 in version 0, which was not offered$")
async def test_connections_with_wrong_requests_do_not_fill_the_log(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """Each was a line: a client could fill the disk with them."""
    for _ in range(5):
        stream = await trio.open_tcp_stream(*running.address)
        async with stream:
            await stream.send_all(struct.pack(">ihhih", 10, 99, 0, 7, -1))
            assert await received(stream) == b""
    assert len([each for each in caplog.messages if "connection closed" in each]) == 1


async def test_an_idle_connection_is_closed(directory: LogDirectory, nursery: trio.Nursery) -> None:
    async with serving(directory, nursery, connections_max_idle_ms=50) as running:
        stream = await trio.open_tcp_stream(*running.address)
        await stream.send_all(framed(18, "ApiVersions", 0, VERSIONS))
        assert await received(stream)
        with trio.fail_after(30):
            assert await stream.receive_some() == b""
        await stream.aclose()


async def test_a_client_that_reads_no_response_is_idle(directory: LogDirectory, nursery: trio.Nursery) -> None:
    async with serving(directory, nursery, connections_max_idle_ms=50) as running:
        stream = await trio.open_tcp_stream(*running.address)
        nursery.start_soon(_send_until_closed, stream)
        await until(lambda: bool(running.broker._connections))
        await until(lambda: not running.broker._connections)


async def _send_until_closed(stream: trio.SocketStream) -> None:
    async with stream:
        with contextlib.suppress(trio.BrokenResourceError):
            while True:
                await stream.send_all(framed(3, "Metadata", 8, MANY_NAMES))


async def test_a_client_that_pipelines_does_not_keep_others_waiting(running: Running) -> None:
    """Its requests arrive together: nothing is waited for between them."""
    stream, other = [await trio.open_tcp_stream(*running.address) for _ in range(2)]
    request = framed(18, "ApiVersions", 0, VERSIONS)
    await stream.send_all(request * 1000)
    await other.send_all(request)
    assert await received(other)
    assert any(len(each._ahead) > len(request) for each in running.broker._connections), "requests are left"
    await stream.aclose()
    await other.aclose()


async def test_a_fetch_may_wait_longer_than_a_connection_may_be_idle(
    directory: LogDirectory, nursery: trio.Nursery
) -> None:
    async with serving(directory, nursery, connections_max_idle_ms=300) as running:
        request = m.FetchRequest(max_wait_ms=700, min_bytes=1, topics=LONG_WAIT.topics)
        assert (await running.send(1, "Fetch", 11, request)).responses[0].topic == "t"


async def test_a_large_request_is_answered(running: Running) -> None:
    """Requests other than Produce of more than 8 MiB once ended the connection."""
    assignments = [m.SyncGroupRequestAssignment("a", bytes(9 << 20))]
    response = await running.send(14, "SyncGroup", 3, m.SyncGroupRequest("g", 1, "a", assignments=assignments))
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.security("A request whose arrays have more than 100,000 elements ends its connection.")
@pytest.mark.expect_log("the message has more than 100000 elements in arrays")
async def test_a_request_that_would_fill_the_memory_ends_its_connection(running: Running) -> None:
    body = struct.pack(">hhihi", 3, 1, 7, -1, 100_001) + b"\0\0" * 100_001
    stream = await trio.open_tcp_stream(*running.address)
    async with stream:
        await stream.send_all(struct.pack(">i", len(body)) + body)
        assert await received(stream) == b""
    assert (await running.send(18, "ApiVersions", 0, VERSIONS)).error_code == ErrorCode.NONE


async def test_requests_above_the_limit_wait_and_waiting_fetches_do_not_count(
    directory: LogDirectory, nursery: trio.Nursery
) -> None:
    async with serving(directory, nursery, queued_max_requests=1) as running:
        waiting = await trio.open_tcp_stream(*running.address)
        await waiting.send_all(framed(1, "Fetch", 11, LONG_WAIT))
        await until(lambda: any(each._waiting is not None for each in running.broker._connections))
        assert (await running.send(18, "ApiVersions", 0, VERSIONS)).error_code == ErrorCode.NONE
        await running.broker._shared.limits.begin()
        stream = await trio.open_tcp_stream(*running.address)
        await stream.send_all(framed(18, "ApiVersions", 0, VERSIONS))
        with trio.move_on_after(0.05) as too_early:
            await stream.receive_some()
        assert too_early.cancelled_caught
        running.broker._shared.limits.end()
        assert await received(stream)
        await stream.aclose()
        await waiting.aclose()


@pytest.mark.security(
    "The requests of all connections together take bounded memory; at the limit, further requests wait."
)
async def test_memory_is_granted_in_order_and_a_request_above_the_limit_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    limits, mebibyte = RequestLimits(1, 10 << 20), 1 << 20
    granted: list[int] = []

    async def take(size: int) -> None:
        await limits.reserve(size)
        granted.append(size)

    await limits.reserve(8 * mebibyte)
    async with trio.open_nursery() as nursery:
        for size in (50 * mebibyte, mebibyte):
            nursery.start_soon(take, size)
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(take, FREE_BYTES_MAX)
        await trio.testing.wait_all_tasks_blocked()
        assert granted == [FREE_BYTES_MAX]
        limits.release(8 * mebibyte)
        await trio.testing.wait_all_tasks_blocked()
        assert granted == [FREE_BYTES_MAX, 50 * mebibyte]
        limits.release(50 * mebibyte)
    assert granted[-1] == mebibyte


async def test_a_request_whose_client_leaves_while_it_waits_for_memory_takes_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    limits = RequestLimits(1, 1 << 20)
    await limits.reserve(1 << 20)
    with trio.move_on_after(1) as left:
        await limits.reserve(1 << 19)
    assert left.cancelled_caught
    limits.release(1 << 20)
    assert (reserved_bytes(limits), limits.waiting_count) == (0, 0)


async def test_a_size_alone_takes_no_memory(running: Running) -> None:
    stream = await trio.open_tcp_stream(*running.address)
    tracemalloc.start()
    try:
        await stream.send_all(struct.pack(">ihhi", 100 << 20, 0, 9, 1))
        await until(lambda: bool(reserved_bytes(running.broker._shared.limits)))
        await trio.testing.wait_all_tasks_blocked()  # the connection waits for the rest
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    await stream.aclose()
    await until(lambda: not reserved_bytes(running.broker._shared.limits))


async def test_a_client_that_does_not_read_keeps_no_memory_from_requests(running: Running) -> None:
    """A hundred of them kept all requests above 64 KiB waiting for ten minutes."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_send_until_closed, await trio.open_tcp_stream(*running.address))
        await until(lambda: any(each.unread_bytes for each in running.broker._connections))
        assert reserved_bytes(running.broker._shared.limits) == 0
        nursery.cancel_scope.cancel()


@pytest.mark.security("Responses that clients do not read take bounded memory; at the limit, their connections end.")
@pytest.mark.expect_log("the client does not read a response, of which [0-9]+ bytes are left")
async def test_responses_that_are_not_read_take_bounded_memory(
    directory: LogDirectory, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_connections, "_CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(idle_connections, "UNREAD_S", 0.01)
    async with serving(directory, nursery, queued_max_request_bytes=4) as running:
        nursery.start_soon(_send_until_closed, await trio.open_tcp_stream(*running.address))
        await until(lambda: any(each.unread_bytes for each in running.broker._connections))
        await until(lambda: not running.broker._connections)


@pytest.mark.expect_log("long: connection closed: the client does not read a response, of which 50 bytes are left")
async def test_those_that_have_waited_longest_make_space(autojump_clock: trio.testing.MockClock) -> None:
    ended: list[str] = []

    @dataclass
    class Waiting:
        host: str
        waiting_since: float
        unread_bytes: int
        arriving_bytes: int = 0
        arriving_since: float = 0.0

        def end(self) -> None:
            self.unread_bytes = 0
            ended.append(self.host)

    now_s = trio.current_time()
    all_of_them = [Waiting("new", now_s + 1000, 50), Waiting("short", now_s - 5, 50), Waiting("long", now_s - 9, 50)]
    with trio.move_on_after(3):
        await idle_connections.end_unread_responses(all_of_them, 150)
    assert ended == []
    with trio.move_on_after(3):
        await idle_connections.end_unread_responses(all_of_them, 120)
    assert ended == ["long"]


@pytest.mark.security("Small requests wait for a few large ones at most, not for those of all connections.")
async def test_few_large_requests_are_handled_at_a_time(autojump_clock: trio.testing.MockClock) -> None:
    """Two hundred clients with many names kept all others waiting for 20 seconds: each takes the event loop."""
    limits, begun = RequestLimits(500, 1 << 30), 0

    async def begin() -> None:
        nonlocal begun
        await limits.begin(is_large=True)
        begun += 1

    async with trio.open_nursery() as nursery:
        for _ in range(LARGE_MAX + 1):
            nursery.start_soon(begin)
        await trio.testing.wait_all_tasks_blocked()
        assert begun == LARGE_MAX
        with trio.fail_after(1):
            await limits.begin()
        limits.end(is_large=True)
        await trio.testing.wait_all_tasks_blocked()
        assert begun == LARGE_MAX + 1


async def test_a_large_request_is_followed_by_a_pause_if_others_wait(autojump_clock: trio.testing.MockClock) -> None:
    limits, begun_s = RequestLimits(500, 1 << 30), trio.current_time()
    for _ in range(LARGE_MAX):
        await limits.begin(is_large=True)
    await limits.pause(begun_s - 0.1)
    assert trio.current_time() == begun_s
    async with trio.open_nursery() as nursery:
        nursery.start_soon(functools.partial(limits.begin, is_large=True))
        await trio.testing.wait_all_tasks_blocked()
        await limits.pause(begun_s - 0.1)
        assert trio.current_time() == pytest.approx(begun_s + 0.1)
        await limits.pause(begun_s - 5)
        assert trio.current_time() == pytest.approx(begun_s + 0.1 + PAUSE_S_MAX)
        limits.end(is_large=True)


async def test_large_requests_of_clients_that_have_left_are_not_handled(running: Running) -> None:
    """Requests that had arrived took the event loop for minutes after 200 clients with many names had left."""
    limits = running.broker._shared.limits
    for _ in range(LARGE_MAX):
        await limits.begin(is_large=True)
    stream = await trio.open_tcp_stream(*running.address)
    await stream.send_all(framed(3, "Metadata", 8, MANY_NAMES))
    await until(lambda: limits._large_slots.statistics().tasks_waiting == 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets the connection
    await stream.aclose()
    limits.end(is_large=True)
    await until(lambda: not running.broker._connections)
    assert running.broker._metrics.sent_bytes == 0
    assert not running.broker._metrics.apis["Metadata"].requests


async def test_a_large_request_that_is_cancelled_leaves_its_place(autojump_clock: trio.testing.MockClock) -> None:
    limits = RequestLimits(1, 1 << 30)
    await limits.begin()
    for _ in range(LARGE_MAX + 1):
        with trio.move_on_after(1) as left:
            await limits.begin(is_large=True)
        assert left.cancelled_caught
    limits.end()
    with trio.fail_after(1):
        await limits.begin(is_large=True)


# --- the end of the broker -------------------------------------------------------------------------------------------


async def test_requests_that_wait_are_answered_at_once_when_the_broker_ends(
    directory: LogDirectory, nursery: trio.Nursery
) -> None:
    """The end once took up to five seconds, and members of groups lost their connection without an answer."""
    running = Running(directory)
    nursery.start_soon(running.run)
    join = m.JoinGroupRequest(
        "g", 10_000, 10_000, protocol_type="consumer", protocols=[m.JoinGroupRequestProtocol("range", b"")]
    )
    assert (await running.send(11, "JoinGroup", 3, join)).error_code == ErrorCode.NONE
    fetching, joining = [await trio.open_tcp_stream(*running.address) for _ in range(2)]
    await fetching.send_all(framed(1, "Fetch", 11, LONG_WAIT))
    await joining.send_all(framed(11, "JoinGroup", 3, join))  # waits for the first member
    await until(lambda: [each._waiting is not None for each in running.broker._connections] == [True, True])
    started = trio.current_time()
    running.broker.stop()
    fetched = decoded(1, "Fetch", 11, await received(fetching))
    joined = decoded(11, "JoinGroup", 3, await received(joining))
    assert fetched.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert joined.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await until(lambda: not running.broker._connections)
    assert trio.current_time() - started < 30
    for stream in (fetching, joining):
        await stream.aclose()


async def test_a_signal_while_the_directory_is_closed_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Ctrl-C or SIGTERM once left a directory that was not cleanly closed."""
    close = LogDirectory.close
    numbers = [signal.SIGTERM, signal.SIGINT]
    token = trio.lowlevel.current_trio_token()

    def interrupted(directory: LogDirectory) -> None:
        for number in numbers:
            os.kill(os.getpid(), number)
        trio.from_thread.run(trio.sleep, 0.01, trio_token=token)
        close(directory)

    served = LogDirectory.open(os.fspath(tmp_path))
    served.create_partitions([TopicPartition("t", 0)])
    monkeypatch.setattr(LogDirectory, "close", interrupted)
    listeners = open_listeners((ListenerSettings(("127.0.0.1", 0)),), "port")
    with trio.fail_after(30):
        await serve(served, ServerSettings(), listeners, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert (tmp_path / ".kafka_cleanshutdown").exists()


async def test_what_runs_beside_a_broker_runs_as_long_as_it(tmp_path: Path) -> None:
    """Once the argument was lost on its way, and commands waited for a control server that did not run."""
    steps = list[str]()
    began = trio.Event()

    async def beside() -> None:
        steps.append("began")
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            steps.append("ended")

    async def end_it() -> None:
        with trio.move_on_after(30):
            await began.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    listeners = open_listeners((ListenerSettings(("127.0.0.1", 0)),), "port")
    async with trio.open_nursery() as nursery:
        directory = LogDirectory.open(os.fspath(tmp_path))
        await serve(directory, ServerSettings(), listeners, lambda *_: nursery.start_soon(end_it), beside)
    assert steps == ["began", "ended"]


async def test_an_error_of_the_last_flush_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close = LogDirectory.close

    def fails(directory: LogDirectory) -> None:
        close(directory)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogDirectory, "close", fails)
    listeners = open_listeners((ListenerSettings(("127.0.0.1", 0)),), "port")
    served = LogDirectory.open(os.fspath(tmp_path))
    with pytest.raises(OSError, match="No space left"), trio.fail_after(30):
        await serve(served, ServerSettings(), listeners, lambda *_: os.kill(os.getpid(), signal.SIGINT))


async def test_a_fetch_that_waits_keeps_no_memory_from_others(directory: LogDirectory, nursery: trio.Nursery) -> None:
    """Sixteen times the size of a Fetch request was reserved as long as it waited for records."""
    many = [m.FetchRequestFetchPartition(each, partition_max_bytes=99) for each in range(3000)]
    topics = [m.FetchRequestFetchTopic(topic="nowhere", partitions=many), *LONG_WAIT.topics]
    fetch = m.FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics)
    async with serving(directory, nursery, queued_max_request_bytes=1 << 20) as running:
        waits, other = [await trio.open_tcp_stream(*running.address) for _ in range(2)]
        await waits.send_all(framed(1, "Fetch", 11, fetch))
        await until(lambda: any(each._waiting is not None for each in running.broker._connections))
        names = m.MetadataRequest([m.MetadataRequestTopic(name="x" * 200)] * 100, allow_auto_topic_creation=False)
        with trio.fail_after(30):
            await other.send_all(framed(3, "Metadata", 8, names))
            assert decoded(3, "Metadata", 8, await received(other)).topics
        assert any(each._waiting is not None for each in running.broker._connections)
        await waits.aclose()
        await other.aclose()


@pytest.mark.expect_log("a request of 1048000 bytes has stopped arriving, and others wait for its memory")
async def test_a_half_request_does_not_keep_others_waiting(
    directory: LogDirectory, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first bytes of a few large requests once stopped all other large requests for ten minutes."""
    monkeypatch.setattr(idle_connections, "STALL_S", 0.1)
    monkeypatch.setattr(idle_connections, "_CHECK_INTERVAL_S", 0.02)
    async with serving(directory, nursery, queued_max_request_bytes=1 << 20) as running:
        half, alone = [await trio.open_tcp_stream(*running.address) for _ in range(2)]
        await half.send_all(struct.pack(">ihhi", 1_048_000, 0, 9, 1))
        await until(lambda: any(each.arriving_bytes for each in running.broker._connections))
        await trio.sleep(0.15)
        assert len(running.broker._connections) == 2, "nothing waits for the memory yet"
        names = m.MetadataRequest([m.MetadataRequestTopic(name="x" * 200)] * 100, allow_auto_topic_creation=False)
        await alone.send_all(framed(3, "Metadata", 8, names))
        assert decoded(3, "Metadata", 8, await received(alone)).topics
        assert await half.receive_some() == b""
        await half.aclose()
        await alone.aclose()


async def test_small_requests_do_not_wait_for_large_ones_that_do_not_arrive(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each size of 100 MiB that a client announced kept all requests above 64 KiB waiting for `STALL_S`."""
    monkeypatch.setattr(idle_connections, "STALL_S", 60.0)
    bombs = [await trio.open_tcp_stream(*running.address) for _ in range(3)]
    for each in bombs:
        await each.send_all(struct.pack(">ihhi", 100 << 20, 3, 9, 1))
    await until(lambda: running.broker._shared.limits.waiting_count == 2)
    names = m.MetadataRequest([m.MetadataRequestTopic(name="x" * 200)] * 100, allow_auto_topic_creation=False)
    with trio.fail_after(30):
        assert (await running.send(3, "Metadata", 8, names)).topics
    for each in bombs:
        await each.aclose()


@pytest.mark.expect_log("a request of 1048000 bytes has stopped arriving, and others wait for its memory")
async def test_a_request_that_arrives_byte_by_byte_does_not_keep_others_waiting(
    directory: LogDirectory, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the time since the last byte counted."""
    monkeypatch.setattr(idle_connections, "STALL_S", 0.1)
    monkeypatch.setattr(idle_connections, "ARRIVAL_BYTES_PER_S", 1 << 30)
    monkeypatch.setattr(idle_connections, "_CHECK_INTERVAL_S", 0.02)
    async with serving(directory, nursery, queued_max_request_bytes=1 << 20) as running:
        slow = await trio.open_tcp_stream(*running.address)
        await slow.send_all(struct.pack(">ihhi", 1_048_000, 0, 9, 1))
        await until(lambda: any(each.arriving_bytes for each in running.broker._connections))
        nursery.start_soon(_trickle, slow)
        names = m.MetadataRequest([m.MetadataRequestTopic(name="x" * 200)] * 100, allow_auto_topic_creation=False)
        with trio.fail_after(30):
            assert (await running.send(3, "Metadata", 8, names)).topics


async def _trickle(stream: trio.SocketStream) -> None:
    async with stream:
        with contextlib.suppress(trio.BrokenResourceError):
            while True:
                await stream.send_all(b"x")
                await trio.sleep(0.02)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            "a TLS handshake; the client needs security.protocol=PLAINTEXT",
        ),
        (b"GET / HTTP/1.1\r\n", "an HTTP request; this is a port for Kafka clients"),
    ],
)
@pytest.mark.expect_log("connection closed")
async def test_a_client_of_another_protocol_is_recognized(
    running: Running, first: bytes, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream = await trio.open_tcp_stream(*running.address)
    async with stream:
        await stream.send_all(first)
        assert await received(stream) == b""
    assert f"127.0.0.1: connection closed: {expected}" in caplog.text


@pytest.mark.expect_log("a connection could not be accepted: Too many open files; raise the limit of open files")
async def test_the_limit_of_open_files_is_named_and_survived(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    (listener, _), *_ = running.broker._listeners
    accept, failures = type(listener).accept, [OSError(errno.EMFILE, "Too many open files")]

    def fails_once(self: socket.socket) -> object:
        found = accept(self)
        if failures:
            found[0].close()
            raise failures.pop()
        return found

    monkeypatch.setattr(type(listener), "accept", fails_once)
    refused = await trio.open_tcp_stream(*running.address)
    assert await refused.receive_some() == b""
    await refused.aclose()
    assert (await running.send(18, "ApiVersions", 0, VERSIONS)).error_code == ErrorCode.NONE


async def test_a_broker_that_fails_stops_its_background_tasks(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a long compaction was awaited."""
    ended = threading.Event()
    monkeypatch.setattr(TaskQueue, "next_due", lambda _: 0.0)
    monkeypatch.setattr(TaskQueue, "run_due", lambda _: ended.wait(60))
    monkeypatch.setattr(TaskRunner, "stop", lambda _: ended.set())
    listeners = open_listeners((ListenerSettings(("127.0.0.1", 0)),), "port")

    async def fail() -> None:
        await trio.sleep(0.05)
        raise ValueError("a mistake of ours")

    with pytest.raises(ExceptionGroup), trio.fail_after(30):
        await serve_until(fail, directory, ServerSettings(), listeners, lambda *_: None)
    assert ended.is_set()
