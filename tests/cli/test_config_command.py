"""`offsetfs config`: shows where each setting comes from, changes all or nothing, and refuses by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.logs import metadata_records as records
from fixtures.logs.metadata_records import BROKER, TOPIC, MetadataDirectory

from offsetfs.cli import exit_codes, run
from offsetfs.storage.directory.directory import LogDirectory

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]


@pytest.fixture
def log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["create", str(tmp_path), "orders", "-o", "retention.ms=1000"]) == 0
    assert run(["create", str(tmp_path), "users"]) == 0
    capsys.readouterr()
    return str(tmp_path)


def shown(log: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, str]]:
    capsys.readouterr()
    assert run(["config", log, *arguments, "--json"]) == exit_codes.DONE
    found: dict[str, dict[str, str]] = json.loads(capsys.readouterr().out)
    return found


def test_every_setting_is_shown_with_its_origin(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(log, capsys, "orders")
    assert found["retention.ms"] == {"value": "1000", "origin": "topic"}
    assert found["segment.bytes"] == {"value": "1073741824", "origin": "default"}
    assert run(["config", log, "orders"]) == exit_codes.DONE
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["retention.ms", "1000", "topic"] in lines and len(lines) == len(found)


def test_one_setting_is_shown(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", log, "orders", "retention.ms"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split()[0] == "retention.ms"
    assert shown(log, capsys, "orders", "segment.ms", "retention.ms").keys() == {"segment.ms", "retention.ms"}


def test_without_a_topic_all_topics_are_shown_with_what_is_their_own(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", log]) == exit_codes.DONE
    assert capsys.readouterr().out == "orders: retention.ms=1000\nusers: no settings of its own\n"
    assert shown(log, capsys) == {"orders": {"retention.ms": "1000"}, "users": {}}


def test_an_empty_policy_can_be_set(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", log, "orders", "cleanup.policy=[]"]) == exit_codes.DONE
    assert shown(log, capsys, "orders")["cleanup.policy"] == {"value": "", "origin": "topic"}
    config = LogDirectory.open(log).config_of("orders")
    assert not config.is_compacted and not config.is_deleted


def test_what_nothing_here_reads_is_stored_with_a_word_about_it(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["remote.copy.lag.ms=5", "log.local.retention.ms=7", "segment.ms=9"]
    assert run(["config", log, "users", *changes]) == exit_codes.DONE
    said = capsys.readouterr().err.splitlines()
    assert said == [f"offsetfs config: {name[:-2]}: has no effect here" for name in changes[:2]]
    assert shown(log, capsys)["users"] == {"remote.copy.lag.ms": "5", "local.retention.ms": "7", "segment.ms": "9"}


def test_settings_are_set_and_taken_away(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", log, "orders", "retention.ms=", "cleanup.policy=compact,delete"]) == exit_codes.DONE
    assert shown(log, capsys)["orders"] == {"cleanup.policy": "compact,delete"}
    directory = LogDirectory.open(log)
    assert directory.config_of("orders").is_compacted
    directory.close()


def test_a_change_is_seen_by_every_process_with_the_directory_open(log: str) -> None:
    directory = LogDirectory.open(log)
    try:
        assert run(["config", log, "orders", "max.message.bytes=4711"]) == exit_codes.DONE
        directory.refresh_config()
        assert directory.config_of("orders").max_message_bytes == 4711
    finally:
        directory.close()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["orders", "retention.msec=1"], "unknown setting 'retention.msec'; did you mean retention.ms?"),
        (
            ["orders", "retention.ms=soon"],
            "retention.ms is 'soon', but must be a whole number, -1 or greater, or a duration such as 7d",
        ),
        (["orders", "segment.bytes=64XB"], "must be a whole number from 14 to 2147483647, or a size such as 64m"),
        (["orders", "segment.bytes=1"], "segment.bytes is 1, but must be a whole number from 14 to 2147483647"),
        (["retention.ms"], "retention.ms: give the topic first: offsetfs config "),
        (["orders", "segment.bytes", "retention.ms=1"], "segment.bytes: give NAME=VALUE"),
        (["orders", "retention.msec"], "unknown setting 'retention.msec'; did you mean retention.ms?"),
        (["orders", "log.retention.hours"], "is a setting of brokers; that of topics is retention.ms"),
        (["orders", "min.compaction.lag.ms=2", "max.compaction.lag.ms=1"], "min.compaction.lag.ms 2 is above max."),
        (["orders", "segment.bytes=1000", "retention.msec=1"], "retention.msec"),
        (["payments", "segment.bytes=1000"], "payments: "),
        (["payments"], "payments: "),
        (["no/topic"], "no/topic: "),
    ],
)
def test_what_is_wrong_is_refused_by_name_and_nothing_changes(
    log: str, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    before = (Path(log) / ".offsetfs-topics.json").read_bytes()
    assert run(["config", log, *arguments]) == exit_codes.WRONG_CALL
    assert sentence in capsys.readouterr().err
    assert (Path(log) / ".offsetfs-topics.json").read_bytes() == before


def test_in_a_brokers_directory_it_warns(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(log) / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    assert run(["config", log, "orders", "retention.ms=5"]) == exit_codes.DONE
    assert "belongs to a broker, which does not read these settings" in capsys.readouterr().err


def test_it_writes_nothing_to_show_something(log: str) -> None:
    before = sorted((name, os.stat(os.path.join(log, name)).st_mtime_ns) for name in os.listdir(log))
    assert run(["config", log]) == run(["config", log, "orders"]) == exit_codes.DONE
    assert sorted((name, os.stat(os.path.join(log, name)).st_mtime_ns) for name in os.listdir(log)) == before


# --- settings of a broker --------------------------------------------------------------------------------------------


@pytest.fixture
def server_properties(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("etc") / "server.properties"
    path.write_text("node.id=1\nlog.retention.hours=2\nlog.segment.bytes=2048\nssl.keystore.password=secret\n")
    return path


def test_origins_follow_kafkas_precedence(
    log: str, server_properties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = MetadataDirectory(Path(log))
    metadata.append([*records.topics(orders=[1], users=[1]), records.setting(TOPIC, "users", "retention.ms", "7")])
    metadata.append([records.setting(BROKER, "", "log.roll.ms", "5")])
    given = ("--config", str(server_properties), "-o", "index.interval.bytes=9,log.segment.bytes=4096")
    users, orders = shown(log, capsys, "users", *given), shown(log, capsys, "orders", *given)
    assert orders["retention.ms"] == {"value": "1000", "origin": "topic"}
    assert users["retention.ms"] == {"value": "7", "origin": "cluster"}
    assert users["index.interval.bytes"] == {"value": "9", "origin": "mount"}
    assert users["segment.bytes"] == {"value": "4096", "origin": "broker"}
    assert users["segment.ms"] == {"value": "5", "origin": "broker"}
    assert users["flush.ms"]["origin"] == "default"


def test_settings_without_effect_are_listed_by_name_alone(
    log: str, server_properties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", log, "users", "--config", str(server_properties)]) == exit_codes.DONE
    said = capsys.readouterr()
    assert "offsetfs config: ssl.keystore.password: has no effect here" in said.err and "secret" not in said.err
    assert ["retention.ms", "7200000", "broker"] in [line.split() for line in said.out.splitlines()]


def test_a_brokers_name_sets_the_topic_setting_that_it_is_the_default_of(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", log, "users", "log.retention.hours=1", "num.io.threads=2"]) == exit_codes.DONE
    assert "num.io.threads: has no effect here" in capsys.readouterr().err
    assert shown(log, capsys)["users"] == {"retention.ms": "3600000"}
    assert run(["config", log, "users", "log.retention.minutes="]) == exit_codes.DONE
    assert shown(log, capsys)["users"] == {}
    assert run(["config", log, "users", "log.cleaner.threads=2"]) == exit_codes.WRONG_CALL
    assert "applies to the whole directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("log.retention.hour=1", "'log.retention.hour' is not a setting of a Kafka broker, did you mean log.retention"),
        ("log.segment.bytes=1", "segment.bytes is 1"),
        ("metadata.log.dir=/nowhere", "metadata.log.dir: there is no __cluster_metadata-0"),
    ],
)
def test_what_is_wrong_in_a_server_properties_is_refused(
    log: str, server_properties: Path, capsys: pytest.CaptureFixture[str], line: str, sentence: str
) -> None:
    server_properties.write_text(f"{line}\n")
    for command in (["config", log, "users"], ["clean", log], ["ls", log]):
        assert run([*command, "--config", str(server_properties)]) == exit_codes.WRONG_CALL, command
        assert sentence in capsys.readouterr().err, command
    assert run(["clean", log, "--config", "/nowhere/x"]) == exit_codes.WRONG_CALL
    assert "config=/nowhere/x: No such file or directory" in capsys.readouterr().err


# --- several log directories -----------------------------------------------------------------------------------------


@pytest.fixture
def disks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Two directories, of which each has a partition of orders, and one has users."""
    for name, topics in (("disk1", ["orders"]), ("disk2", ["orders", "users"])):
        (tmp_path / name).mkdir()
        for topic in topics:
            assert run(["create", str(tmp_path / name), topic]) == 0
    capsys.readouterr()
    return f"{tmp_path}/disk1,{tmp_path}/disk2"


