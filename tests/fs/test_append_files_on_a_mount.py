"""`append.ndjson` and `append.raw` of a mount, written by the commands that people use."""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.mount


_topics = itertools.count()


@pytest.fixture
def orders(tree: Path) -> Path:
    """A partition of its own for each test."""
    partition = tree / f"orders{next(_topics)}-0"
    partition.mkdir()
    return partition


def sh(script: str, partition: Path, data: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script in a partition, which has `$DATA` to read from."""
    script = f"ended() {{ until [ $(cat next) = $1 ]; do :; done; }}; {script}"
    environment = {**os.environ, "DATA": str(data), "LC_ALL": "C"}
    return subprocess.run(["sh", "-c", script], cwd=partition, capture_output=True, text=True, env=environment)


def attribute(path: Path, name: str) -> bytes | None:
    try:
        return os.getxattr(path, f"user.kafka.{name}")
    except OSError:
        return None


# --- append.ndjson ---------------------------------------------------------------------------------------------------


def test_a_line_of_json_becomes_a_record_with_key_headers_and_time(orders: Path) -> None:
    line = {"key": "k", "value": "v", "headers": [{"key": "h", "value": "x"}], "timestamp": 1_795_253_676_123}
    assert sh(f"echo '{json.dumps(line)}' >> append.ndjson", orders).returncode == 0
    record = orders / "0"
    assert record.read_bytes() == b"v"
    assert (attribute(record, "key"), attribute(record, "headers")) == (b"k", b"h: x\n")
    assert record.stat().st_mtime_ns == 1_795_253_676_123_000_000


def test_bytes_come_in_base64_and_null_is_a_tombstone(orders: Path) -> None:
    sh("""printf '{"key_b64":"/w==","value_b64":"AAo="}\\n\\n{"key":"k","value":null}\\n' > append.ndjson""", orders)
    assert (orders / "0").read_bytes() == b"\0\n"
    assert attribute(orders / "0", "key") == b"\xff"
    assert attribute(orders / "1", "null") == b"1"
    assert (orders / "next").read_text() == "2\n"


def test_the_wrong_line_is_named_and_what_came_before_it_is_kept(orders: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text('{"value":"a"}\n{"value":"b"}\n{"value":5}\n{"value":"d"}\n')
    done = sh("cat $DATA > append.ndjson", orders, tmp_path / "lines")
    assert done.returncode == 1 and "Invalid argument" in done.stderr
    assert (orders / "values").read_text() == "a\nb\n"
    reported = (
        f"{orders.name}/append.ndjson: line 3, byte 10: a value is a string or null; to take other JSON as its text"
    )
    assert reported in (orders.parent / ".offsetfs/errors").read_text()


def test_after_a_wrong_line_the_next_one_is_taken(orders: Path) -> None:
    script = """exec 3> append.ndjson; echo oops >&3; echo '{"value":"fine"}' >&3"""
    assert "oops" not in sh(script, orders).stdout
    assert (orders / "values").read_text() == "fine\n"


def test_the_rest_of_a_wrong_line_is_never_taken_for_one(orders: Path) -> None:
    fd = os.open(orders / "append.ndjson", os.O_WRONLY)
    codes = []
    for piece in (b"{} {", b'}{"value":', b'"v"}\n', b'{"value":"w"}\n'):
        try:
            os.write(fd, piece)
        except OSError as error:
            codes.append(error.errno)
    os.close(fd)
    assert codes == [errno.EINVAL]
    assert (orders / "values").read_text() == "w\n"


def test_an_unfinished_line_of_json_is_a_record_when_the_file_is_closed(orders: Path) -> None:
    assert sh("""printf '{"value":"a"}\\n{"value":"b"}' > append.ndjson""", orders).returncode == 0
    assert sh("cat append.ndjson; ended 2", orders).stdout == ""
    assert (orders / "values").read_text() == "a\nb\n"


def test_an_unfinished_line_of_json_is_logged(mount: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    mounted = mount(tmp_path / "log", "create", faulty=True)
    (mounted.path / "orders-0").mkdir()
    sh("""printf '{"value":"a"}\\n{"value":' > append.ndjson""", mounted.path / "orders-0")
    mounted.unmount()
    assert b"orders-0/append.ndjson: an unfinished line of 9 bytes is lost" in b"".join(mounted.lines)


def test_offsets_and_each_records_own_time_are_read_back(orders: Path) -> None:
    script = """exec 3<> append.ndjson
    printf '{"timestamp":5}\\n{"timestamp":3}\\n{"timestamp":-1}\\n' >&3
    head -n 3 <&3"""
    assert sh(script, orders).stdout == "0 5\n1 3\n2 -1\n"


def test_a_compacted_topic_takes_records_with_keys_only(mount: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    root = mount(tmp_path / "log", "create,cleanup.policy=compact").path
    users = root / "users-0"
    users.mkdir()
    (tmp_path / "line").write_text('{"value":"1"}\n')
    assert sh("""echo '{"key":"a","value":"1"}' >> append.ndjson""", users).returncode == 0
    for file in ("append", "append.ndjson", "append.raw"):
        assert "Invalid argument" in sh(f"cat $DATA >> {file}", users, tmp_path / "line").stderr
    errors = (root / ".offsetfs/errors").read_text()
    assert "users-0/append.ndjson: line 1, byte 1: a compacted topic takes no record without a key" in errors
    assert (users / "next").read_text() == "1\n"


# --- one writer, many files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        "for i in $(seq 200); do printf $i >> append.raw; done",
        "for i in $(seq 200); do printf $i >> append; done",
        """for i in $(seq 200); do printf '{"value":"%s"}' $i >> append.ndjson; done""",
        "for i in $(seq 1 2 200); do printf $i >> append; echo $((i + 1)) >> append; done",
        "for i in $(seq 200); do printf $i > $DATA; cp $DATA append.raw; done",
        """for i in $(seq 200); do printf '{"value":"%s"}' $i >> ../topics/${PWD##*/}/append.ndjson; done""",
    ],
    ids=["append.raw", "append", "append.ndjson", "unfinished and whole lines", "cp", "a topic"],
)
@pytest.mark.parametrize("options", ["linger-ms=0", "linger-ms=5,batch-bytes=1024"])
def test_a_writer_of_one_file_after_the_other_finds_its_order(
    mount: Callable[..., Any], tmp_path: Path, script: str, options: str
) -> None:
    (tmp_path / "log").mkdir()
    orders = mount(tmp_path / "log", f"create,{options}").path / "orders-0"
    orders.mkdir()
    script = script.replace("${PWD##*/}", "orders")
    assert sh(f"{script}; sync append", orders, tmp_path / "one").returncode == 0
    assert (orders / "values").read_text().split() == [str(number) for number in range(1, 201)]


