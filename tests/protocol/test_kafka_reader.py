"""Readers with Kafka's texts for what cannot be read. tests/interop/test_dump_against_kafka.py compares with Kafka."""

from __future__ import annotations

import contextlib
import random
import struct
import tracemalloc

import pytest
from fixtures.messages.random_messages import random_message

from offsetfs.kafka.protocol import codec, kafka_reader
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.json_text import json_writer
from offsetfs.kafka.protocol.kafka_reader import read_unsigned
from offsetfs.kafka.protocol.messages import ConsumerGroupHeartbeatRequest
from offsetfs.kafka.protocol.records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from offsetfs.kafka.protocol.schemas import record_schemas, schema, schema_names

pytestmark = pytest.mark.unit

STORED = [name for name in schema_names() if schema(name).module != "messages"]


def read(name: str, data: bytes, version: int = 0) -> object:
    return kafka_reader.reader(name, version)(memoryview(data), 0)[0]


@pytest.mark.parametrize("name", STORED)
def test_sound_messages_are_read_as_by_the_codec(name: str) -> None:
    first, last = schema(name).versions
    for version in range(first, last + 1):
        for seed in range(4):
            message = random_message(name, schema(name).layout(version), version, seed)
            assert read(name, b"".join(codec.writer(name, version)(message)), version) == message


@pytest.mark.parametrize("name", STORED)
def test_whatever_the_bytes_there_is_one_error(name: str) -> None:
    source = random.Random(name)
    for version in (-1, *range(schema(name).versions[1] + 1), 99):
        for size in (*range(8), 20, 60, 60):
            data = source.randbytes(size)
            try:
                message, position = kafka_reader.reader(name, version)(memoryview(data), 0)
            except InvalidMessage:
                continue
            assert position <= len(data)
            assert json_writer(name, version)(message).startswith("{")


def test_a_count_beyond_the_bytes_that_remain_allocates_nothing() -> None:
    tracemalloc.start()
    try:
        for name in STORED:
            for body in (b"\xff\xff\xff\xff\x07" * 8, b"\x7f\xff\xff\xff" * 8, bytes(8) + b"\xff\xff\xff\x7f" * 8):
                reader = kafka_reader.reader(name, 0)
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                with contextlib.suppress(InvalidMessage):
                    reader(memoryview(body), 0)
                assert tracemalloc.get_traced_memory()[1] - before < 100_000
    finally:
        tracemalloc.stop()


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


