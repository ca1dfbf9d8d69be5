"""Fetch: sessions, limits, leader epochs, and what wakes a request that waits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from fixtures.broker.running import Running, framed, received
from fixtures.logs.planted_logs import data, marker

from offsetfs.kafka.broker.batches.fetch import Fetching
from offsetfs.kafka.broker.cluster import BrokerNode
from offsetfs.kafka.broker.connections.connection import Connection
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import BatchBuilder, BatchRange, LogDirectory, TopicPartition
from offsetfs.storage.partition.producers import ABORT

pytestmark = pytest.mark.unit

NODE = BrokerNode(1, "test", "127.0.0.1", 9092)
NOW = 1_800_000_000_000
FIRST = TopicPartition("t", 0)
SECOND = TopicPartition("t", 1)
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def append(directory: LogDirectory, partition: TopicPartition, value: bytes = b"v", *, times: int = 1) -> None:
    for _ in range(times):
        builder = BatchBuilder(1 << 16)
        builder.append(None, value, (), NOW)
        directory.log(partition).append(builder.seal())


class Client:
    """Sends Fetch requests to the handler itself, in a session if it has begun one."""

    def __init__(self, directory: LogDirectory, settings: ServerSettings | None = None) -> None:
        self.topics = Topics(directory, 1, creates=False)
        self.fetching = Fetching(self.topics, NODE, settings or ServerSettings(), BrokerMetrics())
        self.session_id, self.epoch = 0, -1

    async def fetch(
        self,
        wanted: Sequence[tuple[int, int]] = (),
        *,
        topic: str = "t",
        topic_id: bytes = b"",
        forgotten: Sequence[int] = (),
        version: int = 12,
        wait_ms: int = 0,
        partition_bytes: int = 1 << 20,
        **fields: Any,
    ) -> m.FetchResponse:
        partitions = [
            m.FetchRequestFetchPartition(number, fetch_offset=offset, partition_max_bytes=partition_bytes)
            for number, offset in wanted
        ]
        for each in partitions:
            each.current_leader_epoch = fields.get("leader_epoch", -1)
            each.last_fetched_epoch = fields.get("last_fetched_epoch", -1)
        names: dict[str, Any] = {"topic_id": topic_id} if topic_id else {"topic": topic}
        request = m.FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=fields.get("min_bytes", 1),
            max_bytes=fields.get("max_bytes", 1 << 30),
            isolation_level=fields.get("isolation_level", 0),
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[m.FetchRequestFetchTopic(partitions=partitions, **names)] if partitions else [],
            forgotten_topics_data=[m.FetchRequestForgottenTopic(partitions=list(forgotten), **names)],
        )
        response = await self.fetching.fetch(request, version)
        assert response is not None
        return response

    async def begin(self, wanted: Sequence[tuple[int, int]], **fields: Any) -> m.FetchResponse:
        self.epoch = 0
        response = await self.fetch(wanted, **fields)
        self.session_id, self.epoch = response.session_id, 1
        return response

    async def poll(self, wanted: Sequence[tuple[int, int]] = (), **fields: Any) -> m.FetchResponse:
        response = await self.fetch(wanted, **fields)
        self.epoch += 1
        return response


def sizes(response: m.FetchResponse) -> dict[int, int]:
    """Return the bytes of records of each partition of a response, in its order."""
    found = [each for topic in response.responses for each in topic.partitions]
    return {each.partition_index: each.records.size if each.records else 0 for each in found}


def codes(response: m.FetchResponse) -> list[int]:
    return [each.error_code for topic in response.responses for each in topic.partitions]


@pytest.fixture
def two(directory: LogDirectory) -> LogDirectory:
    """A directory whose topic has two partitions with a record each."""
    directory.create_partitions([SECOND])
    append(directory, FIRST)
    append(directory, SECOND)
    return directory


# --- sessions --------------------------------------------------------------------------------------------------------


async def test_an_incremental_response_has_the_partitions_that_changed_only(two: LogDirectory) -> None:
    client = Client(two)
    assert list(sizes(await client.begin([(0, 1), (1, 1)]))) == [0, 1]
    assert sizes(await client.poll()) == {}
    append(two, SECOND)
    assert list(sizes(await client.poll())) == [1]
    assert sizes(await client.poll([(1, 2)])) == {}


async def test_records_that_the_client_has_not_taken_come_again(two: LogDirectory) -> None:
    client = Client(two)
    await client.begin([(0, 0)])
    assert sizes(await client.poll())[0] > 0
    assert sizes(await client.poll())[0] > 0


async def test_a_forgotten_partition_is_not_fetched_any_more(two: LogDirectory) -> None:
    client = Client(two)
    await client.begin([(0, 1), (1, 1)])
    await client.poll(forgotten=[1])
    append(two, SECOND)
    assert sizes(await client.poll()) == {}
    assert FIRST in client.topics.watchers and SECOND not in client.topics.watchers
    assert list(sizes(await client.poll([(1, 1)]))) == [1]


async def test_a_session_without_partitions_ends(two: LogDirectory) -> None:
    client = Client(two)
    await client.begin([(0, 1)])
    assert (await client.poll(forgotten=[0])).session_id == 0
    assert not len(client.fetching._sessions) and not client.topics.watchers


async def test_epochs_of_a_session_follow_each_other(two: LogDirectory) -> None:
    client = Client(two)
    await client.begin([(0, 1)])
    client.epoch = 5
    assert (await client.fetch()).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    client.epoch = 1
    assert (await client.fetch()).error_code == ErrorCode.NONE
    client.session_id += 1
    assert (await client.fetch()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_the_final_epoch_ends_a_session_and_is_answered_in_full(two: LogDirectory) -> None:
    client = Client(two)
    await client.begin([(0, 1)])
    client.epoch = -1
    response = await client.fetch([(0, 0)])
    assert response.session_id == 0 and sizes(response)[0] > 0
    assert not len(client.fetching._sessions) and not client.topics.watchers


async def test_a_session_keeps_to_names_or_to_ids(two: LogDirectory) -> None:
    client = Client(two)
    topic_id = client.topics.topic_id("t")
    await client.begin([(0, 1)], topic_id=topic_id, version=13)
    assert (await client.fetch(version=12)).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    append(two, FIRST)
    response = await client.poll(version=13)
    assert response.responses[0].topic_id == topic_id and sizes(response)[0] > 0


async def test_a_full_cache_replaces_an_idle_session_only(two: LogDirectory, autojump_clock: Any) -> None:
    client = Client(two, ServerSettings(max_incremental_fetch_session_cache_slots=1))
    first = await client.begin([(0, 1)])
    client.session_id = 0
    assert (await client.begin([(0, 1), (1, 1)])).session_id == 0
    await trio.sleep(121)
    replaced = await client.begin([(0, 1)])
    assert replaced.session_id not in (0, first.session_id)
    client.session_id = first.session_id
    assert (await client.fetch()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_partition_with_records_is_read_last_next_time(two: LogDirectory) -> None:
    """With a limit of one batch each partition gets its turn."""
    client = Client(two)
    await client.begin([(0, 0), (1, 0)], max_bytes=1)
    found = [next(number for number, size in sizes(await client.poll(max_bytes=1)).items() if size) for _ in range(4)]
    assert found == [1, 0, 1, 0]


async def test_a_moved_log_start_is_reported_in_a_session(two: LogDirectory) -> None:
    client = Client(two)
    append(two, FIRST, times=3)
    await client.begin([(0, 4)])
    assert sizes(await client.poll()) == {}
    two.log(FIRST).delete_records(2)
    assert sizes(await client.poll()) == {}
    client.fetching._sessions._sessions[client.session_id].scan_due_s = 0
    response = await client.poll()
    assert response.responses[0].partitions[0].log_start_offset == 2
    assert sizes(await client.poll()) == {}


async def test_a_later_request_of_a_session_ends_one_that_waits(two: LogDirectory, nursery: trio.Nursery) -> None:
    client = Client(two)
    await client.begin([(0, 1)])
    results = []

    async def wait() -> None:
        results.append(await client.fetch(wait_ms=300))

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    client.epoch += 1
    append(two, FIRST)
    assert sizes(await client.fetch())[0] > 0
    await trio.testing.wait_all_tasks_blocked()
    assert results[0].error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


async def test_a_change_that_woke_a_superseded_request_reaches_the_later_one(
    two: LogDirectory, nursery: trio.Nursery
) -> None:
    client = Client(two)
    await client.begin([(0, 1)])
    await client.poll()
    results: dict[int, m.FetchResponse] = {}

    async def wait(number: int) -> None:
        results[number] = await client.fetch(wait_ms=60_000)

    for number in (1, 2):
        nursery.start_soon(wait, number)
        await trio.testing.wait_all_tasks_blocked()
        client.epoch += 1
    append(two, FIRST)
    with trio.fail_after(30):
        while len(results) < 2:
            await trio.sleep(0.01)
    assert results[1].error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sizes(results[2])[0] > 0


async def test_a_request_that_was_cancelled_loses_no_change(
    two: LogDirectory, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has closed its connection, and goes on with its session over another one."""
    client = Client(two)
    await client.begin([(0, 1)])
    await client.poll()
    scope = trio.CancelScope()

    async def never(*_: object) -> int:
        await trio.sleep_forever()
        raise AssertionError

    async def wait() -> None:
        with scope:
            await client.fetch(wait_ms=60_000)

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    with monkeypatch.context() as patch:
        patch.setattr(Fetching, "_look", never)
        append(two, FIRST)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
    client.epoch += 1
    assert sizes(await client.fetch())[0] > 0


