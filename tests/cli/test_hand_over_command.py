"""`offsetfs hand-over`, as typed."""

from pathlib import Path

import pytest

from offsetfs import cli
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.unit


@pytest.fixture
def ours(tmp_path: Path) -> str:
    path = tmp_path / "ours"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    directory.create_partition(TopicPartition("empty", 0))
    directory.close()
    return str(path)


def test_it_states_what_the_broker_will_find(ours: str, golden_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["hand-over", ours, "empty-0", str(golden_copy)]) == 0
    assert capsys.readouterr().out == "empty-0: empty; start the broker\n"


@pytest.mark.parametrize(
    ("partition", "code", "reported"),
    [
        ("nothing", 1, "has no such topic or partition"),
        ("missing-0", 1, "has no such topic or partition"),
        ("empty-0", 32, "start it, create topic empty, stop it"),
    ],
)
def test_what_cannot_be_handed_over_is_one_sentence_and_an_exit_code(
    ours: str, golden_copy: Path, capsys: pytest.CaptureFixture[str], partition: str, code: int, reported: str
) -> None:
    (golden_copy / "empty-0" / "partition.metadata").unlink()
    assert cli.run(["hand-over", ours, partition, str(golden_copy)]) == code
    error = capsys.readouterr().err
    assert error.startswith("offsetfs hand-over: ") and reported in error and error.count("\n") == 1


def test_create_warns_where_a_broker_would_set_the_partition_aside(
    ours: str, golden_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["create", str(golden_copy), "orders"]) == 0
    assert "moves partitions away that it did not create" in capsys.readouterr().err
    assert cli.run(["create", ours, "orders"]) == 0
    assert capsys.readouterr().err == ""
