"""`offsetfs mirror` as people call it: a broker, the mirror beside it, `status`, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from fixtures.mirrors.process import MirrorProcess, batches_of, mirrored_end, wait_until
from trio.testing import MockClock

import offsetfs
from offsetfs import cli
from offsetfs.cli.commands.mirror import Terminal, _summary
from offsetfs.cli.terminal.progress import CLEAR_LINE
from offsetfs.kafka.client.errors import ClientError
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.mirror import process
from offsetfs.kafka.mirror.options import MirrorOptions
from offsetfs.kafka.mirror.status import MirrorStatus, PartitionStatus
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
    assert cli.run(["status", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"{path} is not mounted", f"  a mirror of {broker}; no process mirrors it now"]
    assert shown()["mirrored_from"] == broker
    appended = subprocess.run(
        [sys.executable, "-m", "offsetfs", "append", str(path), "orders-0/append"],
        input="two\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (appended.returncode, mirrored_end(path, ORDERS)) == (1, 1)
    assert f"the topic is mirrored from {broker}; append to the source" in appended.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--topic", "("], "not a regular expression"),
        (["--from", "yesterday"], "--from: 'yesterday' is not earliest, latest or a time, such as -7d"),
        (["--retention.ms", "7d"], "no such option '--retention.ms'; write -o retention.ms=7d"),
        (["-o", "segment.bytes=1m"], "-o segment.bytes: of a mirror only retention.ms can be set; the other settings"),
        (
            ["-o", "retention.ms=soon"],
            "retention.ms is 'soon', but must be a whole number, -1 or greater, or a duration",
        ),
        (["--rate", "fast"], "--rate: 'fast' is not a number of bytes"),
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
        ("kafka://broker1:9092/", "mirror", "'kafka://broker1:9092/': give HOST:PORT,HOST:PORT without kafka://"),
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
        (file, "is not a directory; give a log directory, or an empty one"),
        (other, "holds neither partitions (orders-0) nor Kafka's checkpoints; give a log directory, or an empty one"),
    ):
        assert cli.run(["mirror", "127.0.0.1:1", str(path)]) == 1
        assert capsys.readouterr().err == f"offsetfs mirror: {path}: {message}\n"
    assert [each.name for each in other.rglob("*")] == ["orders-0", "notes.txt"]


@pytest.mark.long
def test_no_broker_answers(tmp_path: Path) -> None:
    done = MirrorProcess("127.0.0.1:1", tmp_path / "mirror").once()
    assert done.returncode == 32
    assert done.stderr.startswith("offsetfs mirror: ") and "127.0.0.1:1: Connection refused" in done.stderr


def test_a_cluster_that_does_not_answer_leaves_no_new_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()
    for path in tmp_path / "mirror", tmp_path / "there" / "mirror", tmp_path / "there":
        assert cli.run(["mirror", "127.0.0.1:1", str(path)]) == 32
        printed = capsys.readouterr().err
        assert "127.0.0.1:1: Connection refused" in printed and "is a new log directory" not in printed
    assert [each.name for each in tmp_path.iterdir()] == ["there"]
    assert {each.name for each in (tmp_path / "there").iterdir()} <= {".lock"}


def test_a_new_directory_where_another_process_writes_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(source: object) -> str:
        (tmp_path / "mirror" / ".lock").touch()
        raise ClientError("no broker answers")

    monkeypatch.setattr(process, "cluster_id", refused)
    assert cli.run(["mirror", "127.0.0.1:1", str(tmp_path / "mirror")]) == 32
    assert (tmp_path / "mirror" / ".lock").exists()


def test_a_signal_before_the_cluster_answers_ends_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def waiting(source: object) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()
        return ""

    monkeypatch.setattr(process, "cluster_id", waiting)
    assert cli.run(["mirror", "127.0.0.1:1", str(tmp_path / "mirror")]) == 0
    assert list(tmp_path.iterdir()) == []


async def test_a_new_mirror_reports_each_second_that_its_cluster_is_silent(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "cluster_id", lambda source: trio.sleep(3.5))
    reports = list[str]()
    assert await process.answers(
        process.MirrorSource([("broker1", 9092)], ClientProperties(), MirrorOptions()), lambda: reports.append("")
    )
    assert len(reports) == 3


def status_of(lag: int | None, received: int, failure: str | None = None) -> MirrorStatus:
    return MirrorStatus("broker1:9092", {}, {ORDERS: PartitionStatus(lag, 12.3 if lag else 0.0, failure, received)})


def test_a_terminal_shows_bytes_rate_and_lag_in_one_line_that_events_replace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    terminal = Terminal(lambda: now[0])
    shown = list[str]()
    for seconds, status in (
        (1.0, MirrorStatus("broker1:9092", {}, {})),
        (2.0, status_of(None, 0)),
        (4.0, status_of(70, 4_000_000)),
        (5.0, status_of(0, 4_000_000)),
        (6.0, status_of(0, 4_000_000, "gone")),
    ):
        now[0] = seconds
        terminal.show(status)
        shown.append(capsys.readouterr().err.removeprefix(CLEAR_LINE))
    assert shown == [
        "",  # for less than two seconds
        "mirroring: 0 B received, connecting",
        "mirroring: 4 MB received, 2 MB/s, 70 offsets behind for 12 s",
        "mirroring: 4 MB received, up to date",
        "mirroring: 4 MB received, up to date, 1 failed",
    ]
    terminal.event("orders-0: gone")
    assert capsys.readouterr().err == f"{CLEAR_LINE}orders-0: gone\n"


def test_without_a_terminal_no_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    terminal = Terminal(lambda: now[0])
    now[0] = 100.0
    terminal.show(status_of(70, 4_000_000))
    terminal.end()
    assert capsys.readouterr().err == ""


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


def test_a_run_that_ends_reports_what_it_has_done() -> None:
    assert _summary(status_of(70, 4_000_000)).endswith(" up to date, 4 MB received")
    assert _summary(status_of(70, 0)).startswith("nothing new: ")
