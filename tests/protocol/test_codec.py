"""The generated readers and writers of Kafka's messages: every version, another client's codec, hostile bytes."""

from __future__ import annotations

import contextlib
import random
import traceback
import tracemalloc
from typing import Any

import pytest
from fixtures.messages.kafka_python_codec import classes, rewritten
from fixtures.messages.random_messages import random_message

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.codec import InvalidMessage, UnsupportedVersion
from offsetfs.kafka.protocol.messages import (
    FetchRequest,
    HeartbeatRequest,
    MetadataRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from offsetfs.kafka.protocol.schemas import schema, schema_names

pytestmark = pytest.mark.unit

VERSIONS = [
    (name, version)
    for name in schema_names()
    for version in range(schema(name).versions[0], schema(name).versions[1] + 1)
]


def written(name: str, version: int, message: Any) -> bytes:
    return b"".join(codec.writer(name, version)(message))


def read(name: str, version: int, data: bytes) -> Any:
    """Return the message that is all of `data`."""
    message, position = codec.reader(name, version)(memoryview(data), 0)
    assert position == len(data)
    return message


@pytest.mark.long
@pytest.mark.parametrize("name", schema_names())
def test_a_message_is_read_as_it_was_written_in_every_version(name: str) -> None:
    for _, version in (each for each in VERSIONS if each[0] == name):
        for seed in range(4):
            message = random_message(name, schema(name).layout(version), version, seed)
            assert read(name, version, written(name, version, message)) == message, version


IN_KAFKA_PYTHON = sorted(set(schema_names()) & set(classes()) - {"ApiVersionsResponse"})
"""Without the one that kafka-python reads as version 0 when it has an error code, as clients must."""


@pytest.mark.long
@pytest.mark.parametrize("name", IN_KAFKA_PYTHON)
def test_kafka_python_reads_our_bytes_and_writes_the_same(name: str) -> None:
    """For the versions of Kafka 4 that kafka-python has."""
    first, last = schema(name).layouts[0].versions
    for version in range(first, min(last, classes()[name].max_version) + 1):
        if (name, version) == ("ApiVersionsResponse", 1):
            continue
        for seed in range(3):
            data = written(name, version, random_message(name, schema(name).layout(version), version, seed))
            assert rewritten(name, data, version) == data, version


def test_messages_of_old_clients_are_known() -> None:
    for name in ("ProduceRequest", "FetchRequest", "MetadataRequest", "OffsetFetchRequest", "JoinGroupRequest"):
        assert schema(name).versions[0] == 0
    old = bytes.fromhex(
        "ffffffff00000064000000010000000100016100000001000000000000000000000007 00100000".replace(" ", "")
    )
    fetch = read("FetchRequest", 0, old)
    assert (fetch.topics[0].topic, fetch.topics[0].partitions[0].fetch_offset) == ("a", 7)


@pytest.mark.parametrize("name", schema_names())
def test_bytes_that_are_cut_off_or_changed_are_malformed_or_another_message(name: str) -> None:
    for _, version in (each for each in VERSIONS if each[0] == name):
        try:
            _read_cut_off_and_changed(name, version)
        except Exception as error:
            error.add_note(f"in version {version}")
            raise


def _read_cut_off_and_changed(name: str, version: int) -> None:
    data = written(name, version, random_message(name, schema(name).layout(version), version, 1))
    source, reader = random.Random(version), codec.reader(name, version)
    tries = [data[: source.randrange(len(data))] for _ in range(4)] if data else []
    for _ in range(8 if data else 0):
        changed = bytearray(data)
        changed[source.randrange(len(data))] = source.choice([0, 0x7F, 0x80, 0xFF, source.randrange(256)])
        tries.append(bytes(changed))
    for each in tries:
        try:
            reader(memoryview(each), 0)
        except InvalidMessage as error:
            assert str(error)


@pytest.mark.parametrize("name", [name for name in schema_names() if name.endswith("Request")])
def test_a_count_beyond_the_bytes_that_remain_allocates_nothing(name: str) -> None:
    tracemalloc.start()
    try:
        for version in range(schema(name).versions[0], schema(name).versions[1] + 1):
            for body in (b"\xff\xff\xff\xff\x0f" * 8, b"\x7f\xff\xff\xff" * 8, b"\x00" * 3 + b"\x7f\xff\xff\xff" * 8):
                reader = codec.reader(name, version)
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                with contextlib.suppress(InvalidMessage):
                    reader(memoryview(body), 0)
                assert tracemalloc.get_traced_memory()[1] - before < 100_000
    finally:
        tracemalloc.stop()


def test_a_tagged_field_that_is_not_known_is_skipped() -> None:
    data = written("MetadataRequest", 12, MetadataRequest(topics=None))
    assert data[-1] == 0
    unknown = data[:-1] + bytes([1, 0xB1, 0x7F, 3]) + b"abc"
    assert read("MetadataRequest", 12, unknown) == MetadataRequest(topics=None)


def test_a_tagged_field_is_written_only_where_it_is_not_the_default() -> None:
    plain, named = FetchRequest(max_wait_ms=5), FetchRequest(max_wait_ms=5, cluster_id="c")
    assert len(written("FetchRequest", 12, named)) == len(written("FetchRequest", 12, plain)) + 4
    assert read("FetchRequest", 12, written("FetchRequest", 12, named)).cluster_id == "c"


def test_a_value_that_the_version_cannot_carry_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="groups is set, which version 7 cannot carry"):
        codec.writer("OffsetFetchRequest", 7)(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]))
    with pytest.raises(UnsupportedVersion, match="topics without a value"):
        codec.writer("MetadataRequest", 0)(MetadataRequest(topics=None))
    with pytest.raises(KeyError, match="FetchRequest has no version 99"):
        codec.reader("FetchRequest", 99)