GROUP = text("consumer") + struct.pack(">i", 1) + b"\xff\xff" * 2
ASSIGNMENT = struct.pack(">iib", 1, 2, 3)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("OffsetCommitKey", b"", "null"),
        ("OffsetCommitKey", b"\xff\xff", "non-nullable field group was serialized as null"),
        ("OffsetCommitKey", b"\0\5abc", "Error reading byte array of 5 byte(s): only 3 byte(s) available"),
        (
            "GroupMetadataValue",
            GROUP + struct.pack(">i", 7),
            "Tried to allocate a collection of size 7, but there are only 0 bytes remaining.",
        ),
        ("GroupMetadataValue", GROUP + struct.pack(">i", -1), "non-nullable field members was serialized as null"),
        ("ConsumerGroupRegularExpressionValue", b"\2\0", "non-nullable field topics element was serialized as null"),
        (
            "ConsumerGroupRegularExpressionValue",
            b"\2\x81\x80\x02",
            "string field topics element had invalid length 32768",
        ),
        ("ConsumerGroupCurrentMemberAssignmentValue", ASSIGNMENT + b"\xff" * 5, "Varint is too long"),
        ("ConsumerGroupCurrentMemberAssignmentValue", ASSIGNMENT + b"\1\1\1\7\xff\xff\xff\xff\x0f", "-1"),
        ("PartitionChangeRecord", bytes(20) + b"\1\x08\1\1", "Tag 8 is not valid for version 0"),
    ],
    ids=["empty", "null", "cut", "count", "null array", "null element", "length", "varint", "negative size", "tag"],
)
def test_the_text_is_kafkas(name: str, data: bytes, reason: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        read(name, data)
    assert str(caught.value).startswith(reason)


def test_bytes_that_are_not_utf_8_are_read_as_by_java() -> None:
    key = struct.pack(">h", 4) + b"\xc3(\xff\xff" + text("t") + bytes(4)
    assert json_writer("OffsetCommitKey", 0)(read("OffsetCommitKey", key)) == (
        '{"group":"\ufffd(\ufffd\ufffd","topic":"t","partition":0}'
    )
    with pytest.raises(InvalidMessage, match="utf-8"):
        codec.reader("OffsetCommitKey", 0)(memoryview(key), 0)


def test_a_version_after_the_last_is_read_as_the_last_unless_it_has_structs() -> None:
    subscription = b"".join(codec.writer("ConsumerProtocolSubscription", 3)(subscription_of(0)))
    assert read("ConsumerProtocolSubscription", subscription, 4) == subscription_of(0)
    owned = b"".join(codec.writer("ConsumerProtocolSubscription", 3)(subscription_of(1)))
    with pytest.raises(InvalidMessage, match="Can't read version 4"):
        read("ConsumerProtocolSubscription", owned, 4)
    assert kafka_reader.reader("ConsumerProtocolSubscription", 30_000) is kafka_reader.reader(
        "ConsumerProtocolSubscription", 4
    )


def subscription_of(owned: int) -> object:
    topics = [ConsumerProtocolSubscriptionTopicPartition("t", [1])] * owned
    return ConsumerProtocolSubscription(["t"], None, topics, 7, None)


def test_an_unsigned_varint_is_a_java_int() -> None:
    assert read_unsigned(memoryview(b"\xac\x02"), 0) == (300, 2)
    assert read_unsigned(memoryview(b"\xff\xff\xff\xff\x0f"), 0) == (-1, 5)


def test_a_producer_of_version_0_has_no_tagged_fields() -> None:
    """Once the codec read `previousProducerId` in version 0, where Kafka has it as a tagged field of version 1 only."""
    written = struct.pack(">qhib", 4, 1, 60_000, 2) + struct.pack(">iqq", -1, 10, 9)
    found, position = codec.reader("TransactionLogValue", 0)(memoryview(written), 0)
    assert position == len(written)
    assert (found.producer_id, found.producer_epoch, found.transaction_start_timestamp_ms) == (4, 1, 9)
    assert b"".join(codec.writer("TransactionLogValue", 0)(found)) == written


def test_an_absent_struct_has_the_defaults_and_a_null_one_is_null() -> None:
    absent = ConsumerGroupMemberMetadataValue()
    null = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    data = [b"".join(codec.writer("ConsumerGroupMemberMetadataValue", 0)(each)) for each in (absent, null)]
    assert data[1] == data[0][:-1] + b"\1\0\1\0"
    assert [codec.reader("ConsumerGroupMemberMetadataValue", 0)(memoryview(each), 0)[0] for each in data] == [
        absent,
        null,
    ]


def test_the_elements_of_an_array_that_may_be_null_may_not() -> None:
    """Once the names in a heartbeat could be null, because the array can: Kafka refuses that."""
    name = "ConsumerGroupHeartbeatRequest"
    data = b"".join(codec.writer(name, 0)(ConsumerGroupHeartbeatRequest(subscribed_topic_names=["zz"])))
    with pytest.raises(InvalidMessage, match="subscribed_topic_names element is null"):
        codec.reader(name, 0)(memoryview(data.replace(b"\2\3zz", b"\2\0")), 0)


def test_the_records_of_a_topic_are_those_of_its_coordinator() -> None:
    assert record_schemas("__share_group_state") == {
        0: ("ShareSnapshotKey", "ShareSnapshotValue"),
        1: ("ShareUpdateKey", "ShareUpdateValue"),
    }
    assert record_schemas("__consumer_offsets")[1] == ("OffsetCommitKey", "OffsetCommitValue")
    assert record_schemas("__cluster_metadata")[2] == (None, "TopicRecord")


@pytest.mark.parametrize(
    ("count", "left", "reason"),
    [
        (1, 0, "Tried to read 1 tagged fields, but there are only 0 bytes remaining."),
        (10_001, 20_002, "Tried to read 10001 tagged fields, which exceeds the maximum allowed count of 10000."),
    ],
)
def test_more_tags_than_kafka_reads_are_refused_by_both_readers(count: int, left: int, reason: str) -> None:
    data = b"".join(codec.writer("ConsumerGroupHeartbeatRequest", 0)(ConsumerGroupHeartbeatRequest("g")))[:-1]
    data += codec.uvarint(count) + b"\x63\0" * (left // 2)
    with pytest.raises(InvalidMessage, match=reason):
        read("ConsumerGroupHeartbeatRequest", data)
    with pytest.raises(InvalidMessage, match=r"tagged fields: \d+ bytes or elements"):
        codec.reader("ConsumerGroupHeartbeatRequest", 0)(memoryview(data), 0)


def test_more_elements_than_kafka_reads_are_refused_by_both_readers() -> None:
    reason = "Tried to read a collection of size 1000001, which exceeds the maximum allowed size of 1000000."
    data = struct.pack(">i", 1_000_001) + bytes(4 * 1_000_001)
    with pytest.raises(InvalidMessage, match=reason):
        read("ConsumerProtocolSubscription", data)
    with pytest.raises(InvalidMessage, match="1000001 bytes or elements"):
        codec.reader("ConsumerProtocolSubscription", 0)(memoryview(data), 0)