# --- waiting ---------------------------------------------------------------------------------------------------------


async def waits(client: Client, change: Any, **fields: Any) -> m.FetchResponse:
    """Return the response to a request that waits when `change` is called."""
    results: list[m.FetchResponse] = []

    async def wait() -> None:
        with trio.move_on_after(30):
            results.append(await client.fetch(wait_ms=60_000, **fields))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        with trio.fail_after(30):
            while not client.topics.watchers:  # a request whose look is still in a thread would find the change itself
                await trio.sleep(0.001)
        assert not results
        change()
    assert results, "nothing woke the request"
    return results[0]


async def test_an_append_wakes_a_request(two: LogDirectory) -> None:
    client = Client(two)

    response = await waits(client, lambda: append(two, SECOND), wanted=[(0, 1), (1, 1)])
    assert sizes(response)[0] == 0 and sizes(response)[1] > 0
    assert not client.topics.watchers


async def test_a_deleted_topic_ends_a_request_at_once(two: LogDirectory) -> None:
    client = Client(two)
    topic_id = client.topics.topic_id("t")

    response = await waits(
        client, lambda: client.topics.delete_logs([FIRST, SECOND]), wanted=[(0, 1)], topic_id=topic_id, version=13
    )
    assert codes(response) == [ErrorCode.UNKNOWN_TOPIC_ID]


