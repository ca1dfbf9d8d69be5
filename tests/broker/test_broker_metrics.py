"""What a broker measures: connections, bytes, requests by API with errors and times, records by topic."""

from __future__ import annotations

import re
import socket
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing
from fixtures.broker.running import Running, framed, received
from fixtures.simulation.fake_clock import FakeClock
from prometheus_client.parser import text_string_to_metric_families

import offsetfs
from offsetfs.common import group_lags
from offsetfs.kafka.broker import exporter, metrics, report
from offsetfs.kafka.broker.exporter import metrics_server
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.report import BrokerReporter, GroupSnapshot
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import BatchBuilder, LogDirectory, TopicPartition

pytestmark = pytest.mark.unit


def produce(*partitions: int, records: int = 3, acks: int = 1) -> m.ProduceRequest:
    """Return a request with a batch for each partition of topic t; partition 0 exists."""
    builder = BatchBuilder(1 << 16)
    for number in range(records):
        builder.append(None, b"value %d" % number, (), 1)
    data = bytes(builder.seal().data)
    return m.ProduceRequest(
        acks=acks,
        topic_data=[
            m.TopicProduceData(name="t", partition_data=[m.PartitionProduceData(each, data) for each in partitions])
        ],
    )


def fetch(max_wait_ms: int, offset: int = 0) -> m.FetchRequest:
    partition = m.FetchRequestFetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = m.FetchRequestFetchTopic(topic="t", partitions=[partition])
    return m.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic])


async def test_connections_are_counted_while_they_are_open(running: Running) -> None:
    found = running.broker._metrics
    stream = await trio.open_tcp_stream(*running.address)
    async with stream:
        await stream.send_all(framed(18, "ApiVersions", 0, m.ApiVersionsRequest()))
        await received(stream)
        assert (found.connections, found.connections_accepted, found.connections_refused) == (1, 1, 0)
    with trio.fail_after(30):
        while found.connections:
            await trio.lowlevel.checkpoint()
    assert found.connections_accepted == 1


@pytest.mark.expect_log("max.connections is 0")
async def test_a_refused_connection_is_counted(directory: LogDirectory, nursery: trio.Nursery) -> None:
    running = Running(directory, ServerSettings(max_connections=0))
    nursery.start_soon(running.run)
    with socket.create_connection(running.address):
        with trio.fail_after(30):
            while not running.broker._metrics.connections_refused:
                await trio.sleep(0.001)
    assert (running.broker._metrics.connections, running.broker._metrics.connections_accepted) == (0, 0)
    running.broker.stop()


async def test_bytes_are_those_on_the_socket(running: Running) -> None:
    found = running.broker._metrics
    await running.send(0, "Produce", 9, produce(0))
    for request, key, name in ((produce(0), 0, "Produce"), (fetch(0), 1, "Fetch")):
        sent, answered = found.received_bytes, found.sent_bytes
        stream = await trio.open_tcp_stream(*running.address)
        async with stream:
            data = framed(key, name, 9, request)
            await stream.send_all(data)
            response = await received(stream)
        await trio.testing.wait_all_tasks_blocked()
        assert found.received_bytes - sent == len(data)
        assert found.sent_bytes - answered == len(response) + 4


async def test_each_error_code_in_a_response_is_counted(running: Running) -> None:
    await running.send(0, "Produce", 9, produce(0, 7, 8))
    await running.send(0, "Produce", 9, produce(0))
    counts = running.broker._metrics.apis["Produce"]
    assert counts.requests == counts.handling.count == 2
    assert counts.errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2}


