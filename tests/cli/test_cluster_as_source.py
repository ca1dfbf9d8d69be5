"""`kafka://HOST:PORT/` as LOGDIR of commands that answer questions: what is copied, when, and what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from fixtures.mirrors.process import MirrorProcess, wait_until

import offsetfs
from offsetfs import cli
from offsetfs.cli.mounts.mirroring_process import mirroring_process
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.records import partition_of

pytestmark = pytest.mark.unit

ORDERS = [TopicPartition("orders", number) for number in range(2)]
USERS = TopicPartition("users.eu", 0)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with ten records in each partition of a topic, and one in another."""
    path = tmp_path_factory.mktemp("source")
    directory = LogDirectory.open(str(path))
    directory.create_partitions(ORDERS, {"retention.ms": "-1", "segment.bytes": "100000"})
    directory.create_partitions([USERS])
    directory.close()
    append(path, 10)
    with offsetfs.open(path, "a") as opened:
        opened.partition(str(USERS)).append(b"one")
    return path


@pytest.fixture(scope="module")
def url(source: Path) -> Iterator[str]:
    with offsetfs.serve(source) as running:
        yield f"kafka://{running.bootstrap_servers}/"


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user cache for clusters, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/offsetfs/kafka"


class Printed(NamedTuple):
    code: int
    out: str
    error: str


