"""The tree through a real mount: what Kafka wrote comes out record for record, and nothing can be changed."""

from __future__ import annotations

import base64
import errno
import filecmp
import hashlib
import json
import mmap
import os
import re
import struct
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fixtures.mounts.left_mounts import unmount

pytestmark = pytest.mark.mount

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
PARTITIONS = sorted(path.name.removesuffix(".expected.ndjson") for path in GOLDEN.glob("*.expected.ndjson"))
FIXED = ["append", "append.ndjson", "append.raw", "by-time", "first", "info", "latest", "next"]
FIXED += ["records.ndjson", "segments", "start", "values"]

Records = list[dict[str, Any]]


def expected(partition: str) -> Records:
    with open(GOLDEN / f"{partition}.expected.ndjson") as lines:
        return [json.loads(line) for line in lines]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def is_value(record: dict[str, Any], value: bytes) -> bool:
    if "value_sha256" in record:
        return (len(value), hashlib.sha256(value).hexdigest()) == (record["value_size"], record["value_sha256"])
    return value == (decoded(record["value_b64"]) or b"")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The golden log directory, mounted read only for all tests of this module."""
    import sys

    point = tmp_path_factory.mktemp("mnt")
    log = tmp_path_factory.mktemp("log")
    subprocess.run(["cp", "-r", f"{GOLDEN}/.", log], check=True)
    run = [sys.executable, "-m", "offsetfs"]
    subprocess.run([*run, "mount", log, point, "-o", "ro,list=all"], check=True)
    try:
        yield point
        errors = (point / ".offsetfs/errors").read_text().splitlines()
        assert [line for line in errors if " lookup " not in line] == []  # names that mean nothing are tried
    finally:
        unmount(point)


def errno_of(act: Callable[[], object]) -> str | None:
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno or 0]  # EOPNOTSUPP goes by its other name, ENOTSUP
    return None


# --- records -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_record_is_a_file_with_its_value_its_time_and_its_attributes(tree: Path, partition: str) -> None:
    for record in expected(partition):
        path = tree / partition / str(record["offset"])
        assert is_value(record, path.read_bytes()), path
    records = expected(partition)
    for record in records[:: len(records) // 500 + 1]:
        path = tree / partition / str(record["offset"])
        status = path.stat()
        assert status.st_mtime_ns == record["timestamp"] * 1_000_000
        assert status.st_size == len(path.read_bytes())
        assert (status.st_blocks, status.st_nlink, status.st_mode & 0o777) == (0, 1, 0o440)
        attributes = {name.removeprefix("user.kafka."): os.getxattr(path, name) for name in os.listxattr(path)}
        assert attributes["offset"] == b"%d" % record["offset"]
        assert attributes["timestamp"] == b"%d" % record["timestamp"]
        assert attributes["timestamp-type"].decode() == record["timestamp_type"]
        assert attributes.get("key") == decoded(record["key_b64"])
        headers = [(name.encode(), decoded(value) or b"") for name, value in record["headers"]]
        assert attributes.get("headers", b"") == b"".join(name + b": " + value + b"\n" for name, value in headers)
        is_null = "value_b64" in record and record["value_b64"] is None
        assert attributes["null"] == (b"1" if is_null else b"0")


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_listing_shows_exactly_the_records_with_their_sizes_and_times(tree: Path, partition: str) -> None:
    records = {str(record["offset"]): record for record in expected(partition)}
    with os.scandir(tree / partition) as entries:
        listed = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
    fixed = set(FIXED) - (set() if records else {"first", "latest"})
    assert set(listed) - fixed == set(records)
    assert fixed <= set(listed)
    for name, record in records.items():
        assert listed[name].st_mtime_ns == record["timestamp"] * 1_000_000
        assert listed[name].st_size == (tree / partition / name).stat().st_size


@pytest.mark.parametrize("partition", PARTITIONS)
def test_values_is_every_value_and_a_newline(tree: Path, partition: str) -> None:
    names = [str(record["offset"]) for record in expected(partition)]
    joined = b"".join((tree / partition / name).read_bytes() + b"\n" for name in names)
    values = tree / partition / "values"
    assert values.stat().st_size == len(joined)
    assert values.read_bytes() == joined
    if joined:
        with open(values, "rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as mapped:
            assert bytes(mapped) == joined


@pytest.mark.parametrize("partition", PARTITIONS)
def test_ends_and_numbers_are_the_brokers(tree: Path, partition: str) -> None:
    bounds = json.loads((GOLDEN / f"{partition}.bounds.json").read_text())
    offsets = [record["offset"] for record in expected(partition)]
    directory = tree / partition
    start, following = int((directory / "start").read_text()), int((directory / "next").read_text())
    info = json.loads((directory / "info").read_text())
    assert (info["log_start_offset"], info["next_offset"]) == (start, following)
    assert (start, following) == (bounds["log_start_offset"], bounds["high_watermark"])
    if offsets:
        assert os.readlink(directory / "first") == str(offsets[0])
        assert os.readlink(directory / "latest") == str(offsets[-1])
    else:
        assert not os.path.lexists(directory / "first") and not os.path.lexists(directory / "latest")


def test_a_name_of_twenty_digits_is_the_same_file(tree: Path) -> None:
    short, long = tree / "keyed-0/7", tree / "keyed-0/00000000000000000007"
    assert short.samefile(long)


def test_a_record_is_seekable_and_can_be_mapped(tree: Path) -> None:
    largest = max(expected("codec-none-0"), key=lambda record: len(record.get("value_b64") or ""))
    value = decoded(largest["value_b64"])
    assert value is not None
    with open(tree / "codec-none-0" / str(largest["offset"]), "rb") as file:
        file.seek(len(value) // 2)
        assert file.read() == value[len(value) // 2 :]
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            assert bytes(mapped) == value


@pytest.mark.parametrize(
    "name", ["400", "999999999999", "9223372036854775807", "9223372036854775808", "-1", "007", "0x1", "nothing", "42.x"]
)
def test_what_is_not_there_is_not_found(tree: Path, name: str) -> None:
    assert errno_of(lambda: os.stat(tree / "codec-zstd-0" / name)) == "ENOENT"


def test_gaps_control_batches_and_offsets_below_the_start_are_not_found(tree: Path) -> None:
    for partition in ("compacted-0", "compacted-tx-0", "transactions-0", "retained-0", "truncated-head-0"):
        offsets = {record["offset"] for record in expected(partition)}
        missing = [offset for offset in range(max(offsets) + 3) if offset not in offsets]
        assert missing
        for offset in missing:
            assert errno_of(partial(os.stat, tree / partition / str(offset))) == "ENOENT", offset


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("user.other", "ENODATA"),
        ("user.kafka.other", "ENODATA"),
        ("security.selinux", "ENOTSUP"),
        ("system.posix_acl_access", "ENOTSUP"),
        ("trusted.x", "ENOTSUP"),
    ],
)
@pytest.mark.parametrize("path", ["keyed-0/7", "keyed-0/values", "keyed-0", ""])
def test_other_extended_attributes_are_refused_at_once(tree: Path, path: str, name: str, answer: str) -> None:
    assert errno_of(lambda: os.getxattr(tree / path, name)) == answer
    if path != "keyed-0/7":
        assert os.listxattr(tree / path) == []


# --- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [name for name in PARTITIONS if name != "empty-0"])
def test_the_calendar_has_the_defined_days_and_links_to_first_records(tree: Path, partition: str) -> None:
    records = [(record["offset"], record["timestamp"]) for record in expected(partition)]

    def first(timestamp: int) -> tuple[int, int] | None:
        return next(((offset, time) for offset, time in records if time >= timestamp), None)

    minutes = {}
    for minute in sorted({time // 60_000 for _, time in records if time >= 0}):
        found = first(minute * 60_000)
        if found is not None and found[1] < (minute + 1) * 60_000:
            minutes[datetime.fromtimestamp(minute * 60, UTC).strftime("%Y/%m/%d/%H/%M")] = found[0]
    root = tree / partition / "by-time"
    listed = [Path(path, name).relative_to(root) for path, _, names in os.walk(root) for name in names]
    assert {str(path) for path in listed} == set(minutes)
    for path, offset in minutes.items():
        assert os.readlink(root / path) == f"../../../../../{offset}"
        assert (root / path).samefile(tree / partition / str(offset))


def test_any_time_is_a_name(tree: Path) -> None:
    records = expected("segments-0")
    directory = tree / "segments-0/by-time"
    for record in records[:: len(records) // 20]:
        time = record["timestamp"]
        target = next(each["offset"] for each in records if each["timestamp"] >= time)
        instant = datetime.fromtimestamp(time / 1000, UTC)
        for name in (
            f"@{time // 1000}.{time % 1000:03d}",
            instant.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time % 1000:03d}",
            instant.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time % 1000:03d}Z",
        ):
            assert os.readlink(directory / name) == f"../{target}"
            assert (directory / name).samefile(tree / "segments-0" / str(target))
    for name in ("2099-01-01", "@99999999999"):
        assert errno_of(partial(os.lstat, directory / name)) == "ENOENT", name
    for name in ("2026-13-01", "yesterday"):
        assert errno_of(partial(os.lstat, directory / name)) == "EINVAL", name
    for name in ("2026/13", "2026/02/30", "1969"):
        assert errno_of(partial(os.lstat, directory / name)) in ("ENOENT", "EINVAL"), name
    assert os.readlink(directory / "1971-01-01") == f"../{records[0]['offset']}"


# --- real files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", PARTITIONS)
def test_segments_are_the_real_files(tree: Path, partition: str) -> None:
    real = GOLDEN / partition
    names = sorted(
        path.name
        for path in real.iterdir()
        if re.fullmatch(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)", path.name)
    )
    assert sorted(os.listdir(tree / partition / "segments")) == names
    for name in names:
        shown = tree / partition / "segments" / name
        assert filecmp.cmp(shown, real / name, shallow=False)
        assert shown.stat().st_size == (real / name).stat().st_size


def test_disk_usage_is_that_of_the_segments(tree: Path) -> None:
    used = subprocess.run(["du", "-sk", tree / "wide-0"], check=True, capture_output=True).stdout
    blocks = sum(path.stat().st_blocks for path in (tree / "wide-0/segments").iterdir())
    assert int(used.split()[0]) == blocks // 2
    assert os.statvfs(tree).f_blocks > 0


# --- the shell -----------------------------------------------------------------------------------------------------


def shell(tree: Path, command: str) -> str:
    return subprocess.run(["bash", "-c", command], cwd=tree, check=True, capture_output=True).stdout.decode(
        errors="surrogateescape"
    )


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (
            "ls",
            "\n".join(["README", *sorted(["groups", "topics", *(p.name for p in GOLDEN.iterdir() if p.is_dir())])])
            + "\n",
        ),
        ("cat keyed-0/start keyed-0/next", "0\n93\n"),
        ("wc -l < keyed-0/values", "93\n"),
        ("grep -c key-17 keyed-0/values", None),
        ("tail -n 3 keyed-0/values", None),
        ("tail -c 20 keyed-0/values", None),
        ("dd if=keyed-0/values bs=7 skip=9 count=3 2>/dev/null", None),
        ("tar cf - keyed-0/values | tar xOf -", None),
    ],
)
def test_the_usual_tools_work(tree: Path, tmp_path: Path, command: str, answer: str | None) -> None:
    if answer is None:  # the same on a plain copy
        (tmp_path / "keyed-0").mkdir()
        (tmp_path / "keyed-0/values").write_bytes((tree / "keyed-0/values").read_bytes())
        answer = shell(tmp_path, command)
    assert shell(tree, command) == answer


def test_a_recursive_grep_ends(tree: Path) -> None:
    found = shell(tree, "grep -rlc key-17 . | wc -l")
    assert int(found) > 5


def test_the_control_directory_is_known_by_name_only(tree: Path) -> None:
    assert ".offsetfs" not in os.listdir(tree)
    assert os.listdir(tree / ".offsetfs") == []
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", (tree / ".offsetfs/version").read_text())
    assert "cat orders-0/42" in (tree / "README").read_text()


@pytest.mark.parametrize("path", ["", "keyed-0", "keyed-0/by-time", "keyed-0/segments", ".offsetfs"])
def test_a_listing_can_be_resumed_anywhere(tree: Path, path: str) -> None:
    names = os.listdir(tree / path)
    assert len(names) == len(set(names))
    assert os.listdir(tree / path) == names


# --- what is refused -----------------------------------------------------------------------------------------------

WRITING = [
    ("write a record", lambda d: os.open(d / "7", os.O_WRONLY), "EPERM"),
    ("truncate a record", lambda d: os.truncate(d / "7", 0), "EPERM"),
    ("append to values", lambda d: os.open(d / "values", os.O_WRONLY | os.O_APPEND), "EPERM"),
    ("make a file", lambda d: os.open(d / "new", os.O_WRONLY | os.O_CREAT), "EPERM"),
    ("make a record", lambda d: os.open(d / "1000", os.O_WRONLY | os.O_CREAT), "EPERM"),
    ("make a directory", lambda d: os.mkdir(d / "sub"), "EPERM"),
    ("make a link", lambda d: os.link(d / "7", d / "new"), "EPERM"),
    ("make a symlink", lambda d: os.symlink("7", d / "new"), "EPERM"),
    ("make a fifo", lambda d: os.mkfifo(d / "new"), "EPERM"),
    ("remove a record", lambda d: os.unlink(d / "7"), "EPERM"),
    ("remove values", lambda d: os.unlink(d / "values"), "EPERM"),
    ("remove a partition", lambda d: os.rmdir(d), "EPERM"),
    ("rename a record", lambda d: os.rename(d / "7", d / "8"), "EPERM"),
    ("rename a partition", lambda d: os.rename(d, d.parent / "other-0"), "EPERM"),
    ("change a mode", lambda d: os.chmod(d / "7", 0o600), "EPERM"),
    ("change an owner", lambda d: os.chown(d / "7", 1, 1), "EPERM"),
    ("change a time", lambda d: os.utime(d / "7", (0, 0)), "EPERM"),
    ("set an attribute", lambda d: os.setxattr(d / "7", "user.kafka.key", b"x"), "EPERM"),
    ("remove an attribute", lambda d: os.removexattr(d / "7", "user.kafka.key"), "EPERM"),
    ("write a segment", lambda d: os.open(d / "segments/00000000000000000000.log", os.O_RDWR), "EPERM"),
    ("remove a segment", lambda d: os.unlink(d / "segments/00000000000000000000.log"), "EPERM"),
    ("truncate append to something", lambda d: os.truncate(d / "append", 5), "EINVAL"),
    ("make a partition", lambda d: os.mkdir(d.parent / "new-0"), "EPERM"),
]


@pytest.mark.parametrize(("act", "answer"), [case[1:] for case in WRITING], ids=[case[0] for case in WRITING])
def test_nothing_can_be_changed(writable: Path, act: Callable[[Path], object], answer: str) -> None:
    assert errno_of(lambda: act(writable / "keyed-0")) == answer


@pytest.mark.parametrize("act", [case[1] for case in WRITING], ids=[case[0] for case in WRITING])
def test_a_read_only_mount_reports_that_it_is_read_only(tree: Path, act: Callable[[Path], object]) -> None:
    assert errno_of(lambda: act(tree / "keyed-0")) == "EROFS"


def test_append_of_a_read_only_mount_cannot_be_opened_for_writing(tree: Path) -> None:
    assert errno_of(lambda: os.open(tree / "keyed-0/append", os.O_WRONLY | os.O_APPEND)) == "EROFS"
    assert (tree / "keyed-0/append").read_bytes() == b""


@pytest.fixture(scope="module")
def writable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A writable mount without `create`, for tests that change nothing."""
    import sys

    point = tmp_path_factory.mktemp("mnt")
    log = tmp_path_factory.mktemp("log")
    subprocess.run(["cp", "-r", f"{GOLDEN}/.", log], check=True)
    run = [sys.executable, "-m", "offsetfs"]
    subprocess.run([*run, "mount", log, point], check=True)
    try:
        yield point
    finally:
        unmount(point)


