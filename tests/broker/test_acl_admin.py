"""DescribeAcls, CreateAcls and DeleteAcls: the answers of Kafka 4.1."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest
from fixtures.logs.metadata_records import MetadataDirectory, topic_record
from fixtures.security.authorized_broker import ADMIN, ALICE, AUTHORIZED, AuthorizedBroker, acl

from offsetfs.kafka.broker.broker import Broker
from offsetfs.kafka.broker.connections.listeners import Listener
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.kafka.broker.operations import Operation, Pattern, Permission, Resource
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory
from offsetfs.storage.checkpoint import SECURITY_FILE
from offsetfs.storage.errors import StorageError
from offsetfs.storage.security import SecurityStore

pytestmark = pytest.mark.unit

BOB = "User:bob"
EVERYTHING = m.DescribeAclsRequest(1, None, 1, None, None, 1, 1)

ACLS = [
    acl(Operation.READ, Resource.TOPIC, "orders"),
    acl(Operation.WRITE, Resource.TOPIC, "orders", principal=BOB, host="10.0.0.7"),
    acl(Operation.READ, Resource.TOPIC, "or", pattern=Pattern.PREFIXED, permission=Permission.DENY),
    acl(Operation.READ, Resource.TOPIC, "*"),
    acl(Operation.READ, Resource.GROUP, "orders"),
    acl(Operation.ALTER, host="10.0.0.0/8"),
]
"""Filters select them by their numbers."""


async def described(guarded: AuthorizedBroker, asked: m.DescribeAclsRequest = EVERYTHING) -> list[m.AclCreation]:
    response = await guarded.ask("DescribeAcls", 3, asked, ADMIN)
    assert (response.error_code, response.error_message) == (0, None)
    return [
        m.AclCreation(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for resource in response.resources
        for each in resource.acls
    ]


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        (EVERYTHING, {0, 1, 2, 3, 4, 5}),
        (m.DescribeAclsRequest(2, None, 1, None, None, 1, 1), {0, 1, 2, 3}),
        (m.DescribeAclsRequest(2, "orders", 3, None, None, 1, 1), {0, 1}),
        (m.DescribeAclsRequest(2, "orders", 2, None, None, 1, 1), {0, 1, 2, 3}),
        (m.DescribeAclsRequest(2, "orders", 1, None, None, 1, 1), {0, 1}),
        (m.DescribeAclsRequest(2, "or", 4, None, None, 1, 1), {2}),
        (m.DescribeAclsRequest(2, "x", 2, None, None, 1, 1), {3}),
        (m.DescribeAclsRequest(2, None, 2, None, None, 1, 1), {0, 1, 2, 3}),
        (m.DescribeAclsRequest(1, None, 1, BOB, None, 1, 1), {1}),
        (m.DescribeAclsRequest(1, None, 1, None, "10.0.0.7", 1, 1), {1}),
        (m.DescribeAclsRequest(1, None, 1, None, "*", 1, 2), {2}),
        (m.DescribeAclsRequest(1, None, 1, None, None, Operation.ALTER, 1), {5}),
        (m.DescribeAclsRequest(1, None, 1, None, None, Operation.ALL, 1), set()),
    ],
)
async def test_a_filter_selects(guarded: AuthorizedBroker, asked: m.DescribeAclsRequest, numbers: set[int]) -> None:
    await guarded.grant(*ACLS)
    found = await described(guarded, asked)
    assert [each for each in ACLS if each in found] == [ACLS[number] for number in sorted(numbers)]
    assert len(found) == len(numbers)
    deleted = m.DeleteAclsFilter(**{name: getattr(asked, name) for name in m.DeleteAclsFilter.__slots__})
    response = await guarded.ask("DeleteAcls", 3, m.DeleteAclsRequest([deleted]), ADMIN)
    assert len(response.filter_results[0].matching_acls) == len(numbers)
    assert await described(guarded, asked) == []
    assert len(await described(guarded)) == len(ACLS) - len(numbers)


@pytest.mark.security("A change of ACLs is on disk when it is answered, and has an effect at once.")
async def test_a_change_is_durable_and_has_an_effect_at_once(guarded: AuthorizedBroker, tmp_path: Path) -> None:
    asked = m.FetchRequest(topics=[m.FetchRequestFetchTopic("t", partitions=[m.FetchRequestFetchPartition(0)])])
    read = acl(Operation.READ, Resource.TOPIC, "t")
    for change, kept, code in (
        (guarded.grant, 1, 0),
        (guarded.grant, 1, 0),  # it is there already
        (guarded.revoke, 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ):
        await change(read)
        assert len(SecurityStore(str(tmp_path), read_only=True).image.acls) == kept
        response = await guarded.ask("Fetch", 12, asked, ALICE)
        assert response.responses[0].partitions[0].error_code == code


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (
            acl(Operation.READ, Resource.CLUSTER, "other"),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (acl(Operation.READ, Resource.TOPIC, ""), "Invalid empty resource name"),
        (acl(Operation.READ, Resource.ANY, "x"), "Invalid resourceType 1"),
        (acl(Operation.READ, Resource.TOPIC, "x", pattern=Pattern.MATCH), "Invalid patternType 2"),
        (acl(Operation.ANY, Resource.TOPIC, "x"), "Invalid operation 1"),
        (acl(Operation.READ, Resource.TOPIC, "x", permission=Permission.ANY), "Invalid permissionType 1"),
        (acl(Operation.READ, Resource.TOPIC, "x", principal="alice"), "Could not parse principal from `alice`"),
        (acl(Operation.READ, Resource.TOPIC, "x", host="10.0.0.0/33"), "Invalid host '10.0.0.0/33': give an address"),
        (acl(Operation.READ, Resource.TOPIC, "x", host="build.example.com"), "Invalid host 'build.example.com'"),
    ],
)
async def test_an_acl_that_kafka_does_not_accept_is_refused(
    guarded: AuthorizedBroker, wrong: m.AclCreation, reason: str
) -> None:
    right = acl(Operation.READ, Resource.TOPIC, "right")
    response = await guarded.ask("CreateAcls", 3, m.CreateAclsRequest([wrong, right]), ADMIN)
    assert [each.error_code for each in response.results] == [ErrorCode.INVALID_REQUEST, 0]
    assert response.results[0].error_message.startswith(reason)
    assert await described(guarded) == [right]


async def test_a_filter_of_unknown_numbers_is_refused(guarded: AuthorizedBroker) -> None:
    await guarded.grant(*ACLS)
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        asked_for = m.DescribeAclsRequest(1, None, 1, None, None, 1, 1)
        setattr(asked_for, field, 99)
        response = await guarded.ask("DescribeAcls", 3, asked_for, ADMIN)
        name = field.removesuffix("_filter").replace("_", " ")
        assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, f"unknown {name} 99")
    asked = m.DeleteAclsRequest([m.DeleteAclsFilter(1, None, 1, None, None, 99, 1)])
    response = await guarded.ask("DeleteAcls", 3, asked, ADMIN)
    assert response.filter_results[0].error_code == ErrorCode.INVALID_REQUEST
    assert len(await described(guarded)) == len(ACLS)


@pytest.mark.expect_log("ACLs were not changed")
async def test_an_error_of_the_disk_is_answered_and_changes_nothing(
    guarded: AuthorizedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await guarded.grant(ACLS[0])

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("offsetfs.storage.security.security_store.write_security_file", fail)
    response = await guarded.ask("CreateAcls", 3, m.CreateAclsRequest(ACLS[:2]), ADMIN)
    assert [each.error_code for each in response.results] == [0, ErrorCode.KAFKA_STORAGE_ERROR]
    deleted = m.DeleteAclsRequest([m.DeleteAclsFilter(1, None, 1, None, None, 1, 1)])
    response = await guarded.ask("DeleteAcls", 3, deleted, ADMIN)
    assert [each.error_code for each in response.filter_results[0].matching_acls] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert await described(guarded) == [ACLS[0]]


# --- the start -------------------------------------------------------------------------------------------------------


def refusal_to_start(directory: LogDirectory) -> StorageError:
    with (
        contextlib.closing(Listener(ListenerSettings(("127.0.0.1", 0)), "port")) as listener,
        pytest.raises(StorageError) as refused,
    ):
        Broker(directory, AUTHORIZED, [listener])
    return refused.value


@pytest.mark.security("A broker with an authorizer does not start if it cannot read its ACLs, or those of its cluster.")
@pytest.mark.damages
def test_acls_that_cannot_be_read_stop_the_start(directory: LogDirectory, tmp_path: Path) -> None:
    (tmp_path / SECURITY_FILE).write_bytes(b"no batch")
    assert "restore the file from a copy, or move it away" in str(refusal_to_start(directory))


@pytest.mark.security("A broker with an authorizer does not start if it cannot read its ACLs, or those of its cluster.")
def test_acls_of_the_cluster_that_cannot_be_read_stop_the_start(tmp_path: Path) -> None:
    metadata = MetadataDirectory(tmp_path)
    metadata.append([topic_record("orders"), b"\x01\x12\x00\xff"])  # an ACL without its fields
    with contextlib.closing(LogDirectory.open(str(tmp_path), read_only=True)) as directory:
        assert "a metadata record" in str(refusal_to_start(directory))


async def test_a_request_changes_ten_thousand_acls_at_most(
    guarded: AuthorizedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await guarded.grant(*ACLS)
    monkeypatch.setattr("offsetfs.kafka.broker.authorization.acl_admin.RECORDS_MAX", 2)
    new = [acl(Operation.READ, Resource.TOPIC, name) for name in ("a", "b", "c")]
    created = await guarded.ask("CreateAcls", 3, m.CreateAclsRequest([ACLS[0], *new]), ADMIN)
    assert [each.error_code for each in created.results] == [0] + 3 * [ErrorCode.POLICY_VIOLATION]
    everything = m.DeleteAclsFilter(1, None, 1, None, None, 1, 1)
    for filters in [everything], 3 * [m.DeleteAclsFilter(2, "no such", 3, None, None, 1, 1)]:
        deleted = await guarded.ask("DeleteAcls", 3, m.DeleteAclsRequest(filters), ADMIN)
        assert {each.error_code for each in deleted.filter_results} == {ErrorCode.POLICY_VIOLATION}
    monkeypatch.undo()
    assert len(await described(guarded)) == len(ACLS)