async def test_a_topic_that_was_created_again_has_another_id(two: LogDirectory) -> None:
    client = Client(two)
    old = client.topics.topic_id("t")
    await client.begin([(0, 1)], topic_id=old, version=13)
    client.topics.delete_logs([FIRST, SECOND])
    two.create_partitions([FIRST])
    assert codes(await client.poll(version=13)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert client.topics.topic_id("t") != old
    client.session_id, client.epoch = 0, -1
    assert codes(await client.fetch([(0, 0)], topic_id=client.topics.topic_id("t"), version=13)) == [0]


async def test_deleted_records_end_a_request_below_the_log_start(two: LogDirectory) -> None:
    client = Client(two)
    append(two, FIRST, times=3)

    def delete() -> None:
        two.log(FIRST).delete_records(3)
        client.topics.changed(FIRST)

    response = await waits(client, delete, wanted=[(0, 2)], min_bytes=10_000)
    assert codes(response) == [ErrorCode.OFFSET_OUT_OF_RANGE]


async def test_a_topic_that_is_not_there_lets_the_others_wait(two: LogDirectory) -> None:
    client = Client(two)

    response = await waits(client, lambda: append(two, FIRST), wanted=[(0, 1), (7, 0)])
    assert codes(response) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_appends_between_two_requests_of_a_session_are_found(two: LogDirectory) -> None:
    client = Client(two)
    await client.begin([(0, 1)])
    await client.poll()
    append(two, FIRST)
    assert sizes(await client.poll())[0] > 0


async def test_records_of_another_process_are_found_while_a_request_waits(two: LogDirectory) -> None:
    reader = LogDirectory.open(two.path, read_only=True)
    try:
        response = await waits(Client(reader), lambda: append(two, FIRST), wanted=[(0, 1)])
        assert sizes(response)[0] > 0
    finally:
        reader.close()


async def test_a_topic_of_another_process_is_found(two: LogDirectory) -> None:
    reader = LogDirectory.open(two.path, read_only=True)
    try:
        client = Client(reader)
        assert client.topics.name_of(b"x" * 16) is None
        two.create_partitions([TopicPartition("new", 0)])
        topic_id = two.topic_id(TopicPartition("new", 0))
        assert topic_id is not None and client.topics.name_of(topic_id) == "new"
        two.delete_partition(TopicPartition("new", 0))
        two.create_partitions([TopicPartition("new", 0)])
        assert client.topics.name_of(topic_id) is None
    finally:
        reader.close()


async def test_a_segment_that_was_deleted_below_a_fetch_is_out_of_range(two: LogDirectory) -> None:
    """Beside a broker whose retention removes segments: an error or records of these offsets, never other bytes."""
    log = two.log(FIRST)
    for _ in range(3):
        log.roll()
        append(two, FIRST)
    reader = LogDirectory.open(two.path, read_only=True)
    try:
        client = Client(reader)
        assert sizes(await client.fetch([(0, 1)]))[0] > 0
        log.delete_records(3)
        for name in sorted(Path(log.path).glob("*.log"))[:3]:
            name.unlink()
        response = await client.fetch([(0, 0)])
        assert codes(response) == [ErrorCode.OFFSET_OUT_OF_RANGE]
        assert sizes(await client.fetch([(0, 3)]))[0] > 0
    finally:
        reader.close()


@pytest.mark.damages
@pytest.mark.expect_log("ends at byte 50000")
async def test_a_file_that_ends_before_its_range_ends_the_connection(two: LogDirectory, running: Running) -> None:
    append(two, FIRST, b"x" * 40_000, times=3)
    partition = m.FetchRequestFetchPartition(0, partition_max_bytes=1 << 20)
    request = m.FetchRequest(topics=[m.FetchRequestFetchTopic(topic="t", partitions=[partition])])
    whole = framed(1, "Fetch", 12, request)
    send_file = Connection._send_file

    async def truncated(self: Connection, part: Any) -> None:
        with Path(part.file.path).open("r+b") as file:
            file.truncate(50_000)
        await send_file(self, part)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "_send_file", truncated)
        stream = await trio.open_tcp_stream(*running.address)
        async with stream:
            await stream.send_all(whole)
            data = await received(stream)
    assert 40_000 < len(data) < 60_000


