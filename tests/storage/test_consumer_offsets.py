"""The topics in which coordinators keep their state: committed offsets, groups, transactions, shares, metadata."""

import json
import struct

import pytest

from offsetfs.storage.dump import decoders
from offsetfs.storage.errors import MalformedBatch

pytestmark = pytest.mark.unit

COMMIT_KEY = bytes.fromhex("0001000267310005746f70696300000003")
GROUP_KEY = bytes.fromhex("000200026731")


def shown(key: bytes | None, value: bytes | None, topic: str = "__consumer_offsets") -> tuple[str | None, str | None]:
    return decoders.show_coordinator_record(topic, 42, key, value)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (
            "000300000000000004d20000000500000000018bcfe56800",
            '{"version":"3","data":{"offset":1234,"leaderEpoch":5,"metadata":"","commitTimestamp":1700000000000}}',
        ),
        (
            "000100000000000004d200000000018bcfe56800ffffffffffffffff",
            '{"version":"1","data":{"offset":1234,"metadata":"","commitTimestamp":1700000000000,"expireTimestamp":-1}}',
        ),
        (
            "000400000000000004d2000000050100 00018bcfe5680000".replace(" ", ""),
            '{"version":"4","data":{"offset":1234,"leaderEpoch":5,"metadata":"","commitTimestamp":1700000000000}}',
        ),
    ],
    ids=["version 3", "version 1", "version 4"],
)
def test_a_committed_offset_is_shown_as_kafkas_tool_shows_it(value: str, data: str) -> None:
    key, text = shown(COMMIT_KEY, bytes.fromhex(value))
    assert key == '{"type":"1","data":{"group":"g1","topic":"topic","partition":3}}'
    assert text == data


def test_a_tombstone_is_shown_as_deleted() -> None:
    assert shown(GROUP_KEY, None) == ('{"type":"2","data":{"group":"g1"}}', "<DELETE>")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"\0\x63", None, "Unknown record type 99 at offset 42, skipping."),
        (b"\0", None, "Error at offset 42, skipping. Could not read version from key's buffer."),
        (COMMIT_KEY, b"", "Error at offset 42, skipping. Could not read version from value's buffer."),
        (COMMIT_KEY, b"\0\7", "Error at offset 42, skipping. Found an unknown record version 7 for 1 type"),
        (
            COMMIT_KEY[:-1],
            None,
            "Error at offset 42, skipping. Could not read record with version 1 from key's buffer due to: null.",
        ),
    ],
    ids=["type", "no type", "no version", "version", "cut"],
)
def test_an_unreadable_key_is_replaced_by_the_error(key: bytes, value: bytes | None, said: str) -> None:
    assert shown(key, value) == (said, None)


def test_a_record_without_a_key_is_no_coordinators() -> None:
    with pytest.raises(MalformedBatch, match="no key"):
        shown(None, b"")


