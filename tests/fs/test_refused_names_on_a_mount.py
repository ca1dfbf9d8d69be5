"""Names that a user types into a mount: times, keys of any bytes, and the reasons why a name is refused."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.mounts.left_mounts import unmount

pytestmark = pytest.mark.mount

OFFSETFS = [sys.executable, "-m", "offsetfs"]


def offsetfs(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*OFFSETFS, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def mnt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("names")
    for name in ("log", "mnt"):
        (place / name).mkdir()
    assert offsetfs("create", place / "log", "orders").returncode == 0
    assert offsetfs("mount", place / "log", place / "mnt", "-o", "create").returncode == 0
    (place / "mnt/orders-0/append").write_text("one\ntwo\n")
    yield place / "mnt"
    unmount(place / "mnt")


def last_error(mnt: Path) -> str:
    return (mnt / ".offsetfs/errors").read_text().splitlines()[-1]


@pytest.mark.parametrize("name", ["-1w", "-1h30m", "-15m", "2026-11-20 18:40:01", "2026-11-20T18:40"])
def test_a_time_is_read_in_each_of_its_spellings(mnt: Path, name: str) -> None:
    assert (mnt / "orders-0/by-time" / name).read_bytes() == b"one"
    assert (mnt / "orders-0/range" / f"{name}..").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize(
    "name", ["by-time/yesterday", "by-time/2026-13-45", "follow@soon", "range/soon..", "range/1..2w"]
)
def test_a_time_that_cannot_be_read_is_einval_and_explains_itself(mnt: Path, name: str) -> None:
    with pytest.raises(OSError) as raised:
        (mnt / "orders-0" / name).stat()
    assert raised.value.errno == errno.EINVAL
    line = last_error(mnt)
    assert " EINVAL lookup orders-0" in line and "is not a " in line and "; write " in line


def test_a_time_after_the_last_record_is_still_not_there(mnt: Path) -> None:
    with pytest.raises(FileNotFoundError):
        (mnt / "orders-0/by-time/2099-01-01").stat()
    with pytest.raises(FileNotFoundError):
        (mnt / "orders-0/by-time/.hidden").stat()


def test_mkdir_of_a_topic_explains_itself(mnt: Path) -> None:
    with pytest.raises(OSError) as raised:
        (mnt / "payments").mkdir()
    assert raised.value.errno == errno.EINVAL
    assert " EINVAL mkdir payments: 'payments' is a topic; give TOPIC-PARTITION, such as payments-0" in last_error(mnt)


def test_a_commit_to_no_partition_or_beyond_its_end_is_refused(mnt: Path) -> None:
    (mnt / "groups/g").mkdir()
    for name, offset, code, reason in (
        ("orders-7", "0", errno.EINVAL, "there is no partition orders-7"),
        ("orders-0", "3", errno.ERANGE, "offset 3 is beyond the end of orders-0, 2"),
    ):
        with pytest.raises(OSError) as raised, open(mnt / "groups/g" / name, "w", buffering=1) as file:
            file.write(f"{offset}\n")
        assert raised.value.errno == code
        assert reason in last_error(mnt)
    (mnt / "groups/g/orders-0").write_text("2\n")
    assert (mnt / "groups/g/orders-0").read_text() == "2\n"


def test_the_empty_key_and_keys_of_any_bytes_have_names(mnt: Path) -> None:
    lines = '{"key":"","value":"nothing"}\n{"key_b64":"/w==","value":"high"}\n{"key":"a/b%","value":"odd"}\n'
    (mnt / "orders-0/append.ndjson").write_text(lines)
    by_key = mnt / "orders-0/by-key"
    assert (by_key / "%").read_bytes() == b"nothing"
    assert (by_key / "%FF").read_bytes() == b"high" == Path(os.fsdecode(os.fsencode(by_key) + b"/\xff")).read_bytes()
    assert (by_key / "a%2Fb%25").read_bytes() == b"odd"


def test_follow_states_which_starts_there_are(mnt: Path) -> None:
    done = offsetfs("follow", mnt.parent / "log", "orders-0", "--from", "yesterday")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "offsetfs follow: --from yesterday: give an offset (42), the newest N (-10), or a time"
    )


@pytest.mark.parametrize(
    ("call", "path", "line"),
    [
        (
            os.mkdir,
            "topics/payments",
            " EPERM mkdir topics/payments: a topic has partitions; mkdir payments-0 in the root",
        ),
        (
            os.rmdir,
            "topics/orders",
            " EPERM rmdir topics/orders: a topic has partitions; with -o delete, rmdir orders-*",
        ),
        (os.unlink, "orders-0/values", " EPERM unlink orders-0: its files are not removed one by one; with -o delete,"),
    ],
)
def test_what_is_removed_or_made_in_another_way_has_one_line(
    mnt: Path, call: Callable[[Path], None], path: str, line: str
) -> None:
    for _ in range(2):
        with pytest.raises(PermissionError):
            call(mnt / path)
    assert line in last_error(mnt) and last_error(mnt).endswith("(2 times)")


def test_a_group_that_cannot_be_made_names_the_missing_option(tmp_path: Path) -> None:
    for name in ("log", "mnt"):
        (tmp_path / name).mkdir()
    assert offsetfs("create", tmp_path / "log", "orders").returncode == 0
    assert offsetfs("mount", tmp_path / "log", tmp_path / "mnt").returncode == 0
    try:
        with pytest.raises(PermissionError):
            (tmp_path / "mnt/groups/billing").mkdir()
        assert last_error(tmp_path / "mnt").endswith(
            " EPERM mkdir groups/billing: the option create was not given; use -o create"
        )
    finally:
        unmount(tmp_path / "mnt")