@pytest.mark.damages
@pytest.mark.promise(
    "`offsetfs serve` sends batches with the checksums that they have in the file, which clients verify, as with "
    "Kafka.",
    "`offsetfs serve` verifies the first batch of a response itself, except of a large one that it has appended since "
    "its start.",
)
async def test_a_damaged_batch_is_sent_with_its_checksum_and_never_as_the_first_one(two: LogDirectory) -> None:
    append(two, FIRST, times=2)
    client = Client(two)
    one = sizes(await client.fetch([(0, 0)], partition_bytes=1))[0]
    path = Path(two.path, str(FIRST), "00000000000000000000.log")
    content = bytearray(path.read_bytes())
    content[2 * one - 1] ^= 1  # the last byte of the second batch
    path.write_bytes(content)
    response = await client.fetch([(0, 0)])
    records = response.responses[0].partitions[0].records
    assert codes(response) == [ErrorCode.NONE] and records is not None
    assert records.file.read(records.position, records.size) == bytes(content)
    assert codes(await client.fetch([(0, 1)])) == [ErrorCode.CORRUPT_MESSAGE]
    assert codes(await client.fetch([(0, 2)])) == [ErrorCode.NONE]


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_the_first_batch_of_a_response_may_exceed_the_limits(two: LogDirectory) -> None:
    client = Client(two)
    found = sizes(await client.fetch([(0, 0), (1, 0)], partition_bytes=1))
    assert found[0] > 1 and found[1] == 0


