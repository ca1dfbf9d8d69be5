"""`offsetfs delete-records`, `truncate` and `delete`: they say what goes, ask, and then it is gone on disk."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from offsetfs.cli import exit_codes, run
from offsetfs.storage.coordinators.consumer_groups import ConsumerGroups
from offsetfs.storage.coordinators.group_records import CommittedOffset, commit_key, commit_value
from offsetfs.storage.coordinators.offsets_topic import partition_of_group
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

ORDERS = TopicPartition("orders", 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Two partitions of orders with the offsets 0 to 9, batches of 0 to 4 and 5 to 9; one of payments, empty."""
    directory = LogDirectory.open(str(tmp_path))
    for number in range(2):
        partition = TopicPartition("orders", number)
        directory.create_partition(partition)
        for _ in range(2):
            builder = BatchBuilder(1 << 16)
            for _ in range(5):
                assert builder.append(None, b"value", (), 1000)
            directory.log(partition).append(builder.seal())
    directory.create_partition(TopicPartition("payments", 0), {"cleanup.policy": "compact"})
    directory.close()
    return str(tmp_path)


def bounds(path: str, partition: TopicPartition = ORDERS) -> tuple[int, int]:
    log = LogDirectory.open(path, read_only=True).log(partition)
    return log.log_start_offset, log.next_offset


# --- delete-records ------------------------------------------------------------------------------------------------


def test_records_below_the_offset_are_deleted(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["delete-records", log, "orders-0=7", "orders-1=-1", "--yes"]) == exit_codes.DONE
    assert capsys.readouterr().out.splitlines() == [
        "orders-0: deletes offsets 0 to 6; 3 records remain",
        "orders-1: deletes offsets 0 to 9; 0 records remain",
        "orders-0: begins at 7",
        "orders-1: begins at 10",
    ]
    assert (bounds(log), bounds(log, TopicPartition("orders", 1))) == ((7, 10), (10, 10))


def test_an_offset_below_the_start_changes_nothing(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["delete-records", log, "orders-0=7", "--yes"]) == exit_codes.DONE
    assert run(["delete-records", log, "orders-0=3", "--yes"]) == exit_codes.DONE
    assert "begins at 7 already; nothing to delete" in capsys.readouterr().out
    assert bounds(log) == (7, 10)


@pytest.mark.parametrize(
    ("wishes", "code", "sentence"),
    [
        (["orders-0"], exit_codes.WRONG_CALL, "orders-0: give TOPIC-PARTITION=OFFSET"),
        (["orders-0=x"], exit_codes.WRONG_CALL, "give TOPIC-PARTITION=OFFSET"),
        (["nothing=5"], exit_codes.WRONG_CALL, "has no such topic or partition"),
        (["orders-0=5", "orders-7=5"], exit_codes.WRONG_CALL, "has no such topic or partition"),
        (["orders-0=5", "orders-1=11"], exit_codes.FAILED, "orders-1=11: the partition contains offsets 0 to 9"),
        (["orders-0=-2"], exit_codes.FAILED, "orders-0=-2: the partition contains offsets 0 to 9"),
        (["payments-0=0"], exit_codes.FAILED, "records are not deleted where cleanup.policy is compact"),
    ],
)
def test_what_cannot_be_deleted_is_refused_before_anything_is(
    log: str, capsys: pytest.CaptureFixture[str], wishes: list[str], code: int, sentence: str
) -> None:
    assert run(["delete-records", log, *wishes, "--yes"]) == code
    assert sentence in capsys.readouterr().err
    assert bounds(log) == (0, 10)


# --- truncate --------------------------------------------------------------------------------------------------------


def test_the_end_is_cut_off_with_the_whole_batch(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["truncate", log, "orders-0", "7", "--yes"]) == exit_codes.DONE
    assert capsys.readouterr().out.splitlines() == [
        "orders-0: removes offsets 5 to 9: offset 7 is inside a batch that begins at 5",
        "orders-0: ends at 5",
    ]
    assert bounds(log) == (0, 5)
    reader = LogDirectory.open(log, read_only=True).log(ORDERS)
    assert [record.offset for each in reader.snapshot() for b in each.batches() for record in b.records()] == [
        *range(5)
    ]


@pytest.mark.parametrize(
    ("offset", "sentence", "left"),
    [
        ("5", "orders-0: removes offsets 5 to 9", (0, 5)),
        ("0", "orders-0: removes offsets 0 to 9: all records", (0, 0)),
        ("10", "orders-0: ends at 10 already; nothing to remove", (0, 10)),
        ("99", "orders-0: ends at 10 already; nothing to remove", (0, 10)),
    ],
)
def test_it_lists_what_will_be_deleted(
    log: str, capsys: pytest.CaptureFixture[str], offset: str, sentence: str, left: tuple[int, int]
) -> None:
    assert run(["truncate", log, "orders-0", offset, "--yes"]) == exit_codes.DONE
    assert capsys.readouterr().out.splitlines()[0] == sentence
    assert bounds(log) == left


@pytest.mark.parametrize("arguments", [["orders-0", "-1"], ["orders-0", "x"], ["orders", "5"], ["orders-0"]])
def test_a_wrong_call_cuts_nothing(log: str, arguments: list[str]) -> None:
    assert run(["truncate", log, *arguments, "--yes"]) == exit_codes.WRONG_CALL
    assert bounds(log) == (0, 10)


