"""A mirror of a broker in the same process."""

from __future__ import annotations

import errno
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from fixtures.broker.changed_responses import change_responses
from fixtures.broker.running import Running
from fixtures.logs.findings import findings_of
from fixtures.logs.keyed_logs import Keyed, keyed

from offsetfs.common.name_patterns import NamePattern
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.connection import BrokerConnection
from offsetfs.kafka.client.errors import AuthenticationFailed, TlsFailed
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.mirror import fetcher, timing
from offsetfs.kafka.mirror.mirror import Mirror
from offsetfs.kafka.mirror.options import EARLIEST, EARLIEST_LOCAL, LATEST, MirrorError, MirrorOptions, OnGap
from offsetfs.kafka.mirror.process import MirrorBeside, MirrorSource
from offsetfs.kafka.mirror.starts import PartitionStarts
from offsetfs.kafka.mirror.status import MirrorStatus, status_of
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import BatchBuilder, Log, LogDirectory, LogReader, TopicPartition
from offsetfs.storage.directory import MIRROR_FILE, MirrorFile
from offsetfs.storage.errors import InvalidCheckpoint, ReadOnlyLog

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)
USERS = TopicPartition("users", 0)
ONCE = MirrorOptions(once=True)


def append(log: Log, *values: bytes) -> None:
    builder = BatchBuilder(1 << 20, log.config.compression)
    for each in values:
        assert builder.append(None, each, (), 1_795_266_300_000)
    log.append(builder.seal())


def bytes_of(log: Log) -> bytes:
    return b"".join(Path(each.log_path).read_bytes()[: each.size] for each in log.snapshot())


async def mirrored(running: Running, directory: LogDirectory, options: MirrorOptions = ONCE) -> list[str]:
    """Mirror up to the ends of the source; return the events."""
    events = list[str]()
    async with ClusterClient([running.address]) as client:
        with trio.fail_after(30):
            await Mirror(directory, client, "source:9092", options, events.append).run()
    return events


@pytest.mark.promise("A mirrored partition has the batches of its source, byte for byte, at the same offsets.")
async def test_all_partitions_arrive_to_the_byte(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    for name in source.partitions():
        for number in range(20):
            append(source.log(name), b"%s %d" % (str(name).encode(), number), b"x" * number)
    assert await mirrored(running, directory) == []
    assert directory.partitions() == source.partitions()
    for name in source.partitions():
        assert bytes_of(directory.log(name)) == bytes_of(source.log(name))
        assert directory.topic_id(name) == source.topic_id(name)


async def test_a_second_run_appends_what_is_new(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), b"one")
    await mirrored(running, directory)
    append(source.log(ORDERS), b"two")
    await mirrored(running, directory)
    assert bytes_of(directory.log(ORDERS)) == bytes_of(source.log(ORDERS))


async def test_only_topics_whose_whole_name_matches(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    source.create_partitions([TopicPartition("orders-old", 0), TopicPartition("__consumer_offsets", 0)])
    await mirrored(running, directory, MirrorOptions(topics=(NamePattern("orders|.*offsets"),), once=True))
    assert {each.topic for each in directory.partitions()} == {"orders"}
    await mirrored(running, directory, MirrorOptions(topics=(NamePattern("__consumer_offsets"),), once=True))
    assert {each.topic for each in directory.partitions()} == {"orders", "__consumer_offsets"}


@pytest.mark.long
async def test_a_running_mirror_follows_appends_new_partitions_and_topics(
    running: Running,
    source: LogDirectory,
    directory: LogDirectory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timing, "REFRESH_S", 0.05)
    events = list[str]()
    async with ClusterClient([running.address]) as client, trio.open_nursery() as nursery:
        nursery.start_soon(Mirror(directory, client, "source:9092", MirrorOptions(), events.append).run)
        append(source.log(ORDERS), b"one")
        await has(directory, ORDERS, 1)
        append(source.log(ORDERS), b"two")
        await has(directory, ORDERS, 2)
        added = TopicPartition("orders", 2), TopicPartition("new", 0)
        for each in added:
            source.create_partition(each)
            append(source.log(each), b"three", b"four")
            await has(directory, each, 2)
        nursery.cancel_scope.cancel()
    assert events == []
    for each in (ORDERS, *added):
        assert bytes_of(directory.log(each)) == bytes_of(source.log(each))
        assert directory.topic_id(each) == source.topic_id(each)


async def test_a_follower_that_does_not_answer_is_replaced_by_the_leader(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    async with ClusterClient([running.address]) as client, trio.open_nursery() as nursery:
        mirror = Mirror(directory, client, "source:9092", MirrorOptions(), lambda text: None)
        nursery.start_soon(mirror.run)
        append(source.log(ORDERS), b"one")
        await has(directory, ORDERS, 1)
        mirror.state.partitions[ORDERS].read_replica = 99
        mirror.state.metadata_is_old()
        append(source.log(ORDERS), b"two")
        await has(directory, ORDERS, 2)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (MirrorOptions((NamePattern("order"),), once=True), r"matches 'order'; did you mean orders\?"),
        (MirrorOptions((NamePattern("x"),), once=True), "matches 'x'; the cluster has orders, users"),
        (MirrorOptions((NamePattern("order"),), needs_topic=True), "no topic that this user may describe matches"),
    ],
)
async def test_a_pattern_without_a_topic_is_refused(
    options: MirrorOptions, message: str, running: Running, directory: LogDirectory
) -> None:
    async with ClusterClient([running.address]) as client:
        with pytest.raises(MirrorError, match=message):
            await Mirror(directory, client, "source:9092", options, lambda text: None).begin()