# --- growing -------------------------------------------------------------------------------------------------------


def test_what_is_appended_is_seen_everywhere(mount: Callable[..., Any], lasting_copy: Path) -> None:
    directory = mount(lasting_copy).path / "keyed-0"
    size = (directory / "values").stat().st_size
    with open(directory / "values", "rb") as values:
        before = values.read()
        assert len(before) == size and values.read() == b""
        for number in range(3):
            with open(directory / "append", "wb") as append:
                append.write(b"one %d\ntwo\n" % number)
            assert values.read() == b"one %d\ntwo\n" % number
            assert int((directory / "next").read_text()) == 95 + 2 * number
            assert os.readlink(directory / "latest") == str(94 + 2 * number)
            assert (directory / "latest").read_bytes() == b"two"
            assert (directory / str(93 + 2 * number)).read_bytes() == b"one %d" % number
    assert shell(directory, "tail -n 2 values") == "one 2\ntwo\n"
    assert str(98) in os.listdir(directory)


def test_tail_follows_values(mount: Callable[..., Any], lasting_copy: Path) -> None:
    directory = mount(lasting_copy).path / "keyed-0"
    with subprocess.Popen(["tail", "-n", "1", "-f", directory / "values"], stdout=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        last = tail.stdout.readline()
        assert last == (directory / "latest").read_bytes() + b"\n"
        (directory / "append").write_bytes(b"new\n")
        assert tail.stdout.readline() == b"new\n"
        tail.kill()


def test_an_empty_partition_has_no_ends_until_something_is_appended(mount: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    root = mount(tmp_path / "log", "create").path
    os.mkdir(root / "new-7")
    directory = root / "new-7"
    assert sorted(os.listdir(directory)) == [name for name in FIXED if name not in ("first", "latest")]
    assert (directory / "values").read_bytes() == b""
    assert os.listdir(directory / "by-time") == []
    (directory / "append").write_bytes(b"a\n\nb\n")
    assert sorted(os.listdir(directory)) == ["0", "1", "2", *FIXED]
    assert (directory / "values").read_bytes() == b"a\n\nb\n"
    assert errno_of(lambda: os.mkdir(directory)) == "EEXIST"
    for name in ("bad", "-1", "a b-0", "a-01", "a--", "x" * 250 + "-0"):
        assert errno_of(partial(os.mkdir, root / name)) == "EINVAL", name
    assert os.listdir(root) == ["README", "topics", "new-7"]


@pytest.mark.parametrize(
    ("option", "count"), [("none", 0), ("1", 1), ("10", 10), ("92", 92), ("1000", 93), ("all", 93)]
)
def test_the_option_list_bounds_a_listing_to_the_newest(
    mount: Callable[..., Any], golden_copy: Path, option: str, count: int
) -> None:
    names = os.listdir(mount(golden_copy, f"ro,list={option}").path / "keyed-0")
    records = sorted(int(name) for name in names if name.isdigit())
    assert records == list(range(93 - count, 93))


@pytest.mark.parametrize("partition", ["compacted-0", "compacted-tx-0", "transactions-0", "segments-0"])
def test_gaps_do_not_shorten_a_listing(mount: Callable[..., Any], golden_copy: Path, partition: str) -> None:
    names = os.listdir(mount(golden_copy, "ro,list=20").path / partition)
    offsets = [record["offset"] for record in expected(partition)]
    assert sorted(int(name) for name in names if name.isdigit()) == offsets[-20:]


# --- damage --------------------------------------------------------------------------------------------------------


def batches_of(log: Path) -> list[tuple[int, int, int, int]]:
    """Return (position, size, base offset, last offset) of each batch."""
    data, position, found = log.read_bytes(), 0, []
    while position < len(data):
        base, length = struct.unpack_from(">qi", data, position)
        (delta,) = struct.unpack_from(">i", data, position + 23)
        found.append((position, length + 12, base, base + delta))
        position += length + 12
    return found


def change(path: Path, position: int, new: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(new)


DAMAGE = {
    "a record": (70, b"\xff\xfe", "EBADMSG"),
    "the checksum": (17, b"\0\0\0\0", "EBADMSG"),
    "the magic": (16, b"\x07", "EUCLEAN"),
    "a size too small": (8, b"\0\0\0\x20", "EUCLEAN"),
    "a size too large": (8, b"\x00\x7f\xff\xff", None),
    "the magic of an old format": (16, b"\x01", "EBADMSG"),
}


@pytest.mark.damages
@pytest.mark.parametrize("partition", ["codec-none-0", "codec-zstd-0", "segments-0"])
@pytest.mark.parametrize(("at", "new", "answer"), DAMAGE.values(), ids=list(DAMAGE))
def test_a_damaged_batch_fails_alone(
    mount: Callable[..., Any], golden_copy: Path, partition: str, at: int, new: bytes, answer: str | None
) -> None:
    records = expected(partition)
    log = golden_copy / partition / "00000000000000000000.log"
    batches = batches_of(log)
    position, _, base, last = next(batch for batch in batches[len(batches) // 2 :] if batch[3] > batch[2])
    change(log, position + at, new)
    mounted = mount(golden_copy, "ro,list=all,damage=skip", faulty=True)
    directory = mounted.path / partition
    lost = [record for record in records if base <= record["offset"] <= last]
    kept = [record for record in records if not base <= record["offset"] <= last]
    assert lost and kept
    listed = set(os.listdir(directory))
    for record in kept:
        path = directory / str(record["offset"])
        assert is_value(record, path.read_bytes()), path
        assert path.name in listed
    for record in lost:
        path = directory / str(record["offset"])
        assert path.name in listed
        for act in (path.stat, path.read_bytes):
            assert errno_of(act) in ((answer,) if answer else ("EBADMSG", "EUCLEAN")), path
    values = b"".join((directory / str(record["offset"])).read_bytes() + b"\n" for record in kept)
    assert (directory / "values").read_bytes() == values
    assert (directory / "segments" / log.name).read_bytes() == log.read_bytes()
    story = mounted.errors()
    assert f"{log}, position {position}" in story, story
    for name in ("first", "latest", "info"):
        assert os.path.lexists(directory / name)