def test_records_are_neither_copied_on_reading_nor_on_writing() -> None:
    batch = bytes(range(256)) * 4096
    request = ProduceRequest(
        acks=1, topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=batch)])]
    )
    buffers = codec.writer("ProduceRequest", 9)(request)
    assert any(each is batch for each in buffers)
    data = b"".join(buffers)
    records = read("ProduceRequest", 9, data).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview) and records.obj is data and records == batch


class FileRange:
    """Stands for a range of a file that the broker sends with sendfile."""

    size = 1000


def test_a_range_of_a_file_takes_the_place_of_records() -> None:
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=FileRange())])])
    buffers = codec.writer("ProduceRequest", 3)(request)
    assert isinstance(buffers[-1], FileRange) and buffers[-2] == (1000).to_bytes(4, "big")
    assert codec.size_of(buffers) == 1000 + sum(len(each) for each in buffers[:-1])


def test_a_traceback_shows_the_line_of_the_generated_function() -> None:
    with pytest.raises(AttributeError) as raised:
        codec.writer("MetadataRequest", 12)(object())
    assert "m.include_cluster_authorized_operations" in "".join(traceback.format_exception(raised.value))


def test_a_string_is_not_longer_than_plain_versions_and_records_can_hold() -> None:
    """Once a group of a longer name, which flexible versions can have, joined and could not be stored."""
    read = codec.reader("HeartbeatRequest", 4)
    longest = HeartbeatRequest("g" * codec.STRING_BYTES_MAX)
    assert read(memoryview(written("HeartbeatRequest", 4, longest)), 0)[0].group_id == longest.group_id
    longer = written("HeartbeatRequest", 4, HeartbeatRequest("g" * (codec.STRING_BYTES_MAX + 1)))
    with pytest.raises(InvalidMessage, match="group_id: a string of 32768 bytes"):
        read(memoryview(longer), 0)


def test_many_elements_are_few_buffers() -> None:
    names = [f"n{number}" for number in range(20_000)]
    groups = [m.DescribeGroupsResponseDescribedGroup(group_id=each) for each in names]
    buffers = codec.writer("DescribeGroupsResponse", 5)(m.DescribeGroupsResponse(groups=groups))
    assert len(buffers) < 5000
    found, _ = codec.reader("DescribeGroupsResponse", 5)(memoryview(b"".join(buffers)), 0)
    assert [each.group_id for each in found.groups] == names


def test_records_among_many_elements_are_not_copied() -> None:
    data = [m.PartitionProduceData(number, memoryview(b"records")) for number in range(20_000)]
    request = m.ProduceRequest(topic_data=[m.TopicProduceData("t", partition_data=data)])
    buffers = codec.writer("ProduceRequest", 9)(request)
    found = [each for each in buffers if type(each) is memoryview]
    assert all(each is one.records for each, one in zip(found, data, strict=True))