async def test_an_error_of_the_cluster_is_not_in_a_group(
    running: Running, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ClusterClient([running.address]) as client:
        mirror = Mirror(directory, client, "source:9092", MirrorOptions(), lambda text: None)
        await mirror.begin()

        async def refused(*_: object, **__: object) -> None:
            raise AuthenticationFailed("wrong password")

        monkeypatch.setattr(client, "metadata", refused)
        mirror.state.metadata_is_old()
        with pytest.raises(AuthenticationFailed, match="wrong password"), trio.fail_after(30):
            await mirror.run()


async def test_a_pattern_without_a_topic_is_reported_and_the_others_are_mirrored(
    running: Running, directory: LogDirectory
) -> None:
    events, options = list[str](), MirrorOptions((NamePattern("order"), NamePattern("users")))
    async with ClusterClient([running.address]) as client:
        await Mirror(directory, client, "source:9092", options, events.append).begin()
    text = "no topic that this user may describe matches 'order'; it is mirrored as soon as it exists"
    text += "; did you mean orders?"
    assert (events, directory.partitions()) == ([text], [USERS])


async def test_a_batch_above_the_largest_response_stops_its_partition_alone(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), b"x" * 300_000)
    append(source.log(USERS), b"two")
    events = list[str]()
    async with ClusterClient([running.address], response_bytes_max=200_000) as client:
        with trio.fail_after(30):
            mirror = Mirror(directory, client, "source:9092", ONCE, events.append)
            await mirror.run()
    (event,) = events
    assert event.startswith("orders-0: the batch at offset 0 is too large: ") and "at most 200000 are received" in event
    assert mirror.has_failed
    assert bytes_of(directory.log(USERS)) == bytes_of(source.log(USERS))


@pytest.mark.parametrize("once", [True, False])
async def test_a_full_disk_stops_its_partition_and_the_others_go_on(
    running: Running,
    source: LogDirectory,
    directory: LogDirectory,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    once: bool,
) -> None:
    real, has_space = Log.append_replicated, threading.Event()

    def append_replicated(log: Log, data: memoryview, **options: int) -> int:
        if log.partition == ORDERS and not has_space.is_set():
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(log, data, **options)

    monkeypatch.setattr(Log, "append_replicated", append_replicated)
    monkeypatch.setattr(fetcher, "DISK_FULL_PAUSE_S", 0.05)
    append(source.log(ORDERS), b"one")
    append(source.log(USERS), b"two")
    events, text = list[str](), f"orders-0: {directory.path}/orders-0: No space left on device; "
    async with ClusterClient([running.address]) as client, trio.open_nursery() as mirrors:
        mirror = Mirror(directory, client, "source:9092", MirrorOptions(once=once), events.append)
        mirrors.start_soon(mirror.run)
        await has(directory, USERS, 1)
        if not once:
            with trio.fail_after(30):
                while not events:
                    await trio.sleep(0.01)
            await trio.sleep(0.2)  # it is not said again
            assert (mirror.has_failed, events) == (True, [f"{text}the mirror continues when there is space"])
            has_space.set()
            await has(directory, ORDERS, 1)
            await trio.testing.wait_all_tasks_blocked(0.01)
            mirrors.cancel_scope.cancel()
    assert mirror.has_failed == once
    if once:
        assert events == [f"{text}make space, and start the mirror again"]


async def test_a_slow_report_of_the_progress_delays_no_record(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    is_reporting, may_end = threading.Event(), threading.Event()

    def report(status: MirrorStatus) -> None:
        is_reporting.set()
        assert may_end.wait(30)

    found = MirrorSource([running.address], ClientProperties(), MirrorOptions())
    beside = MirrorBeside(found, lambda text: None, report)
    await beside.begin(directory)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside.run, directory)
        while not is_reporting.is_set():
            await trio.sleep(0.01)
        append(source.log(ORDERS), b"one")
        await has(directory, ORDERS, 1)
        assert not may_end.is_set()
        may_end.set()
        beside.stop()


@pytest.mark.parametrize(("size", "threads"), [(10, 0), (100_000, 1)])
async def test_small_responses_are_appended_on_the_event_loop(
    running: Running,
    source: LogDirectory,
    directory: LogDirectory,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    threads: int,
) -> None:
    seen = set[int]()
    real = Log.append_replicated

    def append_replicated(log: Log, data: memoryview, **options: int) -> int:
        seen.add(threading.get_ident())
        return real(log, data, **options)

    monkeypatch.setattr(Log, "append_replicated", append_replicated)
    append(source.log(ORDERS), b"x" * size)
    await mirrored(running, directory)
    assert len(seen - {threading.get_ident()}) == threads


async def has(directory: LogDirectory, name: TopicPartition, end: int) -> None:
    with trio.fail_after(30):
        while not directory.has(name) or directory.log(name).next_offset < end:
            await trio.sleep(0.01)


@pytest.mark.parametrize(
    ("start", "begin"), [(EARLIEST, 3), (LATEST, 9), (1_795_266_300_006, 6), (1_795_266_300_100, 9)]
)
async def test_new_partitions_begin_where_they_are_asked_to(
    running: Running, source: LogDirectory, directory: LogDirectory, start: int, begin: int
) -> None:
    log = source.log(ORDERS)
    for number in range(9):
        builder = BatchBuilder(1 << 20, log.config.compression)
        builder.append(None, b"x", (), 1_795_266_300_000 + number)
        log.append(builder.seal())
    source.raise_log_starts({ORDERS: 3})
    await mirrored(running, directory, MirrorOptions(start=start, once=True))
    found = directory.log(ORDERS)
    assert (found.log_start_offset, found.next_offset) == (begin, 9)


async def test_a_log_start_within_a_batch_is_taken_over(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), b"a", b"b", b"c")
    source.raise_log_starts({ORDERS: 2})
    await mirrored(running, directory)
    found = directory.log(ORDERS)
    assert (found.log_start_offset, found.next_offset, bytes_of(found)) == (2, 3, bytes_of(source.log(ORDERS)))


