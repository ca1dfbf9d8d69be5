"""`offsetfs mirror` as people call it: a broker, the mirror beside it, `status`, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mirror_process import MirrorProcess, batches_of, mirrored_end, wait_until

import offsetfs
from offsetfs import cli
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with one topic and one record."""
    path = tmp_path_factory.mktemp("source")
    directory = LogDirectory.open(str(path))
    directory.create_partition(ORDERS)
    directory.close()
    with offsetfs.open(path, "a") as opened:
        opened.partition("orders-0").append(b"one")
    with offsetfs.serve(path) as running:
        yield running.bootstrap_servers


@pytest.mark.long
def test_a_mirror_runs_until_it_is_ended_and_status_shows_it(
    broker: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mirror"
    with MirrorProcess(broker, path) as mirror:
        wait_until(lambda: mirrored_end(path, ORDERS) == 1, "the record")

        def shown() -> dict[str, object]:
            assert cli.run(["status", str(path), "--json"]) == 0
            found: dict[str, object] = json.loads(capsys.readouterr().out)
            return found

        wait_until(lambda: "mirror" in shown(), "the state")
        assert cli.run(["status", str(path)]) == 0
        assert f"is mirrored from {broker} by process" in capsys.readouterr().out
        assert cli.run(["mirror", broker, str(path)]) == 32
        assert f"is mirrored from {broker} by process" in capsys.readouterr().err
        assert mirror.end() == 0
    assert (mirror.events, batches_of(path / "orders-0")[-3:]) == ([], b"ne\0")
    appended = subprocess.run(
        [sys.executable, "-m", "offsetfs", "append", str(path), "orders-0/append"],
        input="two\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (appended.returncode, mirrored_end(path, ORDERS)) == (1, 1)
    assert "Read-only file system" in appended.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--topic", "("], "no regular expression"),
        (["--from", "yesterday"], "--from: 'yesterday' is not earliest, latest or a time, such as -7d"),
        (["--rate", "fast"], "--rate: 'fast' is no number of bytes"),
        (
            ["--config", "/nowhere"],
            "/nowhere: No such file or directory; give --config a file of properties that this user can read",
        ),
    ],
)
def test_wrong_options_are_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["mirror", "127.0.0.1:1", str(tmp_path / "mirror"), *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("brokers", "path", "message"),
    [
        ("", "mirror", "'' has an empty address; write HOST:PORT,HOST:PORT"),
        ("broker1:9092,", "mirror", "'broker1:9092,' has an empty address; write HOST:PORT,HOST:PORT"),
        ("broker1:9092", "", "'': a mirror is a local directory; give its path"),
        ("broker1:9092", "s3://bucket/kafka", "'s3://bucket/kafka': a mirror is a local directory; give its path"),
    ],
)
def test_arguments_that_are_empty_or_a_url_create_nothing(
    brokers: str,
    path: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["mirror", brokers, path]) == 1
    assert capsys.readouterr().err == f"offsetfs mirror: {message}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_no_log_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_text("text")
    (other / "orders-0").mkdir(parents=True)
    (other / "orders-0" / "notes.txt").write_text("text")
    for path, message in (
        (file, "is not a directory; give a new one, or that of a mirror"),
        (other, "holds neither partitions (orders-0) nor Kafka's checkpoints; give a log directory, or an empty one"),
    ):
        assert cli.run(["mirror", "127.0.0.1:1", str(path)]) == 1
        assert capsys.readouterr().err == f"offsetfs mirror: {path}: {message}\n"
    assert [each.name for each in other.rglob("*")] == ["orders-0", "notes.txt"]


def test_no_broker_answers(tmp_path: Path) -> None:
    done = MirrorProcess("127.0.0.1:1", tmp_path / "mirror").once()
    assert done.returncode == 32
    assert done.stderr.startswith("offsetfs mirror: ") and "127.0.0.1:1: Connection refused" in done.stderr


@pytest.mark.parametrize(
    ("keep", "options", "message"),
    [
        ("true", [], "was mirrored with --keep, and would lose what the cluster deletes or compacts; give --keep"),
        ('"yes"', ["--keep"], 'unreadable (keep is "yes", and must be true or false); restore it'),
    ],
)
def test_an_archive_is_refused_before_a_broker_is_asked(
    keep: str, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = f'{{"version": 0, "cluster.id": "c", "source": "b:9092", "keep": {keep}, "topics": {{}}}}'
    (tmp_path / ".offsetfs-mirror.json").write_text(content)
    assert cli.run(["mirror", "127.0.0.1:1", str(tmp_path), "--once", *options]) == 32
    assert message in capsys.readouterr().err
    assert (tmp_path / ".offsetfs-mirror.json").read_text() == content
