"""ACLs: each request needs the same as in Kafka 4.4, and the ACLs of a cluster apply in its directory."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from fixtures.broker.group_requests import commit_request
from fixtures.broker.served import served
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.tools import JavaTools
from fixtures.machine.free_ports import free_ports
from fixtures.security.authorization_table import NO_TOPIC, ROWS, metadata
from fixtures.security.authorized_broker import DENIALS, acl, codes
from fixtures.security.logins import login_client

from offsetfs.cli import exit_codes, run
from offsetfs.kafka.broker.operations import Operation, Resource
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.schemas import schema

pytestmark = pytest.mark.interop

ACLS = "org.apache.kafka.tools.AclCommand"
SECONDS_MAX = 30
LAST = "last"
"""A user, and the topic that it may describe once all ACLs apply."""

Case = tuple[int, str, str, frozenset[int]]
"""A row of the table, the user of the request, its API and version, and the errors of what is denied."""


def cases() -> tuple[list[Case], list[m.AclCreation]]:
    """Return a case for each ACL that a request may lack, then one with all of them, and the ACLs of the users."""
    lacking, complete, acls = list[Case](), list[Case](), list[m.AclCreation]()
    for number, row in enumerate(ROWS):
        if row.api.startswith("Sasl"):  # a part of the login
            continue
        name = f"{row.api}-{row.version}"
        for missing in (*range(len(row.needed)), None):
            user = f"user{number}x{'all' if missing is None else missing}"
            wanted = frozenset() if missing is None else frozenset({int(row.needed[missing][1])})
            (complete if missing is None else lacking).append((number, user, name, wanted))
            for position, (needed, _) in enumerate(row.needed):
                if position != missing:
                    values = {each: getattr(needed, each) for each in m.AclCreation.__slots__}
                    acls.append(m.AclCreation(**{**values, "principal": f"User:{user}"}))
    acls.append(acl(Operation.DESCRIBE, Resource.TOPIC, LAST, principal=f"User:{LAST}"))
    return [*lacking, *complete], acls


CASES, GRANTED = cases()
USERS = [*(user for _, user, _, _ in CASES), LAST]


def login_settings(users: Sequence[str]) -> dict[str, str]:
    """Return the settings by which users log in with their names, and need ACLs; clients without a login do not."""
    given = " ".join(f'user_{each}="{each}"' for each in users)
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {given};"
        ),
    }


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def ask(port: int, user: str | None, api: str, version: int, request: Any) -> Any:
    """Return the response to a request of a user, or of a client without a login."""
    with trio.fail_after(SECONDS_MAX):
        async with login_client(("127.0.0.1", port)) as client:
            if user is not None:
                assert (await client.plain(user, user)).error_code == 0
            return await client.ask(schema(f"{api}Request").key, api, version, request)


async def prepare(port: int) -> None:
    """Begin with the topic `t` alone, which is empty."""
    names = [m.DeleteTopicState(each) for each in ("t", "new")]
    await ask(port, None, "DeleteTopics", 6, m.DeleteTopicsRequest(names, timeout_ms=10_000))
    topics = [m.CreatableTopic("t", 1, 1)]
    created = await ask(port, None, "CreateTopics", 7, m.CreateTopicsRequest(topics, 10_000))
    assert codes(created) == {0}
    for key_type, key in enumerate(("g", "tx")):  # makes the topics of the coordinators
        asked = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        while codes(await ask(port, None, "FindCoordinator", 4, asked)) != {0}:
            await trio.sleep(0.02)
    while codes(await ask(port, None, "OffsetCommit", 8, commit_request(0))) != {0}:
        await trio.sleep(0.02)


async def denied(login_port: int) -> list[Case]:
    """Return what is denied in each case."""
    named = metadata(LAST, allow_auto_topic_creation=False)
    while NO_TOPIC in codes(await ask(login_port, LAST, "Metadata", 12, named)):
        await trio.sleep(0.02)  # Kafka applies ACLs a moment after the response
    found = []
    for number, user, name, _ in CASES:
        row = ROWS[number]
        response = await ask(login_port, user, row.api, row.version, row.request)
        found.append((number, user, name, frozenset(codes(response) & DENIALS)))
    return found


@pytest.fixture(scope="module")
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker whose metadata log is in its log directory."""
    folder = tmp_path_factory.mktemp("kafka")
    settings = {"metadata.log.dir": str(folder / "log"), "auto.create.topics.enable": "true", **login_settings(USERS)}
    with KafkaBroker(folder, settings=settings, mechanisms=["PLAIN"]) as broker:
        yield broker


@pytest.fixture
def kafka(with_users: KafkaBroker) -> KafkaBroker:
    if not with_users.is_running:
        with_users.start()
    return with_users


@contextmanager
def served_with_users(logs: Path) -> Iterator[tuple[int, int]]:
    """Serve a log directory with the same settings; yield the port for everyone and that for users."""
    (login_port,) = free_ports(1)
    properties = logs.parent / "login.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in login_settings(USERS).items()))
    options = ("--config", str(properties), "--listen", f"SASL_PLAINTEXT://127.0.0.1:{login_port}")
    with served(logs, *options) as broker:
        yield port_of(broker.address), login_port


