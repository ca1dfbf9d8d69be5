"""The settings of a broker: `server.properties`, `-o`, and what DescribeConfigs returns of them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from fixtures.broker.running import Running

from offsetfs.common import addresses
from offsetfs.kafka.broker import settings_file
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.kafka.broker.settings import SETTING_KINDS, STANDARD_AUTHORIZER, ServerSettings, values_of
from offsetfs.kafka.broker.settings_file import load_settings
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import is_broker_setting

pytestmark = pytest.mark.unit

DEFAULT_FILE = """\
# as Kafka 4.1 ships it
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
num.network.threads=3
socket.request.max.bytes=1048576
num.partitions=4
log.retention.hours=168
log.segment.bytes=1048576
log.cleaner.threads=2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


def test_the_file_that_kafka_ships_is_accepted(file: Path, tmp_path: Path) -> None:
    file.write_text(DEFAULT_FILE + f"log.dirs={tmp_path}\n")
    loaded = load_settings(os.fspath(file), [], os.fspath(tmp_path))
    server = loaded.server
    assert server.listeners == (ListenerSettings(("0.0.0.0", 9092), advertised=("localhost", 9092)),)
    assert (server.node_id, server.num_partitions, server.socket_request_max_bytes) == (7, 4, 1048576)
    assert loaded.broker.settings["log.retention.hours"] == "168"
    assert loaded.directory.log_cleaner_threads == 2
    assert loaded.without_effect == (
        "process.roles",
        "controller.quorum.bootstrap.servers",
        "inter.broker.listener.name",
        "num.network.threads",
    )


@pytest.mark.parametrize("hosts", [["127.0.0.1"], ["127.0.0.1", "::1"]])
def test_by_default_the_listeners_are_those_that_no_other_machine_reaches(
    hosts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_file, "loopback_addresses", lambda: hosts)
    server = load_settings(None, [], os.fspath(tmp_path)).server
    assert [each.address for each in server.listeners] == [(each, 9092) for each in hosts]


def test_the_addresses_of_the_loopback_are_those_that_can_be_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "LOOPBACK_6", "2001:db8::1")  # of no machine
    assert addresses.loopback_addresses() == ["127.0.0.1"]
    monkeypatch.setattr(addresses, "LOOPBACK_6", "::")  # of each one with IPv6
    assert addresses.loopback_addresses() in (["127.0.0.1"], ["127.0.0.1", "::"])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("log.segment.bytes=12x", "log.segment.bytes is '12x', but must be a whole number from 14 to 2147483647"),
        ("segment.bytes=1", "'segment.bytes' is not a setting of a Kafka broker, did you mean log.segment.bytes?"),
        ("num.partition=1", "'num.partition' is not a setting of a Kafka broker, did you mean num.partitions?"),
        ("num.partitions=0", "num.partitions is 0, but must be a whole number from 1 to 10000"),
        ("auto.create.topics.enable=yes", "auto.create.topics.enable is 'yes', but must be true or false"),
        (
            "listener.security.protocol.map=OWN:TLS",
            "'OWN:TLS' has no security protocol; write NAME:PROTOCOL with PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        ("listeners=OWN://127.0.0.1:9093", "OWN has no security protocol; add it to listener.security.protocol.map"),
        ("listeners=127.0.0.1:9092", "'127.0.0.1:9092' is not a listener; write PLAINTEXT://HOST:PORT"),
        (
            "advertised.listeners=PLAINTEXT://0.0.0.0:1",
            "advertised.listeners needs an address that clients can connect",
        ),
        (
            "advertised.listeners=OTHER://a:1\nlistener.security.protocol.map=OTHER:PLAINTEXT",
            "advertised.listeners: OTHER is not the name of a listener in listeners",
        ),
        ("log.dirs=/elsewhere", "log.dirs is '/elsewhere', but {} is served; give that path, or remove the setting"),
        ("log.retention.ms=0", "log.retention.ms must not be 0"),
        ("broker.id=x", "broker.id is 'x', but must be a whole number"),
    ],
)
def test_a_wrong_line_is_named_with_file_and_number(file: Path, tmp_path: Path, line: str, sentence: str) -> None:
    file.write_text(f"# a comment\n\nnum.network.threads=\\\n  3\n{line}\n")
    with pytest.raises(InvalidConfig) as caught:
        load_settings(os.fspath(file), [], os.fspath(tmp_path))
    assert str(caught.value).startswith(f"{file}:5: ")
    assert sentence.format(tmp_path) in str(caught.value)