def string(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def group(protocol_type: str, subscription: bytes, assignment: bytes) -> bytes:
    """A group of one member, version 3."""
    member = string("m-1") + b"\xff\xff" + string("client") + string("/127.0.0.1") + struct.pack(">ii", 1, 2)
    head = b"\0\3" + string(protocol_type) + struct.pack(">i", 7) + string("range") + string("m-1")
    return head + struct.pack(">qi", 1700000000000, 1) + member + blob(subscription) + blob(assignment)


def members(value: bytes) -> dict[str, object]:
    text = shown(GROUP_KEY, value)[1]
    assert text is not None
    member: dict[str, object] = json.loads(text)["data"]["members"][0]
    return member


def test_what_a_consumer_subscribed_to_and_got_is_shown_in_full() -> None:
    subscription = b"\0\0" + struct.pack(">i", 1) + string("orders") + struct.pack(">i", -1)
    assignment = b"\0\1" + struct.pack(">i", 1) + string("orders") + struct.pack(">ii", 1, 5) + struct.pack(">i", -1)
    member = members(group("consumer", subscription, assignment))
    assert member["subscription"] == {"topics": ["orders"], "userData": None}
    assert member["assignment"] == {
        "assignedPartitions": [{"topic": "orders", "partitions": [5]}],
        "userData": None,
    }


@pytest.mark.parametrize(("kind", "data"), [("connect", b"\0\0\0\0\0\0"), ("consumer", b"\0\0\xff"), ("consumer", b"")])
def test_of_other_groups_and_of_damage_the_bytes_are_shown(kind: str, data: bytes) -> None:
    member = members(group(kind, data, data))
    assert member["subscription"] == member["assignment"] == {0: "", 3: "AAD/", 6: "AAAAAAAA"}[len(data)]


def test_a_transaction_is_shown_with_what_is_not_the_default() -> None:
    key = b"\0\0" + string("tx-1")
    value = b"\0\1" + struct.pack(">qhibBqq", 4, 0, 60000, 4, 1, 10, -1) + b"\2" + b"\0\x08" + struct.pack(">q", 3)
    value += b"\2\2" + struct.pack(">h", 0)
    assert shown(key, value, "__transaction_state") == (
        '{"type":"0","data":{"transactionalId":"tx-1"}}',
        '{"version":"1","data":{"producerId":4,"previousProducerId":3,"producerEpoch":0,"transactionTimeoutMs":60000,'
        '"transactionStatus":4,"transactionPartitions":[],"transactionLastUpdateTimestampMs":10,'
        '"transactionStartTimestampMs":-1}}',
    )


def test_the_state_of_a_share_group_is_shown() -> None:
    key = b"\0\1" + string("g") + bytes(16) + struct.pack(">i", 2)
    value = b"\0\0" + struct.pack(">iiq", 1, 2, 3) + b"\2" + struct.pack(">qqbh", 3, 5, 0, 1) + b"\0" + b"\0"
    assert shown(key, value, "__share_group_state") == (
        '{"type":"1","data":{"groupId":"g","topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":2}}',
        '{"version":"0","data":{"snapshotEpoch":1,"leaderEpoch":2,"startOffset":3,"stateBatches":'
        '[{"firstOffset":3,"lastOffset":5,"deliveryState":0,"deliveryCount":1}]}}',
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            b"\1\2\0" + b"\7orders" + bytes(16) + b"\0",
            '{"type":"TOPIC_RECORD","version":0,"data":{"name":"orders","topicId":"AAAAAAAAAAAAAAAAAAAAAA"}}',
        ),
        (b"\1\x14\0\0", '{"type":"NO_OP_RECORD","version":0,"data":{}}'),
        (b"\1\x14\0\0x", "Error at 42, skipping. Found 1 byte(s) of garbage after 20"),
        (b"\1\2\0", "Error at 42, skipping. Failed to deserialize record with type 2"),
        (b"\2", "Error at 42, skipping. Could not deserialize metadata record due to unknown frame version 2"),
        (b"\1\x63\0", "Error at 42, skipping. org.apache.kafka.common.errors.UnsupportedVersionException: Unknown"),
        (b"", "Error at 42, skipping. Error while reading frame version"),
        (b"\1\xff\xff\4", "Error at 42, skipping. Value for type was too large."),
    ],
    ids=["topic", "nothing", "garbage", "cut", "frame", "type", "empty", "too large"],
)
def test_cluster_metadata_is_shown_as_its_value(value: bytes, text: str) -> None:
    key, shown_value = decoders.show_metadata(42, value)
    assert key is None and shown_value is not None and shown_value.startswith(text)


@pytest.mark.parametrize(
    ("type_id", "value", "text"),
    [
        (0, struct.pack(">hi", 0, 7), "endTxnMarker: ABORT coordinatorEpoch: 7"),
        (1, struct.pack(">hi", 0, -1), "endTxnMarker: COMMIT coordinatorEpoch: -1"),
        (
            2,
            struct.pack(">hi", 0, 3) + b"\2" + struct.pack(">i", 3) + b"\0" + b"\1\0",
            'LeaderChange: {"version":0,"leaderId":3,"voters":[{"voterId":3}],"grantingVoters":[]}',
        ),
        (3, struct.pack(">hq", 0, 9) + b"\0", 'SnapshotHeader {"version":0,"lastContainedLogTimestamp":9}'),
        (4, b"\0\0\0", 'SnapshotFooter {"version":0}'),
        (5, b"\0\0\0\1\0", 'KRaftVersion {"version":0,"kRaftVersion":1}'),
        (6, b"\0\0\1\0", 'KRaftVoters {"version":0,"voters":[]}'),
        (77, None, "controlType: UNKNOWN(77)"),
    ],
)
def test_control_records_are_explained(type_id: int, value: bytes | None, text: str) -> None:
    assert decoders.show_control_record(struct.pack(">hh", 0, type_id), value) == text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b""),
        (bytes(4), None),
        (bytes(4), b"\0\0\0"),
        (bytes(4), b"\xff\xff\0\0\0\0"),
        (b"\0\0\0\3", None),
        (b"\0\0\0\3", b"\0"),
    ],
)
def test_control_records_that_kafka_would_not_take_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedBatch):
        decoders.show_control_record(key, value)