@pytest.mark.expect_log("Request of version .* failed")
async def test_a_bug_of_a_handler_is_counted_as_an_error(
    directory: LogDirectory, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("offsetfs.kafka.broker.cluster.Cluster.describe_cluster", fails)
    running = Running(directory)
    nursery.start_soon(running.run)
    await running.send(60, "DescribeCluster", 0, m.DescribeClusterRequest())
    counts = running.broker._metrics.apis["DescribeCluster"]
    assert (counts.requests, counts.errors) == (1, {ErrorCode.UNKNOWN_SERVER_ERROR: 1})
    running.broker.stop()


async def test_the_wait_of_a_fetch_is_not_in_its_handling_time(running: Running) -> None:
    await running.send(1, "Fetch", 9, fetch(250))
    counts = running.broker._metrics.apis["Fetch"]
    assert counts.waits.count == counts.handling.count == 1
    assert counts.waits.sum_s + counts.handling.sum_s > 0.24
    assert counts.waits.sum_s > counts.handling.sum_s  # which has the first look at the log, long on a busy machine


async def test_a_fetch_that_finds_records_at_once_has_no_wait(running: Running) -> None:
    await running.send(0, "Produce", 9, produce(0))
    await running.send(1, "Fetch", 9, fetch(10_000))
    counts = running.broker._metrics.apis["Fetch"]
    assert (counts.requests, counts.handling.count, counts.waits.count) == (1, 1, 0)


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_records_and_bytes_are_counted_by_topic(running: Running, acks: int) -> None:
    stream = await trio.open_tcp_stream(*running.address)
    async with stream:
        request = produce(0, records=5, acks=acks)
        await stream.send_all(framed(0, "Produce", 9, request))
        if acks:
            await received(stream)
        await stream.send_all(framed(1, "Fetch", 9, fetch(0)))
        await received(stream)
    size = len(request.topic_data[0].partition_data[0].records or b"")
    assert running.broker._metrics.topics == {"t": metrics.TopicCounts(5, size, size)}


def test_topics_beyond_the_limit_share_their_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "TOPICS_MAX", 2)
    found = BrokerMetrics()
    for topic in ("a", "b", "c", "d", "a"):
        found.produced(topic, 1, 10)
    assert {name: each.produced_records for name, each in found.topics.items()} == {"a": 2, "b": 1}
    assert (found.others.produced_records, found.others.produced_bytes) == (2, 20)