class Commands:
    """Commands in the process of the test."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> Printed:
        self._capsys.readouterr()
        code = cli.run([*map(str, words)])
        return Printed(code, *self._capsys.readouterr())


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def append(path: Path, count: int) -> None:
    with offsetfs.open(path, "a") as opened:
        for partition in ORDERS:
            for number in range(count):
                opened.partition(str(partition)).append(b"value %d" % number, key=b"key %d" % number)


def paths_of(caches: Path) -> list[str]:
    """Return the caches and their partitions, such as `whole/orders-0`."""
    return sorted(
        f"{'parts' if each.parent.name.endswith('-parts') else 'whole'}/{each.name}"
        for each in caches.glob("*/*-[0-9]")
    )


def test_topics_of_a_cluster_are_copied_once_and_then_what_is_new(
    tmp_path: Path, caches: Path, command: Commands
) -> None:
    path = tmp_path / "source"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    directory.create_partitions([*ORDERS, USERS])
    directory.close()
    for round_, count in enumerate((10, 20)):
        append(path, 10)
        with offsetfs.serve(path) as running:
            words = ("find", f"kafka://{running.bootstrap_servers}/", "orders", "--count")
            first, second = command(*words), command(*words)
        assert (first.code, first.out) == (second.code, second.out) == (0, f"{2 * count}\n")
        assert "offsetfs find: copying about " in first.error
        assert " of 1 topic to " in first.error
        assert second.error == ""
        assert paths_of(caches) == ["whole/orders-0", "whole/orders-1"], round_


def test_records_that_a_cluster_deletes_go_from_the_copy_also_if_nothing_is_new(
    tmp_path: Path, caches: Path, command: Commands
) -> None:
    path, mirror = tmp_path / "source", tmp_path / "mirror"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    directory.create_partitions(ORDERS)
    directory.close()
    append(path, 10)
    for count in (20, 16):
        with offsetfs.serve(path) as running:
            address = running.bootstrap_servers
            assert command("mirror", address, mirror, "--once").code == 0
            assert command("find", f"kafka://{address}/", "--count").out == f"{count}\n"
        assert command("find", mirror, "--count").out == f"{count}\n"
        assert command("delete-records", path, "orders-1=4", "--yes").code == 0
    assert len(list(caches.iterdir())) == 1


def test_only_the_partition_of_a_key_is_copied(url: str, caches: Path, command: Commands) -> None:
    number = partition_of(b"key 3", len(ORDERS))
    found = command("find", url, "orders", "--key", "key 3", "--paths")
    assert (found.code, found.out) == (0, f"orders-{number}/3\n")
    assert f"the key is in orders-{number}, by murmur2 of 2 partitions" in found.error
    (parts,) = caches.iterdir()
    with offsetfs.open(parts) as opened:
        sizes = [len(list(opened.partition(str(each)).read())) for each in ORDERS]
    assert sizes == [10 if each == number else 0 for each in range(len(ORDERS))]
    lost = command("find", url, "orders", "--key", "not there", "--paths")
    assert lost.code == 1 and "--partitioner any searches all partitions, of a cluster it copies them" in lost.error
    everywhere = command("find", url, "orders", "--key", "key 3", "--partitioner", "any", "--paths")
    assert everywhere.out == "orders-0/3\norders-1/3\n"


def test_a_part_of_a_topic_is_copied_into_a_cache_of_parts(url: str, caches: Path, command: Commands) -> None:
    assert command("find", url, "orders-1", "--from", "7", "--paths").out == "orders-1/7\norders-1/8\norders-1/9\n"
    assert paths_of(caches) == ["parts/orders-0", "parts/orders-1"]
    (parts,) = caches.iterdir()
    with offsetfs.open(parts) as opened:
        assert [(each.start_offset, each.end_offset) for each in opened.partitions()] == [(10, 10), (7, 10)]
    assert "copying" not in command("find", url, "orders-1", "--from", "8").error
    # It begins too late for these: it is copied again, and whole topics lie elsewhere.
    assert command("find", url, "orders-1", "--from", "2", "--count").out == "8\n"
    assert command("find", url, "orders", "--from", "-1h", "--count").out == "20\n"
    assert paths_of(caches) == ["parts/orders-0", "parts/orders-1", "whole/orders-0", "whole/orders-1"]
    # What the cache of whole topics has is not copied again.
    shutil.rmtree(parts)
    assert command("find", url, "orders-0", "--from", "7", "--count").out == "3\n"
    assert paths_of(caches) == ["whole/orders-0", "whole/orders-1"]


def test_stats_of_a_cluster_count_its_topics_and_no_others(
    url: str, caches: Path, tmp_path: Path, command: Commands
) -> None:
    def topics(*names: str) -> dict[str, int]:
        printed = command("stats", url, *names, "--json", "--cache", tmp_path / "copy")
        assert printed.code == 0, printed.error
        return {row["topic"]: row["records"] for row in json.loads(printed.out)["tables"]["topics"]}

    assert topics("orders") == {"orders": 20}
    assert topics() == {"orders": 20, "users.eu": 1}
    assert topics("users.eu-0") == {"users.eu": 1}
    assert not caches.exists()


def test_a_cluster_is_compared_with_a_directory_and_with_a_cluster(
    url: str, source: Path, caches: Path, tmp_path: Path, command: Commands
) -> None:
    del caches
    assert command("mirror", url.removeprefix("kafka://").rstrip("/"), tmp_path / "backup", "--once").code == 0
    for a, b in ((url, source), (tmp_path / "backup", url), (url, url)):
        printed = command("diff", a, b, "--json")
        assert (printed.code, json.loads(printed.out)["findings"]) == (0, []), (a, b)
        assert json.loads(printed.out)["facts"]["equal_records"] == 21
    other = shutil.copytree(source, tmp_path / "other", ignore=shutil.ignore_patterns(".lock"))
    append(other, 1)
    printed = command("diff", url, other, "orders", "--json")
    assert printed.code == 1
    assert {row["result"] for row in json.loads(printed.out)["tables"]["partitions"]} == {"A is behind"}
    # A topic that only one of them has is a difference, and no error.
    assert command("diff", url, tmp_path / "backup", "users.eu").code == 0
    assert "did you mean users.eu?" in command("diff", url, other, "users").error


def test_sql_reads_the_topics_of_a_cluster_that_are_named(url: str, caches: Path, command: Commands) -> None:
    query = "SELECT count(*) AS n FROM all_topics"
    assert command("sql", url, "--topic", "orders", query, "--format", "csv").out == "n\n20\n"
    assert paths_of(caches) == ["whole/orders-0", "whole/orders-1"]
    assert command("sql", url, query, "--format", "csv").out == "n\n21\n"
    assert "no such topic or partition; did you mean orders?" in command("sql", url, "--topic", "order", query).error


def test_schemas_and_usage_of_a_cluster_need_only_the_newest_records(url: str, caches: Path, command: Commands) -> None:
    printed = command("schemas", url, "--json")
    assert json.loads(printed.out)["counted_records"] == {"orders": 20, "users.eu": 1}
    assert "has no topic _schemas" in command("schemas", url, "orders-value").error
    assert paths_of(caches) == ["whole/orders-0", "whole/orders-1", "whole/users.eu-0"]


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (("find", "URL", "order"), "order: URL has no such topic or partition; did you mean orders?", 1),
        (("stats", "URL", "orders-7"), "orders-7: URL has no such topic or partition; orders has partitions 0 to 1", 1),
        (("stats", "URL", "none"), "none: URL has no such topic or partition, or this user may not describe it", 1),
        (("find", "URL", "orders", "--from", "soon"), "--from soon: give an offset (42) or a time", 1),
        (
            ("stats", "kafka://127.0.0.1:1/"),
            "no broker answers: 127.0.0.1:1: Connection refused; check the address",
            32,
        ),
        (("stats", "kafka:///"), "kafka:/// has no broker; write kafka://HOST:PORT/", 1),
        (("stats", "kafka://a:b@h:1/"), "put the login into client.properties, and add --config FILE", 1),
        (("stats", "URLorders"), "URLorders: name topics behind it, as further arguments", 1),
        (("stats", "URL", "--config", "/nowhere"), "/nowhere: No such file or directory; give --config a file", 1),
        (("stats", "URL", "--cache", "/proc/1/x"), "/proc/1/x: No such file or directory", 32),
        (("stats", "/", "--cache", "x"), "--cache goes with a cluster, such as kafka://broker1:9092/", 1),
        (("stats", "/", "--config", "x"), "--config goes with a cluster, such as kafka://broker1:9092/", 1),
        (("sql", "/", "--topic", "orders", "SELECT 1"), "--topic goes with a cluster; a statement names its topics", 1),
        (("diff", "/", "/", "--config-b", "x"), "--config-b goes with a cluster as B", 1),
        (("doctor", "URL"), "URL: is a cluster; run it where the files of its brokers are", 1),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_wrong_calls_with_a_cluster_copy_nothing(
    words: tuple[str, ...], message: str, code: int, url: str, caches: Path, command: Commands
) -> None:
    printed = command(*(word.replace("URL", url) for word in words))
    assert message.replace("URL", url) in printed.error
    assert (printed.code, printed.out, printed.error.count("\n")) == (code, "", 1)
    assert not caches.exists()


def test_a_copy_that_the_disk_cannot_hold_is_not_begun(
    url: str, caches: Path, command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    printed = command("stats", url, "orders")
    assert printed.code == 32
    assert "and its disk has 100 B free; name fewer topics, or a directory on a larger disk" in printed.error
    assert paths_of(caches) == []


def test_a_cache_of_the_user_that_begins_later_is_not_replaced(url: str, tmp_path: Path, command: Commands) -> None:
    cache = tmp_path / "mirror"
    address = url.removeprefix("kafka://").rstrip("/")
    assert command("mirror", address, cache, "--topic", "orders", "--from", "latest", "--once").code == 0
    printed = command("stats", url, "orders", "--cache", cache)
    assert printed.code == 32
    cause = f"{cache} has orders-0 from offset 10 on, and 0 is asked for; name another --cache DIR, or remove it"
    assert f"offsetfs stats: {cause}: offsetfs delete {cache} orders\n" == printed.error


@pytest.mark.long
def test_a_mirror_that_keeps_the_cache_in_step_is_read_beside(url: str, caches: Path, command: Commands) -> None:
    address = url.removeprefix("kafka://").rstrip("/")
    assert command("find", url, "orders", "--count").out == "20\n"
    (cache,) = caches.iterdir()
    with MirrorProcess(address, cache, "--topic", "orders") as mirror:
        wait_until(lambda: mirroring_process(str(cache)) is not None, "the mirror runs")
        wait_until(lambda: "orders-1" in (mirroring_process(str(cache)) or {})["partitions"], "its partitions")
        assert command("find", url, "orders", "--count").out == "20\n"
        assert command("diff", url, cache, "orders").code == 0
        # A topic that it lacks is copied elsewhere, but not away from the directory that the user has named.
        assert command("find", url, "users.eu", "--count").out == "1\n"
        assert paths_of(caches) == ["parts/users.eu-0", "whole/orders-0", "whole/orders-1"]
        printed = command("find", url, "users.eu", "--cache", cache)
        assert (printed.code, printed.out) == (32, "")
        assert f"{cache} is mirrored from {address} by process" in printed.error
        assert mirror.end() == 0


@pytest.mark.long
def test_two_commands_at_once_share_one_copy(url: str, caches: Path) -> None:
    words = [sys.executable, "-m", "offsetfs", "find", url, "--count"]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [each.communicate(timeout=240)[0] for each in running] == ["21\n"] * 3
    assert paths_of(caches) == ["whole/orders-0", "whole/orders-1", "whole/users.eu-0"]


@pytest.mark.long
def test_an_interrupted_copy_gives_no_answer(source: Path, url: str, caches: Path, tmp_path: Path) -> None:
    """Ctrl-C while the leader does not answer: what was copied stays, and is no answer."""
    del source
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, sys\n"
        "from offsetfs import cli\n"
        "from offsetfs.kafka.mirror import fetcher\n"
        "fetcher.data_of = lambda response: (os.kill(os.getpid(), signal.SIGINT), iter(()))[1]\n"
        "cli.main(sys.argv[1:])\n"
    )
    words = [sys.executable, str(program), "find", url, "orders", "--count"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    assert (ended.returncode, ended.stdout) == (8, "")
    assert ended.stderr.splitlines()[-1] == "offsetfs find: interrupted"
    assert paths_of(caches) == ["whole/orders-0", "whole/orders-1"]