def test_an_option_has_precedence_over_all_synonyms_in_the_file(file: Path, tmp_path: Path) -> None:
    """By Kafka's order `log.retention.ms` of the file would win over `log.retention.hours` of the command line."""
    file.write_text("log.retention.ms=1000\nlog.retention.minutes=7\nnode.id=2\n")
    options = ["log.retention.hours=1", "broker.id=3", "listeners=PLAINTEXT://[::1]:0,PLAINTEXT://127.0.0.1:0"]
    loaded = load_settings(os.fspath(file), options, os.fspath(tmp_path))
    assert loaded.broker.settings == {"log.retention.hours": "1"}
    assert loaded.server.node_id == 3
    assert loaded.server.listeners == (ListenerSettings(("::1", 0)), ListenerSettings(("127.0.0.1", 0)))


def test_each_listener_advertises_the_address_of_its_name(tmp_path: Path) -> None:
    names = "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT,LOCAL:PLAINTEXT"
    listeners = "listeners=IN://:9092,OUT://:19092,LOCAL://127.0.0.1:9093"
    advertised = "advertised.listeners=OUT://public:19092,IN://private:9092"
    loaded = load_settings(None, [names, listeners, advertised], os.fspath(tmp_path))
    assert [each.advertised for each in loaded.server.listeners] == [("private", 9092), ("public", 19092), None]
    assert values_of(loaded.server)["advertised.listeners"] == (
        "IN://private:9092,OUT://public:19092,LOCAL://127.0.0.1:9093"
    )


@pytest.mark.parametrize(
    ("advertised", "expected"),
    [
        ("PLAINTEXT://a:1", (("a", 1), ("a", 1))),
        ("PLAINTEXT://a:1,PLAINTEXT://b:2", (("a", 1), ("b", 2))),
        ("", (None, None)),
    ],
)
def test_listeners_of_one_name_advertise_in_their_order(
    tmp_path: Path, advertised: str, expected: tuple[tuple[str, int] | None, ...]
) -> None:
    options = ["listeners=PLAINTEXT://127.0.0.1:1,PLAINTEXT://[::1]:1", f"advertised.listeners={advertised}"]
    server = load_settings(None, options, os.fspath(tmp_path)).server
    assert tuple(each.advertised for each in server.listeners) == expected


def test_more_advertised_addresses_than_listeners_are_refused(tmp_path: Path) -> None:
    options = "listeners=PLAINTEXT://:9092", "advertised.listeners=PLAINTEXT://a:1,PLAINTEXT://b:2"
    with pytest.raises(InvalidConfig, match=r"2 addresses for 1 listener; give one for each of them, or one for all"):
        load_settings(None, options, os.fspath(tmp_path))


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("num.partitions", "-o 'num.partitions' has no value; write -o name=value"),
        ("max.connections=-1", "-o: max.connections is -1, but must be a whole number from 0 to 2147483647"),
    ],
)
def test_a_wrong_option_is_named(option: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as caught:
        load_settings(None, [option], os.fspath(tmp_path))
    assert sentence in str(caught.value)


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"broker.id and node.id differ"):
        load_settings(None, ["node.id=1", "broker.id=2"], os.fspath(tmp_path))
    with pytest.raises(InvalidConfig, match=r"group.min.session.timeout.ms 9 is above group.max"):
        load_settings(None, ["group.min.session.timeout.ms=9", "group.max.session.timeout.ms=8"], os.fspath(tmp_path))
    with pytest.raises(InvalidConfig, match=r"group.consumer.min.session.timeout.ms 45000 is above group.consumer.ses"):
        load_settings(None, ["group.consumer.session.timeout.ms=9000"], os.fspath(tmp_path))


