"""`offsetfs groups` beside a running Kafka: resets through its coordinator, members of a group."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import ScramMechanism
from fixtures.broker.served import served
from fixtures.kafka.broker import SCRAM_MODULE, KafkaBroker
from fixtures.kafka.confluent_clients import add_user, poll_until

import offsetfs
from offsetfs.cli import run

pytestmark = pytest.mark.interop

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PASSWORD = "a long secret"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Return a broker with ten records in each partition of `orders`, and a user who may do nothing."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), mechanisms=["SCRAM-SHA-256"], settings=settings) as found:
        found.create_topic("orders", partitions=2)
        for partition in range(2):
            found.produce("orders", b"v\n" * 10, partition=partition)
        add_user(found.address, "nobody", PASSWORD, ScramMechanism.SCRAM_SHA_256)
        yield found


def described(kafka: KafkaBroker, group: str) -> list[tuple[str, ...]]:
    """Return topic, partition, committed offset, end and lag of each partition, as Kafka's tool prints them."""
    lines = kafka.tool(GROUPS, "--describe", "--group", group).stdout.splitlines()
    return sorted(tuple(words[1:6]) for line in lines if (words := line.split()) and words[0] == group)


def test_kafkas_tool_shows_the_offsets_of_a_reset(kafka: KafkaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"kafka://{kafka.address}/"
    assert run(["groups", url, "billing", "orders", "--reset-to", "4", "--yes"]) == 0
    assert described(kafka, "billing") == [("orders", "0", "4", "10", "6"), ("orders", "1", "4", "10", "6")]
    words = ["groups", str(kafka.log_dir), "billing", "orders-1", "--reset-to", "latest"]
    capsys.readouterr()
    assert run([*words, "--yes"]) == 1
    assert "HOST:9092 --yes" in capsys.readouterr().err, "it is refused before the lock of the broker is"
    assert run(words) == 0
    (command,) = re.findall(r"this commits: (offsetfs .*)", " ".join(capsys.readouterr().out.split()))
    assert run(command.replace("HOST:9092", kafka.address).split()[1:]) == 0
    assert described(kafka, "billing") == [("orders", "0", "4", "10", "6"), ("orders", "1", "10", "10", "0")]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_not_reset(
    kafka: KafkaBroker, protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group = f"members-{protocol}"
    settings = {"bootstrap.servers": kafka.address, "group.id": group, "client.id": "reader"}
    words = ["groups", f"kafka://{kafka.address}/", group, "orders", "--reset-to", "earliest"]
    with closing(Consumer({**settings, "group.protocol": protocol, "enable.auto.commit": False})) as member:
        member.subscribe(["orders"])
        poll_until(lambda: len(member.assignment()) == 2, member)
        assert run(["groups", str(kafka.log_dir), group, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["facts"] == {"type": protocol, "state": "Stable", "members": 1}
        (shown,) = answer["tables"]["members"]
        assert (shown["client"], shown["host"], shown["partitions"]) == ("reader", "/127.0.0.1", 2)
        assert shown["assignment"] == "orders(0,1)"
        assert run([*words, "--yes"]) == 32
        assert f"{group} has members, its state is " in capsys.readouterr().err
        assert run(words) == 0
        assert "stop its consumers" in capsys.readouterr().out
    assert run([*words, "--yes"]) == 0
    assert described(kafka, group) == [("orders", "0", "0", "10", "10"), ("orders", "1", "0", "10", "10")]


def test_a_user_without_permission_is_told_what_it_needs(
    kafka: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={SCRAM_MODULE} username="nobody" password="{PASSWORD}";\n'
    )
    words = ("--reset-to", "earliest", "--yes", "--config", str(config))
    assert run(["groups", f"kafka://{kafka.login_address}/", "billing", *words]) == 32
    error = capsys.readouterr().err
    assert "GROUP_AUTHORIZATION_FAILED" in error and "needs DESCRIBE and READ of the group" in error
    url, login = f"kafka://{kafka.login_address}/", ("--config", str(config))

    def refused(*words: str) -> str:
        assert run([*words, *login]) not in (0, None)
        return capsys.readouterr().err.splitlines()[-1]

    invisible = "this user may not describe it"
    assert refused("find", url, "orders", "--count").endswith(invisible)
    assert refused("groups", url, "billing").endswith(invisible), "it is not known that there are no groups"
    assert run(["diff", url, str(kafka.log_dir), "orders", *login]) == 1
    assert "orders of kafka://" in capsys.readouterr().out, "it may be there"
    allowed = ("--add", "--allow-principal", "User:nobody", "--operation", "Describe", "--topic", "orders")
    kafka.tool("org.apache.kafka.tools.AclCommand", *allowed)
    for verb in ("find", "stats"):
        assert "TOPIC_AUTHORIZATION_FAILED: the user of --config needs READ and DESCRIBE of the topic" in refused(
            verb, url, "orders"
        )


def test_a_served_directory_names_its_own_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with offsetfs.open(tmp_path, "a") as directory:
        directory.create("orders", 1)[0].append(b"v")
    words = ["groups", str(tmp_path), "billing", "orders", "--reset-to", "latest"]
    with served(tmp_path) as broker:
        assert run([*words, "--yes"]) == 1
        command = f"offsetfs {' '.join(words)} --bootstrap-server {broker.address} --yes"
        assert capsys.readouterr().err.endswith(f"{command}\n")
        assert run(command.split()[1:]) == 0