async def test_a_blocked_event_loop_is_a_delay(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    found = BrokerMetrics()
    nursery.start_soon(found.watch_event_loop)
    await trio.sleep(metrics.DELAY_INTERVAL_S / 2)
    autojump_clock.jump(metrics.DELAY_INTERVAL_S / 2 + 3)  # as if a task had not yielded for three seconds
    await trio.sleep(0)
    await trio.testing.wait_all_tasks_blocked()
    assert (found.delays.count, round(found.delays.sum_s, 6)) == (1, 3.0)
    nursery.cancel_scope.cancel()


# --- what is exported ------------------------------------------------------------------------------------------------


async def exported(reporter: BrokerReporter) -> dict[str, dict[tuple[str, ...], float]]:
    """Return what Prometheus reads: the value of each sample by name and labels."""
    server = metrics_server(reporter, "127.0.0.1", 0)
    host, port = server.address

    def scraped() -> str:
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as response:
            assert response.headers["Content-Type"].startswith("text/plain")
            return str(response.read(), "utf-8")

    try:
        text = await trio.to_thread.run_sync(scraped)
    finally:
        await trio.to_thread.run_sync(server.close)
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


async def test_prometheus_reads_the_metrics_over_http(running: Running, directory: LogDirectory) -> None:
    await running.send(0, "Produce", 9, produce(0, 7, records=5))
    await running.send(1, "Fetch", 9, fetch(20, offset=5))
    commit = m.OffsetCommitRequest(
        group_id="readers",
        generation_id_or_member_epoch=-1,
        topics=[m.OffsetCommitRequestTopic(name="t", partitions=[m.OffsetCommitRequestPartition(0, 2)])],
    )
    await running.send(8, "OffsetCommit", 7, commit)
    found = await exported(running.broker.reporter)
    assert found["offsetfs_broker_info"] == {(directory.path, "rw", offsetfs.__version__): 1}
    assert found["offsetfs_broker_accepted_connections_total"] == {(): 3}
    requests = {("Fetch",): 1, ("OffsetCommit",): 1, ("Produce",): 1}
    assert found["offsetfs_broker_requests_total"] == requests
    assert found["offsetfs_broker_errors_total"] == {("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 1}
    assert found["offsetfs_broker_request_handling_seconds_count"] == requests
    assert found["offsetfs_broker_request_wait_seconds_count"] == {("Fetch",): 1}
    assert found["offsetfs_broker_produced_records_total"] == {("t",): 5}
    assert found["offsetfs_broker_groups"] == {("Empty",): 1}
    assert found["offsetfs_broker_group_members"] == {("readers",): 0}
    assert found["offsetfs_broker_group_lag"] == {("readers", "t"): 3}
    assert found["offsetfs_process_open_fds"][()] > 0


async def test_what_is_not_on_disk_is_measured_until_a_sync(running: Running, directory: LogDirectory) -> None:
    async def unsynced() -> list[float]:
        found = await exported(running.broker.reporter)
        return [found[f"offsetfs_broker_unsynced_{each}"][()] for each in ("batches", "bytes", "age_seconds")]

    assert await unsynced() == [0, 0, 0]
    requests = [produce(0, records=number) for number in (3, 5)]
    for request in requests:
        await running.send(0, "Produce", 9, request)
    batches, size_bytes, age_s = await unsynced()
    sent = sum(len(each.topic_data[0].partition_data[0].records or b"") for each in requests)
    assert (batches, size_bytes) == (2, sent)
    assert age_s > 0
    log = directory.log(TopicPartition("t", 0))
    assert log.unsynced.total.size == sent  # the account that the flusher of the directory uses
    await running.send(0, "Produce", 9, produce(0, acks=-1))
    assert await unsynced() == [0, 0, 0]


async def test_the_age_of_what_is_not_on_disk_is_that_of_the_oldest_batch_of_all_logs(tmp_path: Path) -> None:
    clock = FakeClock()
    (tmp_path / "log").mkdir()
    with closing(LogDirectory.open(str(tmp_path / "log"), clock=clock)) as directory:
        directory.create_partitions([TopicPartition("t", number) for number in range(2)])
        for number in range(2):
            builder = BatchBuilder(1 << 16)
            builder.append(None, b"value", (), 1)
            directory.log(TopicPartition("t", number)).append(builder.seal())
            clock.advance(10_000)
        found = await BrokerReporter(directory, BrokerMetrics(), list).report()
        assert (found.unsynced.batches, found.unsynced.records, found.unsynced_age_s) == (2, 2, 20)
        directory.log(TopicPartition("t", 0)).flush()
        assert (await BrokerReporter(directory, BrokerMetrics(), list).report()).unsynced_age_s == 10


def documented() -> dict[str, tuple[str, list[str]]]:
    """Return type and labels of each metric of a broker, as the table of the page has them."""
    page = Path(__file__).parents[2] / "docs" / "use" / "monitoring.md"
    rows = re.findall(r"^\| `(offsetfs_broker_\w+)` \| (\w+) \| ([\w, ]*)\|", page.read_text(), re.MULTILINE)
    return {name: (kind, re.findall(r"\w+", labels)) for name, kind, labels in rows}


async def test_the_page_describes_each_metric(directory: LogDirectory) -> None:
    found = await BrokerReporter(directory, BrokerMetrics(), list).report()
    reported = {}
    labels = {exporter.PREFIX + each.name: list(each.labels) for each in exporter.METRICS}
    labels |= {exporter.PREFIX + each.name: list(each.labels) for each in exporter.HISTOGRAMS}
    for family in exporter.families(found):
        assert family.documentation and not re.search(r"_(ms|kb|count|sum|total)$", family.name)
        name = f"{family.name}_total" if family.type == "counter" else family.name
        reported[name] = (family.type, labels[family.name])
    assert documented() == reported


async def test_groups_and_lags_beyond_the_limits_are_summed(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "GROUPS_MAX", 2)
    monkeypatch.setattr(group_lags, "LAGS_MAX", 1)
    directory.create_partitions([TopicPartition("t", 1)])
    for number in range(2):
        builder = BatchBuilder(1 << 16)
        builder.append(None, b"value", (), 1)
        directory.log(TopicPartition("t", number)).append(builder.seal())
    offsets = {TopicPartition("t", 0): 0, TopicPartition("t", 1): 0, TopicPartition("gone", 0): 0}
    groups = [GroupSnapshot(name, "Stable", 3, offsets) for name in "abcd"]
    found = await BrokerReporter(directory, BrokerMetrics(), lambda: groups).report()
    assert found.members == {"a": 3, "b": 3, "(others)": 6}
    assert found.lags.records == {("a", "t"): 2, ("(others)", "(others)"): 6}
    assert found.groups_by_state == {"Stable": 4}


async def test_names_of_groups_make_labels_that_can_be_read(directory: LogDirectory) -> None:
    names = ['with "quotes"', "new\nline", "back\\slash", "naïve"]
    groups = [GroupSnapshot(each, "Stable", 1, {}) for each in names]
    found = await exported(BrokerReporter(directory, BrokerMetrics(), lambda: groups))
    assert set(found["offsetfs_broker_group_members"]) == {(each,) for each in names}