def test_acks_all_may_be_answered_as_early_as_by_kafka(tmp_path: Path) -> None:
    assert load_settings(None, [], os.fspath(tmp_path)).server.acks_all == "disk"
    assert load_settings(None, ["acks.all=page-cache"], os.fspath(tmp_path)).server.acks_all == "page-cache"
    with pytest.raises(InvalidConfig, match=r"acks\.all is '2', but must be one of disk, page-cache"):
        load_settings(None, ["acks.all=2"], os.fspath(tmp_path))


def test_an_authorizer_and_super_users_have_names_as_in_kafka(tmp_path: Path) -> None:
    users = "super.users= User:admin;User:CN=a,O=b ; "
    server = load_settings(None, [f"authorizer.class.name={STANDARD_AUTHORIZER}", users], os.fspath(tmp_path)).server
    assert server.authorizer_class_name == STANDARD_AUTHORIZER
    assert server.super_users == ("User:admin", "User:CN=a,O=b")
    assert values_of(server)["super.users"] == "User:admin;User:CN=a,O=b"
    assert load_settings(None, ["authorizer.class.name="], os.fspath(tmp_path)).server.authorizer_class_name == ""
    for wrong in ("alice", "User:a;bob", ":a"):
        with pytest.raises(InvalidConfig, match=r"super\.users=.*must be principals as User:alice;User:bob"):
            load_settings(None, [f"super.users={wrong}"], os.fspath(tmp_path))
    with pytest.raises(InvalidConfig, match=r"must be one of empty, .*StandardAuthorizer$"):
        load_settings(None, ["authorizer.class.name=x.Y"], os.fspath(tmp_path))


def test_all_fields_have_names_of_kafka(tmp_path: Path) -> None:
    assert [name for name in SETTING_KINDS if not is_broker_setting(name)] == ["acks.all"]


async def test_describe_configs_of_the_broker_returns_the_effective_settings(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    loaded = load_settings(None, ["log.retention.hours=2", "num.partitions=3"], os.fspath(tmp_path))
    directory = LogDirectory.open(os.fspath(tmp_path), broker=loaded.broker, config=loaded.directory)
    running = Running(directory, loaded.server)
    nursery.start_soon(running.run)
    request = m.DescribeConfigsRequest([m.DescribeConfigsResource(4, "1", None)])
    result = (await running.send(32, "DescribeConfigs", 4, request)).results[0]
    found = {each.name: (each.value, each.config_source, each.read_only) for each in result.configs}
    assert found["num.partitions"] == ("3", 4, True)
    assert found["log.retention.ms"] == ("7200000", 5, True)
    assert found["log.dirs"] == (os.path.realpath(tmp_path), 5, True)
    assert found["max.connections"] == ("10000", 5, True)
    other = m.DescribeConfigsRequest([m.DescribeConfigsResource(4, "5", None)])
    assert (await running.send(32, "DescribeConfigs", 4, other)).results[0].error_code == ErrorCode.INVALID_REQUEST
    running.broker.stop()
    directory.close()


async def test_topics_are_not_deleted_where_that_is_disabled(directory: LogDirectory, nursery: trio.Nursery) -> None:
    running = Running(directory, replace(ServerSettings(), delete_topic_enable=False))
    nursery.start_soon(running.run)
    response = await running.send(20, "DeleteTopics", 5, m.DeleteTopicsRequest(topic_names=["t"]))
    assert response.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert len(directory.partitions()) == 1
    running.broker.stop()
