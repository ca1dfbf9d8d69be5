"""Produce: what a batch of a client must be, how it is stored, and what the answer says."""

from __future__ import annotations

import errno
import random
import threading
from typing import Any

import pytest
import trio
from fixtures.broker.produce_requests import GOOD, NOW, WRONG, altered, batch, produced, producing_of, response_of
from fixtures.broker.running import Running
from fixtures.machine.short_threads import no_threads
from trio.testing import MockClock

from offsetfs.common import loop_watch
from offsetfs.kafka.broker.batches import client_batches, produce
from offsetfs.kafka.broker.batches.client_batches import sealed_batch
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, LogReader, SealedBatch, TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.storage.files import File
from offsetfs.storage.records import CODECS
from offsetfs.storage.records.format.batch import parse_header

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)


def topic(directory: LogDirectory, name: str, **settings: str) -> TopicPartition:
    partition = TopicPartition(name, 0)
    directory.create_partitions([partition], {key.replace("_", "."): value for key, value in settings.items()})
    return partition


async def test_a_compacted_topic_takes_records_with_a_key_only(directory: LogDirectory, running: Running) -> None:
    """The check read another column, and refused records by their value."""
    latest = topic(directory, "latest", cleanup_policy="compact")
    keyless = await produced(running, "latest", batch([(b"k", b"v"), (None, b"v"), (None, None)]))
    assert keyless.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in keyless.record_errors] == [1, 2]
    assert "no records without a key" in keyless.record_errors[0].batch_index_error_message
    assert "2 of 3 records have no key" in keyless.error_message
    assert (await produced(running, "latest", batch([(b"k", b"v"), (b"k", None), (b"", b"")]))).error_code == 0
    assert directory.log(latest).next_offset == 3


async def test_flush_messages_syncs_before_the_answer_whatever_acks_says(
    directory: LogDirectory, running: Running
) -> None:
    """As UnifiedLog.append: the answer of Kafka comes after the sync."""
    pairs = topic(directory, "pairs", flush_messages="2")
    data = batch([(None, b"v")])
    for expected in (0, 2, 2, 4):
        await produced(running, "pairs", data, acks=1)
        assert directory.log(pairs).recovery_point == expected


@pytest.mark.long
@pytest.mark.parametrize("codec", CODECS)
async def test_a_batch_is_stored_as_it_came(directory: LogDirectory, running: Running, codec: str) -> None:
    sent = batch([(b"k", b"v" * 100), (None, None)], codec=codec)
    answer = await produced(running, "t", sent)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (0, 0, -1, 0)
    assert (await produced(running, "t", sent)).base_offset == 2
    stored = directory.log(T).batch_at(0)
    assert stored is not None and stored.header.codec_name == codec
    assert bytes(stored.data[16:]) == sent[16:]


