"""Messages as JSON, as Kafka's dump tool prints them. tests/interop/test_dump_against_kafka.py compares with Kafka."""

from __future__ import annotations

import json
import math

import pytest
from fixtures.messages.random_messages import random_message

from offsetfs.kafka.protocol.json_text import double_text, json_writer, string_text
from offsetfs.kafka.protocol.message import id_text
from offsetfs.kafka.protocol.records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    OffsetCommitValue,
    TransactionLogValue,
)
from offsetfs.kafka.protocol.schemas import camel, includes, schema, schema_names

pytestmark = pytest.mark.unit

NO_ID_TEXT = "A" * 22


@pytest.mark.parametrize("name", [name for name in schema_names() if schema(name).module != "messages"])
def test_every_version_has_its_fields_in_the_order_of_the_schema(name: str) -> None:
    for version in range(schema(name).versions[0], schema(name).versions[1] + 1):
        layout = schema(name).layout(version)
        for seed in range(3):
            text = json_writer(name, version)(random_message(name, layout, version, seed))
            found = list(json.loads(text))
            there = [field for field in layout.fields if includes(field.versions, version)]
            assert found == [camel(field.name) for field in there if camel(field.name) in found]
            plain = [camel(field.name) for field in there if not includes(field.tagged, version)]
            assert set(found) >= set(plain)


def test_a_tagged_field_that_is_the_default_is_not_shown() -> None:
    text = json_writer("OffsetCommitValue", 4)
    plain = '{"offset":5,"leaderEpoch":-1,"metadata":"m","commitTimestamp":7'
    assert text(OffsetCommitValue(5, -1, "m", 7)) == plain + "}"
    assert text(OffsetCommitValue(5, -1, "m", 7, topic_id=b"\0" * 15 + b"\1")) == (
        plain + ',"topicId":"AAAAAAAAAAAAAAAAAAAAAQ"}'
    )
    shown = json_writer("TransactionLogValue", 1)(TransactionLogValue(4, next_producer_id=6))
    assert shown.startswith('{"producerId":4,"nextProducerId":6,"producerEpoch":0,')


def test_a_struct_that_may_be_null_and_whose_default_is_not() -> None:
    def shown(member: ConsumerGroupMemberMetadataValue) -> object:
        return json.loads(json_writer("ConsumerGroupMemberMetadataValue", 0)(member)).get("classicMemberMetadata", "-")

    assert shown(ConsumerGroupMemberMetadataValue()) == "-"
    assert shown(ConsumerGroupMemberMetadataValue(classic_member_metadata=None)) is None
    assert shown(ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata(3))) == {
        "sessionTimeoutMs": 3,
        "supportedProtocols": [],
    }


def test_a_message_is_shown_as_any_version() -> None:
    message = LeaderChangeMessage(5, 1, [LeaderChangeMessageVoter(1)], [])
    start = '{"version":5,"leaderId":1,"voters":[{"voterId":1'
    assert json_writer("LeaderChangeMessage", 0)(message) == start + '}],"grantingVoters":[]}'
    for version in (1, 5):
        assert json_writer("LeaderChangeMessage", version)(message) == (
            f'{start},"voterDirectoryId":"{NO_ID_TEXT}"}}],"grantingVoters":[]}}'
        )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (100.0, "100.0"),
        (0.001, "0.001"),
        (-0.0, "-0.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1.5e-4, "1.5E-4"),
        (-1e300, "-1.0E300"),
        (math.nan, '"NaN"'),
        (-math.inf, '"-Infinity"'),
    ],
    ids=repr,
)
def test_a_double_is_written_as_by_java(value: float, expected: str) -> None:
    assert double_text(value) == expected


def test_a_string_is_escaped_as_by_jackson() -> None:
    assert string_text("ü🙂/") == '"ü🙂/"'
    assert string_text('ü🙂/"\\\b\f\n\r\t\x01\x1f\x7f') == '"ü🙂/\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001F\x7f"'


def test_an_id_is_base64_for_urls() -> None:
    assert id_text(b"\xfb\xff" * 8) == "-__7__v_-__7__v_-__7_w"
