"""`offsetfs groups --reset-to` and `--reset-like`: a plan first; then commits where the directory is our own."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.logs.broker_directories import BrokerDirectory

import offsetfs
from offsetfs.cli import run
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import commit_offsets

pytestmark = pytest.mark.unit

TIME_MS = 1_790_000_000_000
ORDERS = TopicPartition("orders", 0)
Groups = Callable[..., tuple[int, str, str]]


def values(count: int) -> list[offsetfs.NewRecord]:
    return [offsetfs.NewRecord(b"%d" % number, timestamp=TIME_MS + 1000 * number) for number in range(count)]


def fill(path: Path, records: list[offsetfs.NewRecord], *, first: int = 0) -> Path:
    """Return a directory with `first` other records of an earlier time, and then these."""
    path.mkdir()
    with offsetfs.open(path, "a") as directory:
        for partition in directory.create("orders", 2):
            partition.extend(offsetfs.NewRecord(b"earlier", timestamp=1) for _ in range(first))
            partition.extend(records)
    return path


def commit(path: Path, offset: int, partition: TopicPartition = ORDERS) -> None:
    directory = LogDirectory.open(os.fspath(path))
    commit_offsets(directory, "billing", {partition: offset})
    directory.close()


def committed(path: Path) -> dict[str, int]:
    with offsetfs.open(path) as directory:
        return {name: offset for group in directory.groups() for name, offset in group.offsets.items()}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = fill(tmp_path / "logs", values(100))
    commit(path, 40)
    return path


@pytest.fixture
def groups(capsys: pytest.CaptureFixture[str]) -> Groups:
    def groups(*words: str | Path) -> tuple[int, str, str]:
        code = run(["groups", *map(str, words)])
        output = capsys.readouterr()
        return code, output.out, output.err

    return groups


@pytest.mark.parametrize(
    ("where", "offset"),
    [("earliest", 0), ("latest", 100), ("17", 17), (f"@{TIME_MS // 1000 + 25}", 25), ("1000", 100), ("now", 100)],
)
def test_a_plan_changes_nothing_and_yes_commits_it(logs: Path, groups: Groups, where: str, offset: int) -> None:
    assert groups(logs, "billing", "--reset-to", where, "--csv") == (0, f"orders,0,{offset}\n", "")
    assert committed(logs) == {"orders-0": 40}
    code, out, _ = groups(logs, "billing", "--reset-to", where, "--yes")
    assert code == 0 and "committed 1 offset" in out
    assert committed(logs) == {"orders-0": offset}


def test_the_plan_shows_how_far_the_group_moves(logs: Path, groups: Groups) -> None:
    code, out, _ = groups(logs, "billing", "--reset-to", "10")
    assert code == 0 and "nothing was changed; --yes commits these offsets" in out
    assert "orders-0          40   10       -30        90" in out


def test_named_partitions_need_no_commits_before(logs: Path, groups: Groups) -> None:
    assert groups(logs, "other", "orders", "--reset-to", "earliest", "--yes")[0] == 0
    assert committed(logs) == {"orders-0": 0, "orders-1": 0}
    code, out, err = groups(logs, "nobody", "--reset-to", "latest")
    assert (code, out) == (1, "") and err.endswith("name the topics\n")


def test_a_group_continues_in_a_copy_at_the_record_that_it_would_read_next(
    logs: Path, groups: Groups, tmp_path: Path
) -> None:
    copy = fill(tmp_path / "copy", values(100), first=7)
    assert groups(copy, "billing", "orders-0", "--reset-like", logs, "--csv") == (0, "orders,0,47\n", "")
    commit(logs, 100)  # all is read
    assert groups(copy, "billing", "orders-0", "--reset-like", logs, "--csv") == (0, "orders,0,107\n", "")
    commit(logs, 98)  # fewer records follow than are compared elsewhere
    assert groups(copy, "billing", "orders-0", "--reset-like", logs, "--csv") == (0, "orders,0,105\n", "")


def test_a_copy_that_lacks_the_place_keeps_its_commit(logs: Path, groups: Groups, tmp_path: Path) -> None:
    short = fill(tmp_path / "short", values(30))
    commit(short, 3)
    code, out, err = groups(short, "billing", "--reset-like", logs, "--csv")
    assert (code, out) == (1, "") and err == "offsetfs groups: orders-0: the place of the group is not in this log\n"
    code, out, _ = groups(short, "billing", "--reset-like", logs, "--yes")
    assert code == 1 and "no-place" in out and "committed 0 offsets" in out
    assert committed(short) == {"orders-0": 3}


def test_equal_records_are_told_apart_by_those_that_follow(groups: Groups, tmp_path: Path) -> None:
    chosen = random.Random(7)
    same = [offsetfs.NewRecord(chosen.choice([b"a", b"b"]), timestamp=TIME_MS) for _ in range(300)]
    texts = [record.value for record in same]
    source, copy = fill(tmp_path / "source", same), fill(tmp_path / "copy", same[:250], first=11)
    for offset in (0, 1, 99, 200):
        commit(source, offset)
        following = texts[offset : offset + 8]
        wanted = next(start for start in range(250) if texts[start : start + 8] == following)
        assert groups(copy, "billing", "orders-0", "--reset-like", source, "--csv")[1] == f"orders,0,{11 + wanted}\n"


def test_the_directory_of_a_broker_gets_no_commits(tmp_path: Path, groups: Groups) -> None:
    broker = BrokerDirectory(tmp_path)
    broker.topic("orders")
    code, out, err = groups(broker.path, "billing", "orders", "--reset-to", "earliest", "--yes")
    command = f"offsetfs groups {broker.path} billing orders --reset-to earliest --bootstrap-server HOST:9092 --yes\n"
    assert (code, out) == (1, "") and err.endswith(command) and err.count("\n") == 1
    assert command in groups(broker.path, "billing", "orders", "--reset-to", "earliest")[1].replace("\n  ", " ")
    assert groups(broker.path, "billing", "orders", "--reset-to", "earliest", "--csv")[:2] == (0, "orders,0,0\n")


def test_a_directory_in_use_is_refused(logs: Path, groups: Groups) -> None:
    holder = LogDirectory.open(os.fspath(logs))
    try:
        code, out, err = groups(logs, "billing", "--reset-to", "earliest", "--yes")
    finally:
        holder.close()
    assert code != 0 and out == "" and "in use" in err
    assert committed(logs) == {"orders-0": 40}


@pytest.mark.parametrize(
    "words",
    [
        ("--reset-to", "earliest"),
        ("billing", "--reset-to", "soon"),
        ("billing", "--reset-to", "earliest", "--reset-like", "."),
        ("billing", "orders"),
        ("billing", "--yes"),
        ("billing", "payments", "--reset-to", "earliest"),
    ],
)
def test_wrong_calls_are_one_line(logs: Path, groups: Groups, words: tuple[str, ...]) -> None:
    code, out, err = groups(logs, *words)
    assert (code, out) == (1, "") and err.startswith("offsetfs groups: ") and err.count("\n") == 1


def test_the_page_says_what_a_reset_does() -> None:
    page = (Path(__file__).parents[2] / "docs" / "use" / "answers.md").read_text()
    for promise in (
        "`--reset-like` the place of the group in another directory or cluster.",
        "The plan changes nothing. `--yes` commits it, in a directory that no broker uses and no Kafka broker owns, or",
        "A group with members is refused: stop its consumers.",
    ):
        assert promise in page