def test_requests_need_the_same_acls_and_those_of_a_cluster_apply(
    kafka: KafkaBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    async def of_kafka() -> list[Case]:
        await prepare(kafka.port)
        assert codes(await ask(kafka.port, None, "CreateAcls", 3, m.CreateAclsRequest(GRANTED))) == {0}
        return await denied(port_of(kafka.login_address))

    assert trio.run(of_kafka) == CASES
    kafka.stop()

    async def of_directory() -> list[Case]:
        await prepare(port)
        return await denied(login_port)

    with served_with_users(kafka.log_dir) as (port, login_port):
        assert trio.run(of_directory) == CASES
        assert run(["acls", str(kafka.log_dir), "--principal", f"User:{LAST}", "--json"]) == exit_codes.DONE
        assert [each["resource_name"] for each in json.loads(capsys.readouterr().out)] == [LAST]
        assert run(["acls", str(kafka.log_dir), "remove", "--principal", f"User:{LAST}"]) == exit_codes.FAILED
        assert "the ACL is in the metadata log of the cluster; change it with Kafka's tools" in capsys.readouterr().err


def test_clients_produce_and_consume_with_the_acls_for_it(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    writer, reader, other = USERS[:3]
    with served_with_users(logs) as (port, login_port):

        def kcat(user: str, *words: str, lines: bytes = b"") -> tuple[int, bytes, bytes]:
            login = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanisms=PLAIN", "enable.idempotence=true"]
            settings = [*login, f"sasl.username={user}", f"sasl.password={user}", "message.timeout.ms=5000"]
            command = ["kcat", "-b", f"127.0.0.1:{login_port}", *(part for each in settings for part in ("-X", each))]
            done = subprocess.run([*command, *words], input=lines, capture_output=True, timeout=60)
            return done.returncode, done.stdout, done.stderr

        for user, role in ((writer, "--producer --topic t"), (reader, "--consumer --topic t --group g")):
            assert run(["acls", str(logs), "add", "--allow-principal", f"User:{user}", *role.split()]) == 0
        assert kcat(writer, "-P", "-t", "t", lines=b"one\ntwo\n")[0] == 0
        assert kcat(reader, "-q", "-e", "-X", "auto.offset.reset=earliest", "-G", "g", "t")[1] == b"one\ntwo\n"
        for user, *words in (
            (other, "-P", "-t", "t"),
            (other, "-P", "-t", "new"),
            (reader, "-P", "-t", "t"),
            (writer, "-C", "-e", "-t", "t"),
            (reader, "-e", "-G", "hidden", "t"),
        ):
            code, shown, errors = kcat(user, *words, lines=b"three\n")
            assert shown == b"" and b"authorization failed" in errors, (user, words, errors)
            # A producer without any ACL gets two errors: for its idempotence, which is fatal, and for the topic. Which
            # one librdkafka handles first is a race, with Kafka too; kcat exits with 0 if it ends between them.
            assert code == 1 or "-P" in words, (user, words, errors)
        assert kcat(reader, "-q", "-e", "-X", "auto.offset.reset=earliest", "-G", "g", "t")[1] == b""
        assert [each.name for each in trio.run(ask, port, None, "Metadata", 12, m.MetadataRequest(None)).topics] == [
            "__consumer_offsets",
            "t",
        ]


# --- kafka-acls.sh ---------------------------------------------------------------------------------------------------


STEPS = [
    "--add --allow-principal User:x --operation Read --operation DescribeConfigs --topic tool",
    "--add --deny-principal User:* --deny-host 10.0.0.7 --operation All --topic too --resource-pattern-type prefixed",
    "--add --allow-principal User:x --producer --topic tool --transactional-id tool --idempotent",
    "--add --allow-principal User:x --consumer --topic tool --group tool",
    "--list --topic tool",
    "--list --topic tool --resource-pattern-type match",
    "--list --group tool",
    "--list --principal User:x --transactional-id tool",
    "--add --allow-principal User:x --operation Write --group tool",
    "--remove --force --allow-principal User:x --operation Read --topic tool",
    "--list --topic tool",
    "--remove --force --topic tool --resource-pattern-type match",
    "--remove --force --group tool --transactional-id tool --cluster",
    "--list --topic tool --resource-pattern-type match",
]


def shown(java: JavaTools, port: int, step: str) -> list[str]:
    """Return the sorted lines that kafka-acls.sh prints."""
    output = java.run(ACLS, "--bootstrap-server", f"127.0.0.1:{port}", *step.split())
    return sorted(line.strip() for line in output.splitlines() if line.strip())


def test_kafka_acls(kafka: KafkaBroker, java: JavaTools, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with served_with_users(logs) as (port, _):
        ours = [shown(java, port, step) for step in STEPS]
    assert "(principal=User:x, host=*, operation=WRITE, permissionType=ALLOW)" in " ".join(ours[4])
    deadline = time.monotonic() + SECONDS_MAX
    for step, expected in zip(STEPS, ours, strict=True):
        # Kafka applies ACLs a moment after the response, and each step may be repeated.
        while (found := shown(java, kafka.port, step)) != expected and time.monotonic() < deadline:
            pass
        assert found == expected, step
