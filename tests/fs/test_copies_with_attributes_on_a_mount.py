"""Programs that copy attributes: out of a mount onto a disk, and onto the files that accept records."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.mount

SIZES_BYTES = (10, 1500, 2500, 3500, 4500, 20_000, 60_000, 70_000)
"""Of a key or a header: on both sides of what is listed, of what ext4 stores and of what the kernel accepts."""


def fill(partition: Path) -> None:
    """Append a record for each size of the key, and one for each size of a header."""
    partition.mkdir()
    for size in SIZES_BYTES:
        header = [{"key": "h", "value": "v" * size}]
        lines = ({"key": "k" * size, "value": "value"}, {"key": "k", "value": "value", "headers": header})
        (partition / "append.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_records_with_long_keys_are_copied_with_the_attributes_that_fit(tree: Path, tmp_path: Path) -> None:
    fill(tree / "wide-0")
    copy = shutil.copytree(tree / "wide-0", tmp_path / "copy")
    subprocess.run(["cp", "-a", tree / "wide-0", tmp_path / "cp"], check=True)
    subprocess.run(["rsync", "-aX", f"{tree}/wide-0/", tmp_path / "rsync"], check=True)
    for each in (copy, tmp_path / "cp", tmp_path / "rsync"):
        for offset, size in enumerate(size for size in SIZES_BYTES for _ in ("key", "header")):
            found = set(os.listxattr(each / str(offset)))
            assert found == set(os.listxattr(tree / "wide-0" / str(offset))), (each, offset)
            is_of_header = offset % 2
            assert ("user.kafka.headers" in found) == (is_of_header and size < 3000)
            assert ("user.kafka.key" in found) == (is_of_header or size < 3000)


def test_an_attribute_that_is_not_listed_is_read_by_name(tree: Path) -> None:
    fill(tree / "named-0")
    for offset, size in enumerate(size for size in SIZES_BYTES[:-1] for _ in ("key", "header")):
        record = tree / "named-0" / str(offset)
        name, expected = ("headers", b"h: %s\n" % (b"v" * size)) if offset % 2 else ("key", b"k" * size)
        assert os.getxattr(record, f"user.kafka.{name}") == expected


COPIES = {
    "cp -p": ["cp", "-p"],
    "cp -a": ["cp", "-a"],
    "cp --preserve=all": ["cp", "--preserve=all"],
    "cp --preserve=xattr": ["cp", "--preserve=xattr"],
    "rsync -a --inplace": ["rsync", "-a", "--inplace"],
    "rsync -X --inplace": ["rsync", "-X", "--inplace"],
    "rsync -aA --inplace": ["rsync", "-aA", "--inplace"],
    "rsync -aAX --inplace": ["rsync", "-aAX", "--inplace"],
    "copy2": [sys.executable, "-c", "import shutil, sys; shutil.copy2(sys.argv[1], sys.argv[2])"],
}

CHANGES: tuple[Callable[[Path], None], ...] = (
    lambda path: os.utime(path, (0, 0)),
    lambda path: os.chmod(path, 0o600),
    lambda path: os.chown(path, 1, 1),
)

ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, mode, user)
    for tag, mode, user in ((1, 7, 0xFFFFFFFF), (2, 6, 1), (4, 5, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 1, 0xFFFFFFFF))
)
"""Version 2; then owner, user 1, group, mask and others, as the kernel has them."""

LINES = ['{"value":"one"}', '{"value":"two"}']


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A file with another mode, owner, time, ACL and attributes than those of `append`."""
    path = tmp_path / "lines"
    path.write_text("".join(f"{line}\n" for line in LINES))
    os.utime(path, (1_000_000_000, 1_000_000_000))
    os.setxattr(path, "user.origin", b"here")
    os.chmod(path, 0o751)
    os.setxattr(path, "system.posix_acl_access", ACL)
    if os.geteuid() == 0:
        os.setxattr(path, "trusted.origin", b"here")
        os.setxattr(path, "security.origin", b"here")
        os.chown(path, 1234, 1234)
    return path


def wait_for_records(partition: Path, count: int) -> None:
    """Wait until the partition has `count` records; the last record is stored a moment after the close."""
    for _ in range(60_000):
        if int((partition / "next").read_text()) >= count:
            return
    raise AssertionError((partition / "next").read_text())


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_with_attributes_stores_the_lines_once_and_succeeds(tree: Path, lines: Path, copy: str) -> None:
    topic = copy.replace(" ", "").replace("=", "")
    partition = tree / f"{topic}-0"
    partition.mkdir()
    stored, records = "", 0
    for name in ("append", "append.ndjson", "append.raw", "topics/append", "topics/append.ndjson"):
        directory = tree / "topics" / topic if name.startswith("topics") else partition
        target = directory / name.rpartition("/")[2]
        before = target.stat()
        done = subprocess.run([*COPIES[copy], lines, target], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (name, done.stderr)
        values = {"append.ndjson": "one\ntwo\n", "append.raw": lines.read_text() + "\n"}
        stored += values.get(target.name, lines.read_text())
        records += 1 if target.name == "append.raw" else 2
        wait_for_records(partition, records)
        assert (partition / "values").read_text() == stored, name
        after = target.stat()
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
        assert after.st_mtime != 1_000_000_000
        assert os.listxattr(target) == []


def test_install_is_refused_before_it_stores_a_line(tree: Path, lines: Path) -> None:
    (tree / "installed-0").mkdir()
    done = subprocess.run(["install", lines, tree / "installed-0/append"], capture_output=True, text=True)
    assert done.returncode == 1 and "cannot remove" in done.stderr
    assert (tree / "installed-0/next").read_text() == "0\n"


def test_other_files_that_are_written_keep_refusing_attributes(tree: Path) -> None:
    (tree / "kept-0").mkdir()
    for path in (tree / "kept-0/start", tree / "kept-0/values", tree / ".offsetfs/flush", tree / ".offsetfs/log-level"):
        for change in CHANGES:
            with pytest.raises(PermissionError):
                change(path)