# --- delete ----------------------------------------------------------------------------------------------------------


def test_a_topic_goes_with_all_its_partitions_and_settings(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["delete", log, "orders", "payments-0", "--yes"]) == exit_codes.DONE
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "orders-0",
        "orders-1",
        "payments-0",
    ]
    assert not [name for name in os.listdir(log) if name.startswith(("orders", "payments"))]
    directory = LogDirectory.open(log)
    assert directory.partitions() == [] and not directory.config_of("payments").is_compacted
    directory.close()


def test_a_partition_goes_alone(log: str) -> None:
    assert run(["delete", log, "orders-1", "--yes"]) == exit_codes.DONE
    assert sorted(path.name for path in Path(log).iterdir() if path.is_dir()) == ["orders-0", "payments-0"]


def test_a_name_that_means_two_things_is_refused(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkdir(os.path.join(log, "orders-0-0"))  # of a broker: offsetfs create refuses the name
    assert run(["delete", log, "orders-0", "--yes"]) == exit_codes.WRONG_CALL
    assert "orders-0 is a partition and also a topic" in capsys.readouterr().err
    assert run(["delete", log, "orders-0-0", "--yes"]) == exit_codes.DONE
    assert run(["delete", log, "orders-0", "--yes"]) == exit_codes.DONE


def test_committed_offsets_go_with_their_partition(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Once they stayed until they expired, and a new topic of the same name began at them."""
    commit(log)
    assert run(["delete", log, "orders", "--yes"]) == exit_codes.DONE
    assert "deleted 1 committed offset of consumer groups" in capsys.readouterr().out
    assert committed(log) == ["payments-0"]


def test_a_topic_is_deleted_even_if_its_committed_offsets_cannot_be(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part of `__consumer_offsets`: which partition has a group's commits is unknown."""
    commit(log)
    assert run(["delete", log, "__consumer_offsets-0", "--yes"]) == exit_codes.DONE
    capsys.readouterr()
    assert run(["delete", log, "orders", "--yes"]) == exit_codes.DONE
    assert "warning: committed offsets were not deleted, and expire later" in capsys.readouterr().err
    assert committed(log) == ["orders-0", "payments-0"] and not os.path.exists(os.path.join(log, "orders-0"))


def commit(path: str) -> None:
    """Let the group `billing` commit an offset of orders-0 and of payments-0."""
    directory = LogDirectory.open(path)
    home = partition_of_group(directory, "billing", may_create=True, partitions=2)
    builder = BatchBuilder(1 << 16)
    for each in (ORDERS, TopicPartition("payments", 0)):
        builder.append(commit_key("billing", each), commit_value(CommittedOffset(3, -1, "", 1000)), (), 1000)
    directory.log(home).append(builder.seal())
    directory.close()


def committed(path: str) -> list[str]:
    groups = ConsumerGroups(LogDirectory.open(path, read_only=True), print)
    groups.refresh()
    return [str(each.partition) for each in groups.commits(b"billing") or []]


@pytest.mark.parametrize("name", ["order", "orders-2", "..", "orders-0/", ".lock"])
def test_a_name_that_means_nothing_is_refused(log: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["delete", log, "orders-1", name, "--yes"]) == exit_codes.WRONG_CALL
    assert "has no such topic or partition" in capsys.readouterr().err
    assert bounds(log, TopicPartition("orders", 1)) == (0, 10)


# --- all of them -----------------------------------------------------------------------------------------------------

DESTRUCTIVE = [["delete-records", "orders-0=5"], ["truncate", "orders-0", "5"], ["delete", "orders-0"]]
IDS = [arguments[0] for arguments in DESTRUCTIVE]


def call(log: str, arguments: Sequence[str]) -> int:
    return run([arguments[0], log, *arguments[1:]])


@pytest.mark.parametrize("arguments", DESTRUCTIVE, ids=IDS)
def test_without_a_terminal_nothing_is_destroyed_but_with_yes(
    log: str, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert call(log, arguments) == exit_codes.WRONG_CALL
    said = capsys.readouterr()
    assert ": deletes " in said.out or ": removes " in said.out
    assert "nothing changed; add --yes to do it" in said.err
    assert bounds(log) == (0, 10)


@pytest.mark.parametrize("arguments", DESTRUCTIVE, ids=IDS)
@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("", 1), ("y", 0)])
def test_on_a_terminal_it_asks(
    log: str, arguments: list[str], answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    assert call(log, arguments) == code
    is_there = os.path.isdir(os.path.join(log, "orders-0"))
    assert (is_there and bounds(log) == (0, 10)) == (code != 0)


@pytest.mark.parametrize("arguments", DESTRUCTIVE, ids=IDS)
def test_the_other_writer_is_named(log: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    holder = LogDirectory.open(log)
    try:
        assert call(log, [*arguments, "--yes"]) == exit_codes.FAILED
    finally:
        holder.close()
    printed = capsys.readouterr()
    assert f"in use by process {os.getpid()}" in printed.err
    assert printed.out == ""  # no word of a deletion that does not happen
    assert bounds(log) == (0, 10)
