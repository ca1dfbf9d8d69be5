"""DescribeUserScramCredentials and AlterUserScramCredentials, with Kafka's codes and texts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from fixtures.broker.running import Running
from fixtures.security.logins import PASSWORD, add_user

from offsetfs.common.security.scram_keys import ScramMechanism
from offsetfs.kafka.broker.sasl.scram_credentials import is_password
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage.security import SecurityStore

pytestmark = pytest.mark.unit

SHA_256, SHA_512 = (each.value for each in ScramMechanism)
SALT = b"salt" * 4


def upsertion(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, **changes: Any
) -> m.ScramCredentialUpsertion:
    salted = hashlib.pbkdf2_hmac("sha256" if mechanism == SHA_256 else "sha512", PASSWORD.encode(), SALT, 4096)
    fields = {"salt": SALT, "salted_password": salted, **changes}
    return m.ScramCredentialUpsertion(name, mechanism, iterations, **fields)


async def alter(running: Running, *changes: Any) -> list[tuple[str, int, str | None]]:
    deletions = [each for each in changes if isinstance(each, m.ScramCredentialDeletion)]
    upsertions = [each for each in changes if isinstance(each, m.ScramCredentialUpsertion)]
    request = m.AlterUserScramCredentialsRequest(deletions, upsertions)
    response = await running.send(51, "AlterUserScramCredentials", 0, request)
    return [(each.user, each.error_code, each.error_message) for each in response.results]


async def describe(running: Running, *names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    request = m.DescribeUserScramCredentialsRequest([m.UserName(each) for each in names] or None)
    response = await running.send(50, "DescribeUserScramCredentials", 0, request)
    assert (response.error_code, response.error_message) == (0, None)
    return [
        (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in response.results
    ]


@pytest.mark.security("Passwords are not stored: only what SCRAM needs to check one, in a file of its owner alone.")
async def test_a_user_is_added_and_is_there_after_a_restart(running: Running, tmp_path: Path) -> None:
    assert await alter(running, upsertion("alice"), upsertion("alice", SHA_512, 8192)) == [("alice", 0, None)]
    assert await describe(running) == [("alice", 0, [(SHA_256, 4096), (SHA_512, 8192)])]
    stored = SecurityStore(str(tmp_path)).image.credentials
    assert is_password(ScramMechanism.SHA_256, PASSWORD.encode(), stored["alice", SHA_256])
    salted = upsertion("alice").salted_password
    (file,) = tmp_path.glob("*security*")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_uid == os.geteuid()
    assert PASSWORD.encode() not in file.read_bytes()
    assert salted not in file.read_bytes()


async def test_a_user_is_deleted(running: Running) -> None:
    add_user(running.broker._security, "alice")
    assert await alter(running, m.ScramCredentialDeletion("alice", SHA_256)) == [("alice", 0, None)]
    assert await describe(running) == []
    missing = "Attempt to delete a user credential that does not exist"
    expected = [("alice", ErrorCode.RESOURCE_NOT_FOUND, missing)]
    assert await alter(running, m.ScramCredentialDeletion("alice", SHA_256)) == expected


async def test_unknown_and_repeated_users_are_described_with_errors(running: Running) -> None:
    add_user(running.broker._security, "alice")
    assert await describe(running, "alice", "bob", "carl", "carl") == [
        ("alice", 0, [(SHA_256, 4096)]),
        ("bob", ErrorCode.RESOURCE_NOT_FOUND, []),
        ("carl", ErrorCode.DUPLICATE_RESOURCE, []),
    ]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([upsertion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a", 3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion("a", 0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion("a", iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a", iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a", salt=b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a", salted_password=b"short")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a"), upsertion("a")], ErrorCode.DUPLICATE_RESOURCE),
        ([m.ScramCredentialDeletion("", 1)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([m.ScramCredentialDeletion("a", 3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
async def test_a_wrong_change_has_no_effect(running: Running, changes: list[Any], code: ErrorCode) -> None:
    results = await alter(running, *changes, upsertion("other"))
    assert [(user, found) for user, found, _ in results] == [(changes[0].name, code), ("other", 0)]
    assert [user for user, *_ in await describe(running)] == ["other"]


async def test_there_are_no_quotas(running: Running) -> None:
    """kafka-configs.sh, which asks for them as well, could not show a user."""
    response = await running.send(48, "DescribeClientQuotas", 1, m.DescribeClientQuotasRequest())
    assert (response.error_code, response.error_message, response.entries) == (0, None, [])


async def test_the_users_of_a_request_are_stored_at_once(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = list[int]()
    change = SecurityStore.change

    def noted(store: SecurityStore, records: Any) -> Any:
        changes.append(len(records))
        return change(store, records)

    monkeypatch.setattr(SecurityStore, "change", noted)
    found = await alter(
        running, upsertion("alice"), upsertion("bob", 99), upsertion("carol"), upsertion("carol", SHA_512)
    )
    assert [(name, code) for name, code, _ in found] == [
        ("alice", 0),
        ("bob", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ("carol", 0),
    ]
    assert changes == [3]


async def test_a_request_for_too_many_users_is_refused_before_work(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsetfs.kafka.broker.scram_users.RECORDS_MAX", 2)
    found = await alter(running, *(upsertion(name) for name in ("alice", "bob", "carol")))
    assert {code for _, code, _ in found} == {ErrorCode.POLICY_VIOLATION} and len(found) == 3
    assert await describe(running) == []