def test_settings_of_several_directories_are_shown_and_changed(disks: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", disks, "orders", "retention.ms=500"]) == exit_codes.DONE
    assert run(["config", disks, "users", "segment.bytes=1000"]) == exit_codes.DONE
    assert run(["config", disks]) == exit_codes.DONE
    assert capsys.readouterr().out.splitlines() == ["orders: retention.ms=500", "users: segment.bytes=1000"]
    for path in disks.split(","):
        assert shown(path, capsys, "orders")["retention.ms"] == {"value": "500", "origin": "topic"}
    assert shown(disks, capsys, "users")["segment.bytes"]["value"] == "1000"


def test_log_dirs_of_a_server_properties_stand_for_its_directories(
    disks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={disks}\nlog.retention.ms=700\n")
    assert shown(str(properties), capsys, "users")["retention.ms"] == {"value": "700", "origin": "broker"}
    assert run(["verify", str(properties), "orders"]) == exit_codes.DONE
    assert capsys.readouterr().out.startswith("2 partitions, ")


@pytest.mark.parametrize(
    "command",
    [
        ["sql", "{}", "SHOW TABLES"],
        ["clean", "{}"],
        ["serve", "{}"],
        ["delete", "{}", "orders"],
        ["delete-records", "{}", "orders-0:1"],
        ["truncate", "{}", "orders-0", "1"],
        ["repair", "{}"],
        ["dump", "{}"],
        ["archive", "{}", "s3://bucket/kafka"],
        ["table", "sync", "{}", "sqlite:///rows.db"],
        ["restore", "{}", "127.0.0.1:9"],
        ["users", "{}"],
        ["acls", "{}"],
        ["create", "{}", "further"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_for_one_directory_refuses_several_in_one_sentence(
    command: list[str], disks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([word.format(disks) for word in command]) == exit_codes.WRONG_CALL
    assert capsys.readouterr().err.endswith("names 2 log directories, and this command takes one; run it for each\n")


def test_verify_selects_in_each_of_several_directories(disks: str, capsys: pytest.CaptureFixture[str]) -> None:
    for names, count in (([], 3), (["orders"], 2), (["users"], 1), (["users-0"], 1), (["orders-0"], 2)):
        assert run(["verify", disks, *names]) == exit_codes.DONE
        assert capsys.readouterr().out.startswith(f"{count} partition")
    assert run(["verify", disks, "nothing"]) == exit_codes.WRONG_CALL


def test_nothing_is_written_beside_a_running_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["create", str(tmp_path), "orders"]) == 0
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    before = sorted(os.listdir(tmp_path))
    program = (
        f"import fcntl; f = open('{tmp_path}/.lock', 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    ) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()  # the lock is held
        code = run(["config", str(tmp_path), "orders", "retention.ms=7d", "segment.ms="])
    error = capsys.readouterr().err
    assert (code, error.count("\n"), sorted(os.listdir(tmp_path))) == (exit_codes.FAILED, 1, before)
    assert error.startswith(f"offsetfs config: {tmp_path}: a broker is running there (process {broker.pid})")
    assert error.endswith("--entity-name orders --add-config retention.ms=604800000 --delete-config segment.ms\n")
    assert run(["config", str(tmp_path), "orders", "retention.ms=7d"]) == exit_codes.DONE
    assert "belongs to a broker" in capsys.readouterr().err


def test_no_file_stays_when_the_last_setting_is_removed(tmp_path: Path) -> None:
    assert run(["create", str(tmp_path), "orders"]) == 0
    before = sorted(os.listdir(tmp_path))
    assert run(["config", str(tmp_path), "orders", "retention.ms=7d"]) == 0
    assert run(["config", str(tmp_path), "orders", "retention.ms="]) == 0
    assert sorted(os.listdir(tmp_path)) == before