# --- append.raw ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "cp $DATA append.raw",
        "cat $DATA > append.raw",
        "cat $DATA >> append.raw",
        "dd if=$DATA of=append.raw bs=1000 status=none",
        "dd if=$DATA of=append.raw bs=77777 conv=fsync status=none",
        "dd if=$DATA of=append.raw oflag=append conv=notrunc status=none",
        "tee append.raw < $DATA > /dev/null",
        "(head -c 5; sh -c :; cat) < $DATA > append.raw",
        "cp --sparse=always $DATA append.raw",
    ],
)
def test_a_file_becomes_one_record(orders: Path, tmp_path: Path, command: str) -> None:
    photo = os.urandom(100_000) + b"\n" + bytes(200_000) + b"\n\n" + bytes(100_000)
    (tmp_path / "photo").write_bytes(photo)
    done = sh(f"{command}; ended 1", orders, tmp_path / "photo")
    assert (done.returncode, done.stderr) == (0, "")
    assert (orders / "0").read_bytes() == photo


def test_opening_without_writing_makes_no_record(orders: Path) -> None:
    done = sh(": > append.raw; : >> append.raw; cat append.raw; cp /dev/null append.raw; echo a > append.raw", orders)
    assert (done.returncode, done.stdout) == (0, "")
    sh("ended 1", orders)
    assert (orders / "values").read_text() == "a\n\n"


def test_fsync_ends_a_record_and_has_it_on_disk(orders: Path) -> None:
    with open(orders / "append.raw", "wb", buffering=0) as file:
        file.write(b"one")
        assert (orders / "next").read_text() == "0\n"
        os.fsync(file.fileno())
        assert (orders / "0").read_bytes() == b"one"
        file.write(b"two")
        os.fsync(file.fileno())
        assert (orders / "1").read_bytes() == b"two"
        os.fsync(file.fileno())
    assert (orders / "next").read_text() == "2\n"


def test_the_offset_of_a_raw_record_is_returned(orders: Path) -> None:
    fd = os.open(orders / "append.raw", os.O_RDWR)
    os.write(fd, b"one")
    assert os.read(fd, 100) == b""
    os.fsync(fd)
    assert os.read(fd, 100).split()[0] == b"0"
    os.close(fd)


def test_a_file_above_the_limit_is_refused_by_write_and_leaves_nothing(
    mount: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "log").mkdir()
    orders = mount(tmp_path / "log", "create,max.message.bytes=100000").path / "orders-0"
    orders.mkdir()
    done = sh("head -c 100001 /dev/zero | dd of=append.raw bs=4096 status=none", orders)
    assert done.returncode == 1 and "Message too long" in done.stderr
    assert (orders / "next").read_text() == "0\n"
