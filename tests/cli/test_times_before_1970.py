"""Commands refuse a time before 1970: Kafka cannot look it up, and negative timestamps have other meanings."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import offsetfs
from offsetfs.cli import run

pytestmark = pytest.mark.unit

EARLY = "1969-12-31"


def test_each_command_refuses_a_time_before_1970(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with offsetfs.open(tmp_path, "a") as directory:
        (partition,) = directory.create("orders", 1)
        partition.extend([offsetfs.NewRecord(b"v", timestamp=5), offsetfs.NewRecord(b"v", timestamp=-1)])
    logs, log = str(tmp_path), str(tmp_path / "orders-0" / "00000000000000000000.log")
    for words in (
        ["find", logs, "orders", "--from", EARLY],
        ["find", logs, "orders", "--to", EARLY],
        ["find", logs, "orders", "--from", "-99999w"],
        ["dump", "--from", EARLY, log],
        ["restore", logs, "127.0.0.1:1", "--from", EARLY],
        ["restore", logs, "127.0.0.1:1", "--to", EARLY],
        ["follow", logs, "orders", "--from", EARLY, "--to", "now"],
        ["groups", logs, "g", "orders", "--reset-to", EARLY],
        ["groups", "kafka://127.0.0.1:1/", "g", "orders", "--reset-to", EARLY],
        ["mirror", "127.0.0.1:1", str(tmp_path / "mirror"), "--from", EARLY],
        ["cat", logs, f"orders-0/range/{EARLY}.."],
        ["cat", logs, f"orders-0/by-time/{EARLY}"],
        ["cat", logs, f"topics/orders/range/{EARLY}.."],
        ["cat", logs, f"orders-0/follow@{EARLY}"],
    ):
        assert run(words) != 0, words
        output = capsys.readouterr()
        assert output.out == "" and output.err.count("\n") == 1, (words, output)
        assert "is before 1970, where Kafka's times begin" in output.err, (words, output.err)


def test_the_library_refuses_a_time_before_1970(tmp_path: Path) -> None:
    """A record of that time would have the timestamp of a record without one."""
    with offsetfs.open(tmp_path, "a") as directory:
        (partition,) = directory.create("orders", 1)
        early = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
        for act in (
            lambda: partition.append(b"v", timestamp=early),
            lambda: partition.offset_at(early),
            lambda: partition.offset_at(EARLY),
            lambda: list(partition.read(early)),
        ):
            with pytest.raises(ValueError, match="before 1970, where Kafka's times begin"):
                act()