async def test_a_limit_ends_at_a_batch(two: LogDirectory) -> None:
    client = Client(two)
    append(two, FIRST, times=9)
    one = sizes(await client.fetch([(0, 0)], partition_bytes=1))[0]
    assert sizes(await client.fetch([(0, 0)], partition_bytes=3 * one + 5))[0] == 3 * one
    assert sizes(await client.fetch([(0, 0), (1, 0)], max_bytes=11 * one)) == {0: 10 * one, 1: one}
    assert sizes(await client.fetch([(0, 0), (1, 0)], max_bytes=10 * one)) == {0: 10 * one, 1: 0}


async def test_a_committed_read_ends_at_the_last_stable_offset(two: LogDirectory) -> None:
    log, client = two.log(FIRST), Client(two)
    log.append(data(1, 0, 1))
    append(two, FIRST)

    async def fetched(isolation_level: int) -> tuple[int, int, int, list[tuple[int, int]]]:
        response = await client.fetch([(0, 0)], isolation_level=isolation_level)
        found = response.responses[0].partitions[0]
        aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
        assert isinstance(found.records, BatchRange)
        return found.high_watermark, found.last_stable_offset, found.records.offset_end, aborted

    assert await fetched(READ_COMMITTED) == (3, 1, 1, [])
    assert await fetched(READ_UNCOMMITTED) == (3, 1, 3, [])
    log.append(marker(1, ABORT))
    assert await fetched(READ_COMMITTED) == (4, 4, 4, [(1, 1)])


async def test_an_offset_beyond_the_end_is_an_error_even_when_the_limit_is_reached(two: LogDirectory) -> None:
    response = await Client(two).fetch([(0, 0), (1, 7)], max_bytes=1)
    assert codes(response) == [0, ErrorCode.OFFSET_OUT_OF_RANGE]


# --- leader epochs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A directory of a broker whose log has epoch 2 from offset 0 and epoch 5 from offset 10."""
    monkeypatch.setattr("os.fsync", lambda _fd: None)
    made = LogDirectory.open(str(tmp_path))
    made.create_partitions([FIRST])
    for epoch, start in ((2, 0), (5, 10)):
        made.log(FIRST).epochs.assign(epoch, start)
        append(made, FIRST, times=10)
    made.close()
    found = LogDirectory.open(str(tmp_path))
    yield found
    found.close()


async def test_the_leader_epoch_of_a_former_broker_is_returned_everywhere(
    epochs: LogDirectory, nursery: trio.Nursery
) -> None:
    """Metadata once returned 0: a consumer that had committed epoch 5 would have waited for a later leader."""
    running = Running(epochs)
    nursery.start_soon(running.run)
    asked = m.MetadataRequest(topics=[m.MetadataRequestTopic(name="t")])
    metadata = await running.send(3, "Metadata", 9, asked)
    assert metadata.topics[0].partitions[0].leader_epoch == 5
    listed = {}
    for timestamp in (-1, -2, -3, NOW):
        wanted = m.ListOffsetsPartition(0, current_leader_epoch=5, timestamp=timestamp)
        response = await running.send(
            2, "ListOffsets", 7, m.ListOffsetsRequest(topics=[m.ListOffsetsTopic("t", [wanted])])
        )
        found = response.topics[0].partitions[0]
        listed[timestamp] = found.error_code, found.offset, found.leader_epoch
    assert listed == {-1: (0, 20, 5), -2: (0, 0, 2), -3: (0, 0, 2), NOW: (0, 0, 2)}
    ends = {}
    for epoch in (1, 2, 3, 5, 6):
        asked_epoch = m.OffsetForLeaderTopic("t", [m.OffsetForLeaderPartition(0, 5, epoch)])
        response = await running.send(
            23, "OffsetForLeaderEpoch", 4, m.OffsetForLeaderEpochRequest(topics=[asked_epoch])
        )
        found = response.topics[0].partitions[0]
        ends[epoch] = found.error_code, found.leader_epoch, found.end_offset
    assert ends == {1: (0, 1, 0), 2: (0, 2, 10), 3: (0, 2, 10), 5: (0, 5, 20), 6: (0, -1, -1)}
    running.broker.stop()


