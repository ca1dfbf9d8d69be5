"""What the records of a group coordinator tell of a group and of its members."""

from __future__ import annotations

from struct import pack

import pytest
from fixtures.logs.group_records import TOPIC_ID_TEXT, assigned, key, number, share_group, strings, value
from fixtures.logs.metadata_records import text, unsigned

from offsetfs.storage.coordinators.group_state import describe

pytestmark = pytest.mark.unit


def test_a_share_group_is_shown_with_its_members() -> None:
    found = describe(share_group("m1"))
    assert found is not None and found.pop("members") == [
        {
            "member_id": "m1",
            "instance_id": None,
            "client_id": "cli",
            "client_host": "/127.0.0.1",
            "topics": ["orders"],
            "epoch": 4,
            "assignment": [{"topic_id": TOPIC_ID_TEXT, "partitions": [0, 2]}],
        }
    ]
    assert found == {"type": "share", "state": "Stable", "epoch": 4, "assignment_epoch": 4}


def test_a_group_without_members_is_empty() -> None:
    found = describe(share_group())
    assert found is not None and (found["state"], found["members"]) == ("Empty", [])


def consumer_group(epoch: int, assignment_epoch: int, member_epoch: int) -> dict[bytes, bytes]:
    member = (
        text("i1") + text(None) + text("cli") + text("/h") + strings("orders") + text(None) + number(1) + text(None)
    )
    current = number(member_epoch) + number(0) + b"\0" + assigned(1) + unsigned(1)
    return {
        key(3, "g"): value(number(epoch)),
        key(6, "g"): value(number(assignment_epoch)),
        key(5, "g", "m"): value(member),
        key(8, "g", "m"): value(current),
    }


@pytest.mark.parametrize(
    ("epochs", "state"), [((5, 4, 4), "Assigning"), ((5, 5, 4), "Reconciling"), ((5, 5, 5), "Stable")]
)
def test_a_consumer_group_is_stable_when_all_members_have_the_assignment(
    epochs: tuple[int, int, int], state: str
) -> None:
    found = describe(consumer_group(*epochs))
    assert found is not None and (found["type"], found["state"]) == ("consumer", state)
    members = found["members"]
    assert isinstance(members, list)
    (member,) = members
    assert member["instance_id"] == "i1" and member["assignment"] == [{"topic_id": TOPIC_ID_TEXT, "partitions": [1]}]


def test_names_that_are_not_utf_8_are_shown_as_kafka_shows_them() -> None:
    records = {
        each.replace(b"\0\1g", b"\0\1\xff"): fields.replace(b"cli", b"c\xffi")
        for each, fields in share_group("m").items()
    }
    found = describe(records)
    assert found is not None and isinstance(found["members"], list)
    assert [member["client_id"] for member in found["members"]] == ["c\ufffdi"]


def test_records_that_cannot_be_read_are_left_out() -> None:
    assert describe({}) is None and describe({b"\0": b"\0", key(99, "g"): value(b"")}) is None
    records = share_group("m1", "m2")
    records[key(10, "g", "m2")] = b"\0\0\xff"
    records[key(14, "g", "m1")] = pack(">h", 9)
    found = describe(records)
    assert found is not None and [member["member_id"] for member in found["members"]] == ["m1"]  # type: ignore[attr-defined]