async def test_a_gap_that_ends_within_a_batch_is_skipped_for_good(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), b"a", b"b")
    await mirrored(running, directory)
    append(source.log(ORDERS), b"c", b"d", b"e")
    source.raise_log_starts({ORDERS: 4})
    events = await mirrored(running, directory, MirrorOptions(once=True, on_gap=OnGap.SKIP))
    assert events == ["orders-0: the source has deleted the records from 2 to 3; the mirror continues behind them"]
    assert (directory.log(ORDERS).log_start_offset, directory.log(ORDERS).next_offset) == (4, 5)
    directory.close()
    with closing(LogDirectory.open(directory.path, read_only=True)) as reopened:
        assert reopened.log(ORDERS).log_start_offset == 4


@pytest.mark.promise("Records that the source lost in an unclean election are cut from the mirror, and reported.")
async def test_what_the_source_lost_in_an_unclean_election_is_cut(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    log = source.log(ORDERS)
    for value in (b"a", b"b", b"c", b"d"):
        append(log, value)
    await mirrored(running, directory)
    log.truncate_to(2)
    log.epochs.assign(1, 2)
    append(log, b"other")
    events = await mirrored(running, directory)
    assert events == ["orders-0: the source lost the records from 2 to 3; these records are cut here, too"]
    assert bytes_of(directory.log(ORDERS)) == bytes_of(log)
    assert directory.log(ORDERS).epochs.entries == log.epochs.entries


async def test_once_ends_when_an_election_cuts_the_source_meanwhile(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, before = source.log(ORDERS), list[int]()
    for value in (b"a", b"b", b"c", b"d"):
        append(log, value)
    await mirrored(running, directory)
    log.truncate_to(2)
    log.epochs.assign(1, 2)
    append(log, b"other")

    def change(request: Any, response: Any) -> None:
        if isinstance(request, m.ListOffsetsRequest) and not before:
            for topic in response.topics:
                for each in topic.partitions:
                    if topic.name == "orders" and each.offset == 3:
                        before.append(each.offset)
                        each.offset = 4

    change_responses(monkeypatch, change)
    events = await mirrored(running, directory)
    assert (before, events) == (
        [3],
        ["orders-0: the source lost the records from 2 to 3; these records are cut here, too"],
    )
    assert bytes_of(directory.log(ORDERS)) == bytes_of(log)


async def test_records_that_are_gone_without_an_election_stop_the_partition(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    log = source.log(ORDERS)
    for value in (b"a", b"b", b"c", b"d"):
        append(log, value)
    append(source.log(USERS), b"one")
    await mirrored(running, directory)
    before = bytes_of(directory.log(ORDERS))
    log.truncate_to(2)
    append(source.log(USERS), b"two")
    events = await mirrored(running, directory)
    remedy = f"cut them here (offsetfs truncate {directory.path} orders-0 2), or mirror into another directory"
    cause = "the source ends at offset 2, before the end here, 4: it lost records, or is another log"
    assert events == [f"orders-0: {cause}; {remedy}"]
    assert bytes_of(directory.log(ORDERS)) == before
    assert directory.log(USERS).next_offset == 2


@pytest.mark.parametrize(("name", "other"), [(ORDERS, USERS), (USERS, ORDERS)])
@pytest.mark.promise(
    "A topic that was deleted and created again, or whose last records differ from those of "
    "the cluster, stops: the records of two logs are never mixed."
)
async def test_records_of_another_log_with_the_same_epochs_are_not_mixed(
    name: TopicPartition, other: TopicPartition, running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    log = source.log(name)
    append(log, b"a")
    append(log, b"b", b"c")
    append(source.log(other), b"one")
    await mirrored(running, directory)
    before = bytes_of(directory.log(name))
    log.truncate_to(1)
    append(log, b"b", b"other", b"more")
    append(source.log(other), b"two")
    events = await mirrored(running, directory)
    cause = "the record at offset 2 differs from that of the source: it is another log, or was restored from a backup"
    remedy = "mirror into another directory, or delete the topic here"
    assert events == [f"{name}: {cause}; {remedy} (offsetfs delete {directory.path} {name.topic})"]
    assert bytes_of(directory.log(name)) == before
    assert directory.log(other).next_offset == 2


@pytest.mark.parametrize(("value", "differs"), [(b"c", False), (b"other", True)])
async def test_records_that_compaction_removed_at_the_source_are_no_difference(
    value: bytes, *, differs: bool, running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    log = source.log(ORDERS)
    log.append_replicated(keyed(0, Keyed(0, b"k", b"a"), Keyed(1, b"l", b"b"), Keyed(2, b"k", b"c")))
    await mirrored(running, directory)
    log.truncate_to(0)
    log.append_replicated(keyed(0, Keyed(2, b"k", value)))
    append(log, b"more")
    events = await mirrored(running, directory)
    assert [each.partition(":")[0] for each in events] == ["orders-0"] * differs
    assert directory.log(ORDERS).next_offset == (3 if differs else 4)


async def test_an_older_source_stops_the_partition(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    log = source.log(ORDERS)
    for value in (b"a", b"b", b"c", b"d"):
        append(log, value)
    append(source.log(USERS), b"one")
    await mirrored(running, directory)
    log.truncate_fully(9)
    append(source.log(USERS), b"two")
    events = await mirrored(running, directory)
    assert len(events) == 1 and events[0].startswith("orders-0: the source has deleted the records from 4 to 8 before")
    assert (directory.log(ORDERS).next_offset, directory.log(USERS).next_offset) == (4, 2)
    events = await mirrored(running, directory, MirrorOptions(once=True, on_gap=OnGap.SKIP))
    assert len(events) == 1 and "the mirror continues behind them" in events[0]
    assert (directory.log(ORDERS).log_start_offset, directory.log(ORDERS).next_offset) == (9, 9)


@pytest.mark.promise("With `--keep`, records that the cluster deletes or compacts stay in the mirror.")
async def test_an_archive_keeps_what_the_source_deletes(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    log, options = source.log(ORDERS), MirrorOptions(once=True, keep=True, on_gap=OnGap.SKIP)
    append(log, b"a")
    append(log, b"b")
    await mirrored(running, directory, options)
    log.truncate_fully(9)
    append(log, b"c")
    await mirrored(running, directory, options)
    found = directory.log(ORDERS)
    assert [(each.offset, each.value) for each in LogReader(found).records()] == [(0, b"a"), (1, b"b"), (9, b"c")]
    assert directory.config_of("orders").retention_ms == -1


async def test_a_log_start_that_moves_is_followed(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), b"a")
    append(source.log(ORDERS), b"b")
    async with ClusterClient([running.address]) as client, trio.open_nursery() as nursery:
        mirror = Mirror(directory, client, "source:9092", MirrorOptions(), print)
        nursery.start_soon(mirror.run)
        await has(directory, ORDERS, 2)
        source.raise_log_starts({ORDERS: 1})
        append(source.log(ORDERS), b"c")
        await has(directory, ORDERS, 3)
        await mirror.upkeep.follow_log_starts()
        nursery.cancel_scope.cancel()
    assert directory.log(ORDERS).log_start_offset == 1


async def test_settings_are_taken_over_and_records_do_not_go_by_their_age(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    source.configure("orders", {"segment.bytes": "5000", "retention.ms": "1000", "cleanup.policy": "compact,delete"})
    await mirrored(running, directory)
    found = directory.config_of("orders")
    assert (found.segment_bytes, found.retention_ms, found.is_compacted) == (5000, -1, True)
    assert directory.mirror is not None
    assert directory.mirror.topics["orders"].settings["retention.ms"] == "1000"


@pytest.mark.promise(
    "A topic that was deleted and created again, or whose last records differ from those of "
    "the cluster, stops: the records of two logs are never mixed."
)
async def test_a_topic_that_was_created_again_is_not_mixed(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(USERS), b"old")
    await mirrored(running, directory)
    source.delete_partition(USERS)
    source.create_partition(USERS)
    append(source.log(USERS), b"new")
    append(source.log(USERS), b"newer")
    events = await mirrored(running, directory)
    assert len(events) == 1 and events[0].startswith("users: deleted and created again at the source")
    assert [each.value for each in LogReader(directory.log(USERS)).records()] == [b"old"]


async def test_a_topic_that_was_created_again_is_mirrored_after_it_was_deleted_here(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(USERS), b"old")
    await mirrored(running, directory)
    source.delete_partition(USERS)
    source.create_partition(USERS)
    append(source.log(USERS), b"new")
    directory.delete_partition(USERS)
    assert await mirrored(running, directory) == []
    assert bytes_of(directory.log(USERS)) == bytes_of(source.log(USERS))
    assert directory.topic_id(USERS) == source.topic_id(USERS)


@pytest.mark.parametrize(("missing_s", "is_over"), [(0.0, True), (60.0, False)])
async def test_a_topic_counts_as_deleted_when_it_has_been_missing_for_a_while(
    running: Running,
    source: LogDirectory,
    directory: LogDirectory,
    monkeypatch: pytest.MonkeyPatch,
    missing_s: float,
    is_over: bool,
) -> None:
    monkeypatch.setattr(timing, "MISSING_S", missing_s)
    events = list[str]()
    append(source.log(USERS), b"one")
    async with ClusterClient([running.address]) as client, trio.open_nursery() as nursery:
        mirror = Mirror(directory, client, "source:9092", MirrorOptions(), events.append)
        nursery.start_soon(mirror.run)
        await has(directory, USERS, 1)
        source.delete_partition(USERS)
        mirror.state.metadata_is_old()
        found = mirror.state.partitions[USERS]
        with trio.fail_after(30):
            while not (found.is_stopped if is_over else mirror._topics._missing_since):
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert (found.is_stopped, events) == (is_over, ["users: deleted at the source; its records stay here"] * is_over)
    assert (status_of(mirror).partitions[USERS].lag is None) == is_over


async def test_once_fails_if_a_topic_is_deleted_before_all_its_records_are_here(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "MISSING_S", 0.0)
    append(source.log(USERS), b"one")
    one, events = source.log(USERS).snapshot().active.size, list[str]()
    append(source.log(USERS), b"two")

    def change(request: Any, response: Any) -> None:
        if isinstance(request, m.FetchRequest):
            for topic in response.responses:
                for each in topic.partitions:
                    if len(each.records or b"") > one:
                        each.records = each.records[:one]
                        source.delete_partition(USERS)

    change_responses(monkeypatch, change)
    async with ClusterClient([running.address]) as client:
        with trio.fail_after(60):
            mirror = Mirror(directory, client, "source:9092", ONCE, events.append)
            await mirror.run()
    assert events == ["users: deleted at the source; its records stay here; not all that it had are here"]
    assert mirror.has_failed
    assert directory.log(USERS).next_offset == 1


async def test_a_directory_with_another_topic_of_the_name_is_not_touched(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(directory.create_partition(USERS), b"mine")
    append(source.log(USERS), b"theirs", b"theirs")
    events = await mirrored(running, directory)
    assert len(events) == 1
    assert events[0].startswith("users: the directory has a topic of this name that is not a mirror")
    assert [each.value for each in LogReader(directory.log(USERS)).records()] == [b"mine"]
    append(directory.log(USERS), b"still mine")


async def test_another_cluster_is_refused(running: Running, source: LogDirectory, directory: LogDirectory) -> None:
    directory.set_mirror(MirrorFile("other", "elsewhere:9092"))
    with pytest.raises(MirrorError, match="mirrors the cluster other"):
        await mirrored(running, directory)
    assert directory.partitions() == []


@pytest.mark.promise("Appends to a mirrored topic are refused.")
async def test_appends_to_a_mirrored_topic_are_refused(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    await mirrored(running, directory)
    with pytest.raises(ReadOnlyLog, match="mirrored from source:9092; append to the source"):
        append(directory.log(ORDERS), b"no")
    append(directory.create_partition(TopicPartition("mine", 0)), b"yes")


async def test_a_damaged_batch_stops_its_partition_with_the_offset(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    log = source.log(ORDERS)
    append(log, b"a")
    size = log.size_bytes
    append(log, b"b" * 100)
    append(source.log(USERS), b"one")
    with open(log.snapshot().active.log_path, "r+b") as file:
        file.seek(size + 80)
        file.write(b"!")
    events = await mirrored(running, directory)
    assert len(events) == 1 and events[0].startswith("orders-0: ") and "offset 1" in events[0]
    assert (directory.log(ORDERS).next_offset, directory.log(USERS).next_offset) == (1, 1)
    with open(log.snapshot().active.log_path, "r+b") as file:
        file.seek(size + 80)
        file.write(b"b")
    await mirrored(running, directory)
    assert bytes_of(directory.log(ORDERS)) == bytes_of(log)


async def test_clients_of_a_mirror_that_is_served_are_told_why_it_takes_no_records(
    running: Running, source: LogDirectory, directory: LogDirectory, nursery: trio.Nursery
) -> None:
    append(source.log(ORDERS), b"one")
    await mirrored(running, directory)
    served = Running(directory)
    nursery.start_soon(served.run)
    data = m.TopicProduceData(
        "orders", partition_data=[m.PartitionProduceData(0, keyed(0, Keyed(0, None, b"x", 1, ())))]
    )
    answer = await served.send(0, "Produce", 9, m.ProduceRequest(None, 1, 1000, [data]))
    found = answer.responses[0].partition_responses[0]
    assert (found.error_code, "mirrored from source:9092" in found.error_message) == (ErrorCode.POLICY_VIOLATION, True)
    served.broker.stop()


async def test_a_leader_epoch_without_records_does_not_stop_a_partition(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), b"one")
    await mirrored(running, directory)
    directory.log(ORDERS).epochs.assign(5, 1)  # as before an append for which the disk had no space
    source.log(ORDERS).epochs.assign(7, 1)
    append(source.log(ORDERS), b"two")
    assert await mirrored(running, directory) == []
    assert bytes_of(directory.log(ORDERS)) == bytes_of(source.log(ORDERS))


class _Killed(Exception):
    """The process is killed here."""


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("start", [0, 5])
async def test_a_compacted_topic_without_a_first_record_is_no_finding_after_a_kill(
    start: int,
    *,
    keep: bool,
    running: Running,
    source: LogDirectory,
    directory: LogDirectory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def killed(*_: object) -> None:
        raise _Killed

    source.configure("orders", {"cleanup.policy": "compact"})
    log = source.log(ORDERS)
    for base in (0, 10, 30):
        log.append_replicated(keyed(base, Keyed(0, b"key %d" % base, b"value")))
    source.raise_log_starts({ORDERS: start})
    with monkeypatch.context() as patch:
        patch.setattr(LogDirectory, "set_cleaner_offsets", killed)
        with pytest.raises(_Killed):
            await mirrored(running, directory, MirrorOptions(once=True, keep=keep))
    assert directory.has(ORDERS)
    directory.close()
    again = LogDirectory.open(directory.path)
    assert await mirrored(running, again, MirrorOptions(once=True, keep=keep)) == []
    assert again.log(ORDERS).next_offset == 31
    assert findings_of(again) == []


def without_records(response: Any) -> None:
    for topic in response.responses:
        for each in topic.partitions:
            each.records = None


@pytest.mark.parametrize("throttled_ms", [1, 0])
@pytest.mark.promise(
    "`offsetfs mirror --once` ends without an error only if the mirror has all records that "
    "the cluster had at the start."
)
async def test_once_does_not_end_with_responses_left_empty_by_quota_or_tier(
    throttled_ms: int,
    running: Running,
    source: LogDirectory,
    directory: LogDirectory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for value in (b"a", b"b", b"c"):
        append(source.log(ORDERS), value)
    empty = 3

    def change(request: Any, response: Any) -> None:
        nonlocal empty
        if isinstance(request, m.FetchRequest) and empty:
            empty -= 1
            without_records(response)
            response.throttle_time_ms = throttled_ms
        elif isinstance(request, m.ListOffsetsRequest) and not throttled_ms:
            for topic, asked in zip(response.topics, request.topics, strict=True):
                if asked.partitions[0].timestamp == EARLIEST_LOCAL:
                    topic.partitions[0].offset = 3

    change_responses(monkeypatch, change)
    assert await mirrored(running, directory) == []
    assert (empty, directory.log(ORDERS).next_offset) == (0, 3)


async def test_once_ends_where_the_last_offsets_of_the_source_have_no_records(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), b"a")

    def change(request: Any, response: Any) -> None:
        if isinstance(request, m.ListOffsetsRequest):
            for topic, asked in zip(response.topics, request.topics, strict=True):
                if topic.name == "orders" and asked.partitions[0].timestamp == LATEST:
                    topic.partitions[0].offset = 9
        elif isinstance(request, m.FetchRequest):
            for topic in response.responses:
                for each in topic.partitions:
                    each.high_watermark = 9

    change_responses(monkeypatch, change)
    assert await mirrored(running, directory) == []
    assert directory.log(ORDERS).next_offset == 1


@pytest.mark.promise(
    "`offsetfs mirror --once` ends without an error only if the mirror has all records that "
    "the cluster had at the start."
)
async def test_once_ends_with_an_error_when_remote_storage_sends_nothing_for_long(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), b"a")
    monkeypatch.setattr(timing, "PATIENCE_S", 0.2)

    def change(request: Any, response: Any) -> None:
        if isinstance(request, m.FetchRequest):
            without_records(response)
        elif isinstance(request, m.ListOffsetsRequest) and request.topics[0].partitions[0].timestamp == EARLIEST_LOCAL:
            response.topics[0].partitions[0].offset = 1

    change_responses(monkeypatch, change)
    events = await mirrored(running, directory)
    assert len(events) == 1 and events[0].startswith("orders-0: the source has sent no records from offset 0 on for ")


@pytest.mark.promise(
    "`offsetfs mirror --once` ends without an error only if the mirror has all records that "
    "the cluster had at the start."
)
async def test_a_response_that_lacks_records_leaves_no_gap(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (b"a", b"b", b"c"):
        append(source.log(ORDERS), value)
    changed = list[int]()

    def change(request: Any, response: Any) -> None:
        if isinstance(request, m.FetchRequest) and not changed:
            for topic in response.responses:
                for each in topic.partitions:
                    if each.records:
                        changed.append(len(each.records))
                        each.records = each.records[len(each.records) // 3 :]

    change_responses(monkeypatch, change)
    assert await mirrored(running, directory) == []
    assert changed and bytes_of(directory.log(ORDERS)) == bytes_of(source.log(ORDERS))


async def test_a_gap_that_the_source_has_is_reported(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    for base in (0, 10, 30):
        source.log(ORDERS).append_replicated(keyed(base, Keyed(0, b"key", b"value")))
    events = await mirrored(running, directory)
    assert [each.partition(",")[0] for each in events] == [
        "orders-0: the source has no records from 1 to 9",
        "orders-0: the source has no records from 11 to 29",
    ]
    assert bytes_of(directory.log(ORDERS)) == bytes_of(source.log(ORDERS))


async def test_once_compares_its_end_with_that_of_the_source(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), b"a")
    append(source.log(ORDERS), b"b")
    monkeypatch.setattr(timing, "PATIENCE_S", 0.2)

    def change(request: Any, response: Any) -> None:
        if isinstance(request, m.ListOffsetsRequest) and directory.log(ORDERS).next_offset == 2:
            for topic in response.topics:
                for each in topic.partitions:
                    each.offset = min(each.offset, 1)

    change_responses(monkeypatch, change)
    (event,) = await mirrored(running, directory)
    assert event.startswith("orders-0: the source ends at offset 1, before the end here, 2; ")


@pytest.mark.parametrize("base", [2**63 - 1, 2**63 - 2, 2**62, -(2**63)])
async def test_a_batch_at_an_impossible_offset_stops_its_partition_alone(
    base: int, running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), b"a")
    append(source.log(ORDERS), b"b", b"c")
    append(source.log(USERS), b"one")
    monkeypatch.setattr(timing, "PATIENCE_S", 0.2)
    one = source.log(ORDERS).snapshot().active.size

    def change(request: Any, response: Any) -> None:
        if not isinstance(request, m.FetchRequest):
            return
        for topic in response.responses:
            for each in topic.partitions:
                if each.records and len(each.records) == one:
                    cut = 12 + int.from_bytes(each.records[8:12], "big")
                    data = bytearray(each.records)
                    data[cut : cut + 8] = base.to_bytes(8, "big", signed=True)
                    each.records = bytes(data)
                elif each.records and each.records[:8] == (1).to_bytes(8, "big"):
                    each.records = base.to_bytes(8, "big", signed=True) + bytes(each.records[8:])

    change_responses(monkeypatch, change)
    events = await mirrored(running, directory)
    assert directory.log(USERS).next_offset == 1
    if base == 2**62:
        assert events[0].startswith("orders-0: the source has no records from 1 to ")
    else:
        assert len(events) == 1 and events[0].startswith("orders-0: ") and str(base) in events[0]
        assert directory.log(ORDERS).next_offset == 1


@pytest.mark.promise(
    "`offsetfs mirror --once` ends without an error only if the mirror has all records that "
    "the cluster had at the start."
)
async def test_a_partition_that_stops_during_an_append_keeps_its_failure(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), b"a")
    one = source.log(ORDERS).snapshot().active.size
    append(source.log(ORDERS), b"b")
    real, is_reported, events = Log.append_replicated, threading.Event(), list[str]()

    def append_replicated(log: Log, data: memoryview, **options: int) -> int:
        assert is_reported.wait(30)
        return real(log, data, **options)

    def change(request: Any, response: Any) -> None:
        if isinstance(request, m.FetchRequest):
            for topic in response.responses:
                for each in topic.partitions:
                    if each.records:
                        each.records = each.records[: one if each.records[:8] == bytes(8) else 30]

    def report(text: str) -> None:
        events.append(text)
        is_reported.set()

    monkeypatch.setattr(fetcher, "LOOP_BYTES_MAX", 0)
    monkeypatch.setattr(Log, "append_replicated", append_replicated)
    change_responses(monkeypatch, change)
    async with ClusterClient([running.address]) as client:
        with trio.fail_after(60):
            mirror = Mirror(directory, client, "source:9092", ONCE, report)
            await mirror.run()
    assert events == ["orders-0: the source sent 30 bytes at offset 1 that are not a whole batch"]
    assert mirror.has_failed
    assert directory.log(ORDERS).next_offset == 1


ARCHIVE = MirrorOptions(once=True, keep=True)


async def test_an_archive_is_not_mirrored_without_keep(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), b"a")
    append(source.log(ORDERS), b"b")
    await mirrored(running, directory, ARCHIVE)
    source.raise_log_starts({ORDERS: 1})
    with pytest.raises(MirrorError, match=r"was mirrored with --keep, .*; give --keep \(of a mount: -o keep\)"):
        await mirrored(running, directory)
    assert await mirrored(running, directory, ARCHIVE) == []
    assert (directory.log(ORDERS).log_start_offset, directory.log(ORDERS).next_offset) == (0, 2)


@pytest.mark.promise("With `--keep`, records that the cluster deletes or compacts stay in the mirror.")
async def test_a_mirror_that_becomes_an_archive_is_not_compacted_any_more(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    source.configure("orders", {"cleanup.policy": "compact"})
    await mirrored(running, directory)
    assert directory.config_of("orders").is_compacted
    await mirrored(running, directory, ARCHIVE)
    assert not directory.config_of("orders").is_compacted
    with pytest.raises(MirrorError, match="was mirrored with --keep"):
        await mirrored(running, directory)


async def test_the_file_of_a_mirror_says_keep_with_true_or_false(running: Running, directory: LogDirectory) -> None:
    await mirrored(running, directory, ARCHIVE)
    path = Path(directory.path, MIRROR_FILE)
    path.write_text(path.read_text().replace('"keep": true', '"keep": "yes"'))
    with pytest.raises(InvalidCheckpoint, match='keep is "yes", and must be true or false'):
        MirrorFile.read(directory.path)


FROM_LATEST = MirrorOptions(start=LATEST, once=True)


@pytest.mark.parametrize("before", [0, 2])
async def test_from_counts_for_the_first_start_only(
    before: int, running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    for _ in range(before):
        append(source.log(ORDERS), b"before")
    await mirrored(running, directory, FROM_LATEST)
    append(source.log(ORDERS), b"between")
    append(source.log(ORDERS), b"between")
    directory.close()
    again = LogDirectory.open(directory.path)
    assert await mirrored(running, again, FROM_LATEST) == []
    assert (again.log(ORDERS).log_start_offset, again.log(ORDERS).next_offset) == (before, before + 2)
    again.close()


async def test_from_still_counts_after_a_kill_before_the_first_offset_is_decided(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: object) -> None:
        raise _Killed

    append(source.log(ORDERS), b"a")
    with monkeypatch.context() as patch:
        patch.setattr(PartitionStarts, "begin", killed)
        with pytest.raises(_Killed):
            await mirrored(running, directory, FROM_LATEST)
    assert directory.has(ORDERS)
    append(source.log(ORDERS), b"b")
    await mirrored(running, directory, FROM_LATEST)
    assert (directory.log(ORDERS).log_start_offset, directory.log(ORDERS).next_offset) == (2, 2)


async def test_from_counts_again_for_a_topic_that_was_deleted_here(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    await mirrored(running, directory, FROM_LATEST)
    append(source.log(USERS), b"a")
    directory.delete_partition(USERS)
    await mirrored(running, directory, FROM_LATEST)
    assert (directory.log(USERS).log_start_offset, directory.log(USERS).next_offset) == (1, 1)


def with_dead_leader(monkeypatch: pytest.MonkeyPatch, topic: str, node: int = 99) -> None:
    """Let the metadata name a broker as the leader of a topic that refuses connections, or none."""

    def change(_: Any, response: Any) -> None:
        if isinstance(response, m.MetadataResponse):
            response.brokers.append(m.MetadataResponseBroker(99, "127.0.0.1", 1))
            for each in response.topics:
                for partition in each.partitions if each.name == topic else ():
                    partition.leader_id = node

    change_responses(monkeypatch, change)


@pytest.mark.promise(
    "`offsetfs mirror --once` ends without an error only if the mirror has all records that "
    "the cluster had at the start."
)
async def test_an_unreachable_leader_is_reported_and_ends_a_single_run(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), b"one")
    append(source.log(USERS), b"two")
    monkeypatch.setattr(timing, "SILENT_S", 0.0)
    monkeypatch.setattr(timing, "PATIENCE_S", 0.5)
    with_dead_leader(monkeypatch, "users")
    reported, stopped = await mirrored(running, directory)
    assert "127.0.0.1:1" in reported
    assert reported.endswith("; these partitions wait, and the others go on: users-0")
    assert stopped.startswith("users-0: ") and stopped.endswith("; start the mirror again when broker 99 answers")
    assert (directory.log(ORDERS).next_offset, directory.log(USERS).next_offset) == (1, 0)


@pytest.mark.parametrize("node", [99, -1])
async def test_status_says_that_a_partition_waits_for_its_leader(
    node: int, running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(USERS), b"two")
    monkeypatch.setattr(timing, "SILENT_S", 0.0)
    events = list[str]()
    async with ClusterClient([running.address]) as client, trio.open_nursery() as nursery:
        mirror = Mirror(directory, client, "source:9092", MirrorOptions(), events.append)
        with monkeypatch.context() as patch, trio.fail_after(30):
            with_dead_leader(patch, "users", node)
            nursery.start_soon(mirror.run)
            while not events:
                await trio.sleep(0.01)
            failure = status_of(mirror).partitions[USERS].failure
            assert failure is not None and ("127.0.0.1:1" in failure or "has no leader" in failure)
            assert status_of(mirror).partitions[ORDERS].failure is None
        await has(directory, USERS, 1)
        assert status_of(mirror).partitions[USERS].failure is None
        nursery.cancel_scope.cancel()


async def test_a_leader_that_refuses_the_client_does_not_keep_the_others(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), b"one")
    append(source.log(USERS), b"two")
    with_dead_leader(monkeypatch, "orders")
    plain = ClusterClient.connection

    async def connection(self: ClusterClient, node: Any) -> BrokerConnection:
        if node == 99:
            raise TlsFailed("the certificate is for another host")
        return await plain(self, node)

    monkeypatch.setattr(ClusterClient, "connection", connection)
    events = await mirrored(running, directory)
    assert sorted(each.partition(":")[0] for each in events) == ["orders-0", "orders-1"]
    assert all("the certificate is for another host" in each for each in events)
    assert directory.log(USERS).next_offset == 1


@pytest.mark.parametrize("passes", [True, False])
async def test_once_waits_for_a_topic_that_has_no_partitions_at_the_moment(
    passes: bool, running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), b"one")
    append(source.log(USERS), b"two")
    monkeypatch.setattr(timing, "PATIENCE_S", 5.0 if passes else 0.3)
    left = 3

    def change(_: Any, response: Any) -> None:
        nonlocal left
        if isinstance(response, m.MetadataResponse) and left:
            left -= passes
            for each in response.topics:
                if each.name == "users":
                    each.error_code, each.partitions = ErrorCode.LEADER_NOT_AVAILABLE, []

    change_responses(monkeypatch, change)
    events = await mirrored(running, directory)
    cause = "users: the source answers LEADER_NOT_AVAILABLE; start the mirror again"
    assert events == ([] if passes else [cause])
    assert (directory.log(ORDERS).next_offset, directory.has(USERS)) == (1, passes)
    assert not passes or directory.log(USERS).next_offset == 1


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR])
async def test_an_error_of_a_partition_that_may_pass_is_reported_and_tried_again(
    code: ErrorCode,
    *,
    passes: bool,
    running: Running,
    source: LogDirectory,
    directory: LogDirectory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append(source.log(ORDERS), b"one")
    append(source.log(USERS), b"two")
    monkeypatch.setattr(timing, "SILENT_S", 0.0)
    monkeypatch.setattr(timing, "PATIENCE_S", 5.0 if passes else 0.3)
    left = 3

    def change(request: Any, response: Any) -> None:
        nonlocal left
        if not isinstance(request, m.FetchRequest):
            return
        for topic in response.responses:
            for each in topic.partitions:
                if left and topic.topic_id == users_id:
                    left -= passes
                    each.error_code, each.records = code, None

    users_id = source.topic_id(USERS)
    change_responses(monkeypatch, change)
    events = await mirrored(running, directory)
    error = f"users-0: offset 0: the source answers {code.name}"
    last = (
        "users-0: the source answers again"
        if passes
        else f"{error}; see the log of the broker, and start the mirror again"
    )
    assert events == [f"{error}; trying again", last]
    assert (directory.log(ORDERS).next_offset, directory.log(USERS).next_offset) == (1, int(passes))


async def test_a_disk_error_where_a_partition_begins_stops_this_partition_only(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (ORDERS, USERS):
        append(source.log(name), b"one")
        append(source.log(name), b"two")
    source.raise_log_starts({ORDERS: 1, USERS: 1})
    plain = Log.truncate_fully

    def truncate_fully(self: Log, offset: int) -> None:
        if self.partition == ORDERS:
            raise OSError(errno.EIO, "Input/output error", self.path)
        plain(self, offset)

    monkeypatch.setattr(Log, "truncate_fully", truncate_fully)
    (event,) = await mirrored(running, directory)
    assert event.startswith("orders-0: ") and "Input/output error" in event
    assert directory.log(USERS).next_offset == 2


async def test_a_full_disk_does_not_end_a_running_mirror_when_a_topic_is_new(
    running: Running,
    source: LogDirectory,
    directory: LogDirectory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", directory.path)

    monkeypatch.setattr(timing, "REFRESH_S", 0.1)
    new, events = TopicPartition("new", 0), list[str]()
    async with ClusterClient([running.address]) as client, trio.open_nursery() as nursery:
        mirror = Mirror(directory, client, "source:9092", MirrorOptions(), events.append)
        await mirror.begin()
        nursery.start_soon(mirror.run)
        with monkeypatch.context() as patch, trio.fail_after(30):
            patch.setattr(LogDirectory, "set_mirror", full)
            source.create_partition(new)
            append(source.log(new), b"one")
            while not events:
                await trio.sleep(0.01)
            append(source.log(ORDERS), b"two")
            await has(directory, ORDERS, 1)
        await has(directory, new, 1)
        nursery.cancel_scope.cancel()
    (event,) = events
    assert event.startswith("topics and leaders are not followed: ") and "No space left on device" in event


async def test_metadata_older_than_the_last_election_is_ignored(
    running: Running,
    source: LogDirectory,
    directory: LogDirectory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.log(USERS).epochs.assign(5, 0)
    append(source.log(USERS), b"one")
    refreshed = 0

    def change(_: Any, response: Any) -> None:
        nonlocal refreshed
        if isinstance(response, m.MetadataResponse):
            refreshed += 1
            response.brokers.append(m.MetadataResponseBroker(99, "127.0.0.1", 1))
            for each in response.topics:
                if each.name == "users":
                    each.partitions[0].leader_id, each.partitions[0].leader_epoch = 99, 4

    async with ClusterClient([running.address]) as client, trio.open_nursery() as nursery:
        mirror = Mirror(directory, client, "source:9092", MirrorOptions(), print)
        nursery.start_soon(mirror.run)
        await has(directory, USERS, 1)
        change_responses(monkeypatch, change)
        mirror.state.metadata_is_old()
        with trio.fail_after(30):
            while not refreshed:
                await trio.sleep(0.01)
        append(source.log(USERS), b"two")
        await has(directory, USERS, 2)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("policy", [None, "delete", "of a later version"])
async def test_a_copy_is_not_compacted_any_longer_than_its_source(
    policy: str | None,
    running: Running,
    source: LogDirectory,
    directory: LogDirectory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.configure("orders", {"cleanup.policy": "compact"})
    await mirrored(running, directory)
    returned = {"retention.ms": "5"} | ({} if policy is None else {"cleanup.policy": policy})
    monkeypatch.setattr("offsetfs.kafka.mirror.topics.own_settings", lambda each: returned)
    here = "= delete" if policy == "delete" else "removed"
    options = MirrorOptions(topics=(NamePattern("orders"),), once=True)
    events = await mirrored(running, directory, options)
    assert events == [f"orders: changed at the source, and here: cleanup.policy {here}"]
    found = directory.config_of("orders")
    assert (found.is_compacted, found.retention_ms) == (False, -1)
    assert directory.mirror is not None
    assert dict(directory.mirror.topics["orders"].settings) == returned


@pytest.mark.parametrize("keep", [False, True])
async def test_a_topic_that_becomes_a_compacted_one_may_have_gaps(
    *, keep: bool, running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    options = MirrorOptions(once=True, keep=keep)
    log = source.log(ORDERS)
    log.append_replicated(keyed(0, Keyed(0, b"key", b"value")))
    await mirrored(running, directory, options)
    source.configure("orders", {"cleanup.policy": "compact"})
    log.append_replicated(keyed(10, Keyed(0, b"key", b"value")))
    await mirrored(running, directory, options)
    assert directory.config_of("orders").is_compacted != keep
    assert findings_of(directory) == []