@pytest.mark.long
@pytest.mark.promise(
    "A batch that is refused leaves nothing in the log, except after a failed sync or write; the answer has Kafka's "
    "error code and the reason."
)
@pytest.mark.parametrize(("data", "code", "reason"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
async def test_a_wrong_batch_is_refused_and_leaves_nothing(
    directory: LogDirectory, running: Running, data: bytes, code: ErrorCode, reason: str
) -> None:
    for _ in range(2):  # in a thread, because the log is not open, and on the event loop
        answer = await produced(running, "t", data)
        assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
        assert reason in answer.error_message
        await produced(running, "t", GOOD)
    assert directory.log(T).next_offset == 2


async def test_zstd_needs_a_version_that_has_it(running: Running) -> None:
    data = batch([(None, b"v")], codec="zstd")
    assert (await produced(running, "t", data, version=6)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await produced(running, "t", data, version=7)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_old_versions_are_offered_and_refused(running: Running, directory: LogDirectory, version: int) -> None:
    """Without version 0 librdkafka sends nothing compressed (KAFKA-18659)."""
    offered = await running.send(18, "ApiVersions", 0, m.ApiVersionsRequest())
    assert next((each.min_version, each.max_version) for each in offered.api_keys if each.api_key == 0) == (0, 13)
    assert (await produced(running, "t", GOOD, version=version)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert directory.log(T).next_offset == 0


async def test_acks_other_than_kafkas_are_refused(running: Running, directory: LogDirectory) -> None:
    answer = await produced(running, "t", GOOD, acks=2)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS and "acks=2" in answer.error_message
    assert directory.log(T).next_offset == 0


@pytest.mark.expect_log("connection closed: acks=0, and an error in nowhere")
async def test_an_error_without_an_answer_closes_the_connection(running: Running, directory: LogDirectory) -> None:
    with pytest.raises((IndexError, ValueError)):
        await produced(running, "nowhere", GOOD, acks=0)


@pytest.mark.security("A client cannot write records into the topics in which a broker keeps its own state.")
async def test_an_internal_topic_and_one_that_is_not_there_are_refused(running: Running) -> None:
    internal = await produced(running, "__consumer_offsets", GOOD)
    assert internal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    for name in ("nowhere", "a/b", ""):
        assert (await produced(running, name, GOOD)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- sizes


@pytest.mark.parametrize("codec", CODECS[1:])
async def test_a_record_above_max_decompressed_message_bytes_is_refused(
    directory: LogDirectory, running: Running, codec: str
) -> None:
    """As Kafka 4.4: records of compressed batches alone, each without the number of its bytes."""
    bounded = topic(directory, "bounded", max_decompressed_message_bytes="105")
    largest, larger = b"v" * 98, b"v" * 99  # attributes, two deltas, no key, two bytes for the size, no headers
    assert (await produced(running, "bounded", batch([(None, largest)] * 3, codec=codec))).error_code == 0
    answer = await produced(running, "bounded", batch([(None, b"v"), (None, larger), (None, larger)], codec=codec))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.error_message == "record 1 decompresses to 106 bytes; max.decompressed.message.bytes is 105"
    assert (await produced(running, "bounded", batch([(None, larger)] * 3))).error_code == 0
    assert directory.log(bounded).next_offset == 6


async def test_a_batch_above_max_message_bytes_is_too_large(directory: LogDirectory, running: Running) -> None:
    small = topic(directory, "small", max_message_bytes="300")
    answer = await produced(running, "small", batch([(None, b"v" * 300)]))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE and "max.message.bytes is 300" in answer.error_message
    assert (await produced(running, "small", batch([(None, b"v" * 300)], codec="gzip"))).error_code == 0
    assert directory.log(small).next_offset == 1


async def test_a_batch_above_segment_bytes_has_an_error_of_its_own(directory: LogDirectory, running: Running) -> None:
    topic(directory, "small", segment_bytes="300")
    answer = await produced(running, "small", batch([(None, b"v" * 300)]))
    assert answer.error_code == ErrorCode.RECORD_LIST_TOO_LARGE and "segment.bytes is 300" in answer.error_message


@pytest.mark.long
async def test_a_batch_that_inflates_beyond_the_limit_is_too_large(running: Running, directory: LogDirectory) -> None:
    """It was KAFKA_STORAGE_ERROR, which clients retry for ever; one that is too large they split."""
    bomb = batch([(None, bytes(65 << 20))], codec="zstd")
    assert len(bomb) < 10_000
    answer = await produced(running, "t", bomb)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE and "inflates to more than" in answer.error_message


async def test_what_could_take_long_is_checked_in_threads(
    running: Running, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that inflated to many megabytes kept all other clients waiting."""
    in_threads: list[bool] = []

    def noted(*arguments: Any) -> SealedBatch:
        in_threads.append(threading.current_thread() is not threading.main_thread())
        return sealed_batch(*arguments)

    monkeypatch.setattr(produce, "sealed_batch", noted)
    monkeypatch.setattr(loop_watch, "SLOW_S", 3600.0)  # a busy disk would move the next append to a thread
    value, noise = b"v" * 100, random.Random(1).randbytes(20_000)
    for data, expected in (
        (batch([(None, value)]), True),  # the log is not open yet
        (batch([(None, value)]), False),
        (batch([(None, value)], codec="lz4"), False),
        (batch([(None, value)], codec="zstd"), True),  # it may ask for a large window
        (batch([(None, bytes(60_000))], codec="gzip"), False),
        (batch([(None, bytes(70_000))], codec="gzip"), True),
        (batch([(None, noise)], codec="gzip"), True),
        (batch([(None, noise)]), False),
        (batch([(None, bytes(1_000_000))]), False),
        (batch([(None, value)], producer_id=1, sequence=0), True),  # the producers are not read yet
        (batch([(None, value)], producer_id=1, sequence=1), False),
    ):
        assert (await produced(running, "t", data)).error_code == 0
        assert in_threads.pop() == expected and not in_threads, parse_header(data)


async def test_after_an_append_that_waited_for_the_disk_threads_append(
    running: Running, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "THREAD_FOR_S", 3600.0)
    await produced(running, "t", GOOD)
    log = directory.log(TopicPartition("t", 0))
    append, in_threads = log.append, list[bool]()

    def append_slowly(*arguments: Any, **options: Any) -> object:
        in_threads.append(threading.current_thread() is not threading.main_thread())
        threading.Event().wait(loop_watch.SLOW_S * 2)  # as a disk that cannot keep up
        return append(*arguments, **options)

    monkeypatch.setattr(log, "append", append_slowly)
    for _ in range(2):
        assert (await produced(running, "t", batch([(None, bytes(70_000))]))).error_code == 0
    assert in_threads == [False, True]


async def test_batches_of_one_partition_are_appended_in_the_order_of_the_request(
    running: Running, directory: LogDirectory
) -> None:
    """A small batch behind a large one was appended before it."""
    await produced(running, "t", GOOD)
    large = batch([(None, bytes(600_000))])  # the second one in a thread
    parts = [m.PartitionProduceData(0, each) for each in (GOOD, large, GOOD, large, GOOD)]
    topics = [m.TopicProduceData(name="t", partition_data=parts)]
    response = await running.send(0, "Produce", 9, m.ProduceRequest(acks=1, topic_data=topics))
    answers = response.responses[0].partition_responses
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, offset) for offset in range(1, 6)]


# --- threads


@pytest.mark.expect_log("no append to t-0")
async def test_without_threads_batches_are_refused_or_answered(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """A batch that was in the log was answered with UNKNOWN_SERVER_ERROR, because its sync found no thread."""
    producing = producing_of(directory)

    async def answer(data: bytes) -> Any:
        topics = [m.TopicProduceData(name="t", partition_data=[m.PartitionProduceData(0, data)])]
        response = await response_of(producing, m.ProduceRequest(acks=-1, topic_data=topics))
        return response.responses[0].partition_responses[0]

    assert (await answer(GOOD)).base_offset == 0
    threads = no_threads(monkeypatch)
    small = await answer(GOOD)
    assert (small.error_code, small.base_offset) == (0, 1)
    assert directory.log(T).recovery_point == 2
    large = await answer(batch([(None, bytes(70_000))], codec="gzip"))
    assert large.error_code == ErrorCode.KAFKA_STORAGE_ERROR and "no thread could be started" in large.error_message
    assert directory.log(T).next_offset == 2
    threads.are_short = False
    assert (await answer(batch([(None, bytes(70_000))], codec="gzip"))).base_offset == 2


# --- timestamps


async def test_timestamps_out_of_the_limits_are_refused_by_record(directory: LogDirectory, running: Running) -> None:
    limited = topic(
        directory, "limited", message_timestamp_before_max_ms="3600000", message_timestamp_after_max_ms="60000"
    )
    now = directory.clock.now_ms()
    times = [now, now - 3_700_000, -1, now + 100_000]
    answer = await produced(running, "limited", batch([(None, b"v")] * 4, times=times))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == [1, 3]
    assert f"timestamp {times[1]} lies outside" in answer.record_errors[0].batch_index_error_message
    assert "message.timestamp.before.max.ms" in answer.error_message
    right = batch([(None, b"v")] * 2, times=[now - 3_500_000, -1])
    assert (await produced(running, "limited", right)).error_code == 0
    assert directory.log(limited).next_offset == 2


async def test_no_more_records_are_named_than_an_answer_may_have(
    directory: LogDirectory, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(directory, "latest", cleanup_policy="compact")
    monkeypatch.setattr(client_batches, "RECORD_ERRORS_MAX", 3)
    assert len((await produced(running, "latest", batch([(None, b"")] * 9))).record_errors) == 3
    monkeypatch.setattr(client_batches, "NAMED_RECORDS_MAX", 8)
    answer = await produced(running, "latest", batch([(None, b"")] * 9))
    assert answer.record_errors == [] and "9 of 9 records" in answer.error_message


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("claimed", [NOW - 5, NOW + 5, -1])
async def test_a_wrong_largest_timestamp_in_the_header_is_corrected(
    directory: LogDirectory, running: Running, codec: str, claimed: int
) -> None:
    """Otherwise the time index, retention and searches by time would follow it."""
    sent = altered(batch([(None, b"v")] * 2, times=[NOW, NOW - 1], codec=codec), max_timestamp=claimed)
    assert (await produced(running, "t", sent)).error_code == 0
    stored = directory.log(T).batch_at(0)
    assert stored is not None and stored.header.max_timestamp == NOW
    assert directory.log(T).max_timestamp() == (0, NOW)


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_log_append_time_is_written_and_answered(directory: LogDirectory, running: Running, codec: str) -> None:
    stamped = topic(directory, "stamped", message_timestamp_type="LogAppendTime")
    sent = batch([(None, b"v")] * 2, times=[5, 7], codec=codec, producer_id=9, sequence=0)
    before = directory.clock.now_ms()
    answer = await produced(running, "stamped", sent)
    assert before <= answer.log_append_time_ms <= directory.clock.now_ms()
    stored = directory.log(stamped).batch_at(0)
    assert stored is not None
    header = stored.header
    assert (header.timestamp_type, header.max_timestamp) == ("LogAppendTime", answer.log_append_time_ms)
    assert (header.base_timestamp, header.codec_name) == (5, codec), "the producer's, as in Kafka"
    again = await produced(running, "stamped", sent)
    assert (again.base_offset, again.log_append_time_ms) == (0, answer.log_append_time_ms), "a repeat"


# --- compression.type


@pytest.mark.long
@pytest.mark.parametrize("wanted", ["uncompressed", *CODECS[1:]])
@pytest.mark.parametrize("sent", ["none", "gzip", "lz4"])
async def test_a_topic_compresses_again_and_keeps_all_else(
    directory: LogDirectory, running: Running, sent: str, wanted: str
) -> None:
    squeezed = topic(directory, "squeezed", compression_type=wanted)
    records = [(b"k%d" % number, b"v" * 50) for number in range(20)]
    times = [NOW + number % 3 for number in range(20)]
    data = batch(records, times=times, codec=sent, producer_id=7, epoch=2, sequence=11)
    for sequence in (11, 31):
        data = altered(data, base_sequence=sequence)
        assert (await produced(running, "squeezed", data)).error_code == 0
    stored = directory.log(squeezed).batch_at(20)
    assert stored is not None
    was, now = parse_header(data), stored.header
    assert now.codec_name == ("none" if wanted == "uncompressed" else wanted)
    kept = ("producer_id", "producer_epoch", "base_sequence", "base_timestamp", "max_timestamp", "count")
    assert all(getattr(was, each) == getattr(now, each) for each in kept)
    found = list(LogReader(directory.log(squeezed)).records())
    assert [(each.key, each.value, each.timestamp) for each in found] == [
        (*record, time) for record, time in zip(records, times, strict=True)
    ] * 2


async def test_the_level_of_a_topic_is_used(directory: LogDirectory, running: Running) -> None:
    sizes = []
    value = b"".join(b"%d of %d; " % (number % 97, number % 89) for number in range(4000))
    for level in ("1", "9"):
        partition = topic(directory, f"gzip{level}", compression_type="gzip", compression_gzip_level=level)
        assert (await produced(running, f"gzip{level}", batch([(None, value)]))).error_code == 0
        sizes.append(directory.log(partition).size_bytes)
    assert sizes[0] > sizes[1]


async def test_what_is_too_large_after_recompression_is_refused(directory: LogDirectory, running: Running) -> None:
    plain = topic(directory, "plain", compression_type="uncompressed", max_message_bytes="1000")
    answer = await produced(running, "plain", batch([(None, bytes(5000))], codec="zstd"))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert directory.log(plain).next_offset == 0


# --- errors of one partition


@pytest.mark.promise(
    "A disk that is full or fails is an error of the written partitions on it only; a full disk "
    "takes batches again once there is free space."
)
async def test_a_full_disk_is_an_error_until_there_is_space(
    directory: LogDirectory, running: Running, monkeypatch: pytest.MonkeyPatch, expect_log: Any
) -> None:
    expect_log("no append to t-0: .*No space left")
    assert (await produced(running, "t", GOOD)).error_code == 0
    write, is_full = File.write, True

    def failing(file: File, position: int, data: Any) -> None:
        if is_full and file.path.endswith(".log"):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, position, data)

    monkeypatch.setattr(File, "write", failing)
    for _ in range(2):
        assert (await produced(running, "t", GOOD)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    is_full = False
    assert (await produced(running, "t", GOOD)).base_offset == 1


@pytest.mark.promise(
    "A disk that is full or fails is an error of the written partitions on it only; a full disk "
    "takes batches again once there is free space."
)
@pytest.mark.expect_log("no append to t-0: .*an earlier write failed", "no append to t-0: .*Input/output")
async def test_a_failed_log_concerns_its_partition_only(
    directory: LogDirectory, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(directory, "u")
    data = [m.PartitionProduceData(0, GOOD)]
    topics = [m.TopicProduceData(name=name, partition_data=data) for name in ("t", "u")]
    sync = File.sync

    def failing(file: File) -> None:
        if "/t-0/" in file.path:
            raise OSError(errno.EIO, "Input/output error")
        sync(file)

    await running.send(0, "Produce", 9, m.ProduceRequest(acks=-1, topic_data=topics))
    monkeypatch.setattr(File, "sync", failing)
    for number in (1, 2):
        response = await running.send(0, "Produce", 9, m.ProduceRequest(acks=-1, topic_data=topics))
        failed, fine = (each.partition_responses[0] for each in response.responses)
        assert (failed.error_code, failed.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert (fine.error_code, fine.base_offset) == (0, number)
    with pytest.raises((StorageError, OSError)):
        directory.close()


async def test_a_read_only_directory_takes_nothing(
    directory: LogDirectory, nursery: trio.Nursery, tmp_path: Any
) -> None:
    running = Running(LogDirectory.open(str(tmp_path), read_only=True))
    nursery.start_soon(running.run)
    answer = await produced(running, "t", GOOD)
    assert answer.error_code == ErrorCode.POLICY_VIOLATION and "opened for reading" in answer.error_message
    running.broker.stop()


@pytest.mark.long
async def test_batches_of_several_partitions_are_appended_from_one_request(
    directory: LogDirectory, running: Running
) -> None:
    directory.create_partitions([TopicPartition("wide", number) for number in range(8)])
    large = batch([(None, bytes(70_000))])
    parts = [m.PartitionProduceData(number, large if number % 2 else GOOD) for number in range(9)]
    for _ in range(2):
        topics = [m.TopicProduceData(name="wide", partition_data=parts)]
        response = await running.send(0, "Produce", 9, m.ProduceRequest(acks=-1, topic_data=topics))
    answers = response.responses[0].partition_responses
    assert [(each.index, each.base_offset) for each in answers] == [*((number, 1) for number in range(8)), (8, -1)]
    assert answers[8].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert all(directory.log(TopicPartition("wide", number)).recovery_point == 2 for number in range(8))
