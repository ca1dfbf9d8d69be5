"""`topics/<topic>/values` and `records.ndjson` on a real mount, and without one: what commands make of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]


@pytest.fixture
def mounted(mount: Mount, tmp_path: Path) -> Any:
    """A mount where `orders` has three partitions with the records `<partition>:0` to `<partition>:999`."""
    (tmp_path / "log").mkdir()
    made = mount(tmp_path / "log", "create,delete")
    for number in range(3):
        (made.path / f"orders-{number}").mkdir()
        append(made.path, number, *range(1000))
    return made


def append(root: Path, partition: int, *numbers: int) -> None:
    with (root / f"orders-{partition}" / "append").open("ab", buffering=0) as file:
        file.write(b"".join(b"%d:%d\n" % (partition, number) for number in numbers))


def shell(topic: Path, command: str) -> str:
    return subprocess.run(["bash", "-c", command], cwd=topic, capture_output=True, text=True, check=True).stdout


def expected(*ends: int) -> str:
    return "".join(f"{partition}:{number}\n" for partition, end in enumerate(ends) for number in range(end))


def test_commands_read_it_as_any_file(mounted: Any) -> None:
    topic = mounted.path / "topics" / "orders"
    whole = expected(1000, 1000, 1000)
    assert shell(topic, "cat values") == whole and shell(topic, "stat -c %s values") == f"{len(whole)}\n"
    assert shell(topic, "wc -lc < values").split() == ["3000", str(len(whole))]
    assert shell(topic, "head -n 1 values; tail -n 2 values") == "0:0\n2:998\n2:999\n"
    assert shell(topic, "grep -c '^1:' values; tail -c 6 values") == "1000\n2:999\n"
    assert shell(topic, "dd if=values bs=1 skip=6889 count=8 status=none") == whole[6889:6897]
    assert shell(topic, "LESS= less values < /dev/null") == whole
    records = [json.loads(line) for line in shell(topic, "cat records.ndjson").splitlines()]
    assert [f"{each['partition']}:{each['offset']}" for each in records] == whole.split()
    names = ["append", "append.ndjson", "first", "latest", "values", "records.ndjson", "by-time", "range", "last"]
    assert os.listdir(topic) == names


def test_an_open_one_stays_as_it_was_and_the_name_shows_what_came(mounted: Any) -> None:
    topic = mounted.path / "topics" / "orders"
    with open(topic / "values", "rb") as file:
        before = os.fstat(file.fileno())
        append(mounted.path, 0, 1000)
        (mounted.path / "orders-3").mkdir()
        append(mounted.path, 3, 0)
        assert os.fstat(file.fileno()) == before
        assert file.read().decode() == expected(1000, 1000, 1000)
    assert (topic / "values").read_text() == expected(1001, 1000, 1000, 1)


def test_tail_f_shows_the_end_and_nothing_of_what_comes(mounted: Any) -> None:
    topic = mounted.path / "topics" / "orders"
    command = ["tail", "-n", "1", "-f", "values"]
    with subprocess.Popen(command, cwd=topic, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"2:999\n"
        append(mounted.path, 2, 1000)
        assert (mounted.path / "orders-2" / "values").read_text().endswith("2:1000\n")
        os.set_blocking(process.stdout.fileno(), False)
        assert process.stdout.read() is None
        process.terminate()
        process.wait()
    errors = (mounted.path / ".offsetfs/errors").read_text()
    remedy = "use `cat topics/orders/follow`; follow@-10 begins with the newest ten of each partition"
    assert (
        f"topics/orders/values: tail -f prints no later records, because a snapshot does not grow; {remedy}" in errors
    )


def test_tail_without_f_reports_nothing(mounted: Any) -> None:
    assert (
        shell(mounted.path / "topics/orders", "tail -n 1 values; tail -n1 records.ndjson | jq -r .value")
        == "2:999\n" * 2
    )
    assert (mounted.path / ".offsetfs/errors").read_text() == ""


def test_a_read_only_mount_lists_no_append_of_a_topic(mounted: Any, mount: Mount) -> None:
    assert "append" in os.listdir(mounted.path / "topics/orders")
    beside = mount(mounted.log, "ro").path / "topics/orders"
    assert not [name for name in os.listdir(beside) if name.startswith("append")]
    with pytest.raises(OSError, match="Read-only file system"):
        (beside / "append").open("ab")


def test_a_read_only_mount_beside_it_and_the_commands_show_the_same_bytes(mounted: Any, mount: Mount) -> None:
    beside = mount(mounted.log, "ro").path
    for name in ("values", "records.ndjson"):
        here = (mounted.path / "topics/orders" / name).read_bytes()
        assert (beside / "topics/orders" / name).read_bytes() == here
        run = [sys.executable, "-m", "offsetfs"]
        assert subprocess.run([*run, "cat", mounted.log, f"topics/orders/{name}"], stdout=-1).stdout == here
        listed = subprocess.run([*run, "ls", "-l", mounted.log, f"topics/orders/{name}"], stdout=-1, text=True).stdout
        assert listed.split()[3] == str(len(here)) and listed.endswith(f"topics/orders/{name}\n")


def test_only_what_is_committed_is_shown_where_that_was_asked_for(mount: Mount, golden: Path, tmp_path: Path) -> None:
    """The golden log of a broker has transactions that were aborted, and one that is open."""
    for isolation in ("read_committed", "read_uncommitted"):
        path = mount(golden, f"ro,damage=skip,isolation={isolation}").path
        for topic in sorted(os.listdir(path / "topics")):
            parts = sorted(
                (each for each in path.iterdir() if each.name.rpartition("-")[0] == topic),
                key=lambda each: int(each.name.rpartition("-")[2]),
            )
            for name in ("values", "records.ndjson"):
                assert (path / "topics" / topic / name).read_bytes() == b"".join(
                    (part / name).read_bytes() for part in parts
                ), (topic, name)