async def test_ids_and_leader_epochs_are_read_ahead(epochs: LogDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata of ten thousand partitions would block the event loop with reads of their files."""
    topics = Topics(epochs, 1, creates=False)
    await topics.load()
    monkeypatch.setattr("offsetfs.storage.checkpoint.read_epochs", None)
    monkeypatch.setattr("offsetfs.storage.checkpoint.read_topic_id", None)
    assert topics.leader_epoch(FIRST) == 5
    assert topics.name_of(topics.topic_id("t")) == "t"


async def test_a_client_with_another_leader_epoch_gets_an_error(epochs: LogDirectory) -> None:
    client = Client(epochs)
    assert codes(await client.fetch([(0, 0)], leader_epoch=5)) == [0]
    response = await client.fetch([(0, 0)], leader_epoch=4, version=16, topic_id=client.topics.topic_id("t"))
    assert codes(response) == [ErrorCode.FENCED_LEADER_EPOCH]
    assert response.responses[0].partitions[0].current_leader.leader_epoch == 5
    assert response.node_endpoints[0].port == 9092
    assert codes(await client.fetch([(0, 0)], leader_epoch=6)) == [ErrorCode.UNKNOWN_LEADER_EPOCH]


async def test_a_client_with_another_log_learns_where_it_diverges(epochs: LogDirectory) -> None:
    client = Client(epochs)
    response = await client.fetch([(0, 15)], last_fetched_epoch=2, wait_ms=60_000)
    diverging = response.responses[0].partitions[0].diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (2, 10) and sizes(response)[0] == 0
    assert sizes(await client.fetch([(0, 15)], last_fetched_epoch=5))[0] > 0
    assert codes(await client.fetch([(0, 15)], last_fetched_epoch=6)) == [ErrorCode.OFFSET_OUT_OF_RANGE]


# --- ListOffsets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "version", "code"),
    [
        (-3, 6, ErrorCode.UNSUPPORTED_VERSION),
        (-3, 7, ErrorCode.NONE),
        (-4, 7, ErrorCode.UNSUPPORTED_VERSION),
        (-5, 8, ErrorCode.UNSUPPORTED_VERSION),
        (-5, 9, ErrorCode.NONE),
        (-7, 10, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
async def test_a_mark_has_a_first_version(running: Running, timestamp: int, version: int, code: ErrorCode) -> None:
    wanted = m.ListOffsetsPartition(0, timestamp=timestamp)
    request = m.ListOffsetsRequest(topics=[m.ListOffsetsTopic("t", [wanted])])
    response = await running.send(2, "ListOffsets", version, request)
    found = response.topics[0].partitions[0]
    assert (found.error_code, found.offset) == (code, -1)


async def test_a_partition_that_is_asked_for_twice_is_an_error(running: Running) -> None:
    request = m.ListOffsetsRequest(topics=[m.ListOffsetsTopic("t", [m.ListOffsetsPartition(0, timestamp=-1)] * 2)])
    response = await running.send(2, "ListOffsets", 7, request)
    assert {each.error_code for each in response.topics[0].partitions} == {ErrorCode.INVALID_REQUEST}
