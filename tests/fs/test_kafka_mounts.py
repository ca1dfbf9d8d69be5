"""`offsetfs mount kafka://…`: one process mirrors a cluster into a cache, and mounts it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.mirrors.process import wait_until

import offsetfs
from offsetfs import cli
from offsetfs.cli.exit_codes import FAILED, WRONG_CALL
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.mount

SECONDS_MAX = 30


@pytest.fixture
def source(tmp_path: Path) -> Iterator[offsetfs.EmbeddedBroker]:
    """A broker with the topics orders and users, each with one record."""
    path = tmp_path / "source"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    directory.create_partitions([TopicPartition("orders", 0), TopicPartition("users", 0)])
    directory.close()
    with offsetfs.open(path, "a") as opened:
        opened.partition("orders-0").append(b"one")
        opened.partition("users-0").append(b"ann")
    with offsetfs.serve(path) as found:
        yield found


def produce(broker: offsetfs.EmbeddedBroker, value: bytes) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    producer.produce("orders", value, partition=0)
    assert producer.flush(SECONDS_MAX) == 0


def followed(root: Path, count: int) -> bytes:
    """Return the first bytes of `follow@0` of orders-0, when there are as many."""
    found = b""
    with open(root / "orders-0" / "follow@0", "rb", buffering=0) as follow:
        while len(found) < count:
            found += follow.read(count)
    return found


def status(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.run(["status", str(path), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_records_of_the_cluster_are_followed_in_a_read_only_mount(
    source: offsetfs.EmbeddedBroker, mount: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache"
    mounted = mount(f"kafka://{source.bootstrap_servers}/", f"topic=orders,cache={cache}")
    root: Path = mounted.path
    assert [each.name for each in (root / "topics").iterdir()] == ["orders"]
    with open(root / "orders-0" / "follow@0", "rb", buffering=0) as follow:
        assert follow.read(4) == b"one\n"
        produce(source, b"two")
        assert follow.read(4) == b"two\n"
    for change in (
        lambda: (root / "orders-0" / "append").write_bytes(b"x\n"),
        lambda: (root / "orders-0" / "append.ndjson").write_bytes(b"{}\n"),
        lambda: (root / "topics" / "orders" / "append").write_bytes(b"x\n"),
        lambda: os.truncate(root / "orders-0" / "values", 0),
        lambda: os.unlink(root / "orders-0" / "0"),
        lambda: os.mkdir(root / "orders-1"),
        lambda: os.rmdir(root / "orders-0"),
    ):
        with pytest.raises(OSError, match="Read-only file system") as caught:
            change()
        assert caught.value.errno == errno.EROFS

    def lags() -> list[int | None]:
        return [each["mirror"] and each["mirror"]["lag"] for each in status(root, capsys)["partitions"]]

    wait_until(lambda: lags() == [0], "the state of the mirror")
    found = status(root, capsys)
    assert found["mirror"]["source"] == source.bootstrap_servers
    assert found["mounts"][0]["options"]["source"] == f"kafka://{source.bootstrap_servers}/"
    assert 'topic="orders"' in (root / ".offsetfs" / "metrics").read_text().partition("offsetfs_mirror_lag{")[2]
    assert cli.run(["mirror", source.bootstrap_servers, str(cache)]) == 32
    assert f"is mounted at {root}" in capsys.readouterr().err


def test_config_of_a_mounted_cluster_has_its_options(
    source: offsetfs.EmbeddedBroker, mount: Any, tmp_path: Path
) -> None:
    url = f"kafka://{source.bootstrap_servers}/"
    mounted = mount(url, f"topic=orders,from=latest,cache={tmp_path}/cache")
    shown = (mounted.path / ".offsetfs" / "config").read_text().split("[")[1].splitlines()
    assert {f"source={url}", "topic=orders", "from=latest", f"cache={tmp_path}/cache", "ro"} <= {
        each.rstrip("=") for each in shown
    }


def test_the_next_mount_of_the_cluster_resumes_in_the_user_cache(
    source: offsetfs.EmbeddedBroker, mount: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    url = f"kafka://{source.bootstrap_servers}"
    first = mount(url, "topic=orders", faulty=True)
    assert followed(first.path, 4) == b"one\n"
    first.process.send_signal(signal.SIGKILL)
    first.unmount()
    produce(source, b"two")
    second = mount(url, "topic=orders|users,from=latest")
    assert followed(second.path, 8) == b"one\ntwo\n"
    assert (second.path / "users-0" / "next").read_text() == "1\n"
    (cache,) = (tmp_path / "cache" / "offsetfs" / "kafka").iterdir()
    assert (cache.stat().st_mode & 0o777, (cache / "orders-0").is_dir()) == (0o700, True)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("kafka://ann:secret@127.0.0.1:1/", "", "other users can read arguments; put the login into client.properties"),
        ("kafka://127.0.0.1:1/orders", "", "name topics with -o topic=REGEX"),
        ("kafka://127.0.0.1:1/", "listen=127.0.0.1:0", "listen is not possible with kafka://: the mount is read-only"),
        ("kafka://127.0.0.1:1/", "cache=here", "cache=here is not an absolute path"),
        ("kafka://127.0.0.1:1/", "from=soon", "from: 'soon' is not earliest, latest or a time"),
        ("kafka:///", "", "has no broker; write kafka://HOST:PORT/"),
        ("kafka://127.0.0.1:1/", "on-gap=never", "on-gap=never is neither fail nor skip"),
        ("kafka://127.0.0.1:1/", "keep=1", "option keep takes no value"),
        ("kafka://127.0.0.1:1/", "topic", "option topic needs a value"),
        ("kafka://127.0.0.1:1/", "retention.ms=x", "retention.ms is 'x', but must be a whole number, -1 or greater"),
    ],
)
def test_options_that_are_wrong_are_one_sentence(
    url: str,
    options: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mnt").mkdir()
    command = ["mount", url, str(tmp_path / "mnt"), *(["-o", options] if options else [])]
    assert cli.run(command) == WRONG_CALL
    error = capfd.readouterr().err
    assert message in error and error.count("\n") == 1 and "secret" not in error
    assert not os.path.ismount(tmp_path / "mnt")


def test_a_cache_that_is_a_file_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mnt").mkdir()
    cache = tmp_path / "cache"
    cache.write_text("text")
    options = f"cache={cache}"
    assert cli.run(["mount", "kafka://127.0.0.1:1/", str(tmp_path / "mnt"), "-o", options]) == WRONG_CALL
    message = f"cache={cache} is not a directory; give a new one, or that of a mirror"
    assert capfd.readouterr().err == f"offsetfs mount: {message}\n"
    assert cache.read_text() == "text"


def test_a_cluster_that_cannot_be_mirrored_is_one_sentence(source: offsetfs.EmbeddedBroker, tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    cluster = source.bootstrap_servers
    for address, message in (
        ("127.0.0.1:1", "no broker answers: 127.0.0.1:1: Connection refused; check the address, and that a broker"),
        (cluster, "no topic that this user may describe matches 'order'; did you mean orders?"),
    ):
        options = f"topic=order,cache={tmp_path / 'cache'}"
        words = ["mount", f"kafka://{address}/", str(tmp_path / "mnt"), "-o", options]
        done = subprocess.run(
            [sys.executable, "-m", "offsetfs", *words], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        assert done.returncode == FAILED
        assert done.stderr.startswith(f"offsetfs mount: {message}") and done.stderr.count("\n") == 1
    assert not os.path.ismount(tmp_path / "mnt")
