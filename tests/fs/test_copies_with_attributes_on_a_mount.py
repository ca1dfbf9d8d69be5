"""Programs that copy attributes: out of a mount onto a disk, and onto the files that accept records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from left_mounts import unmount

pytestmark = pytest.mark.mount

SIZES_BYTES = (10, 1500, 2500, 3500, 4500, 20_000, 60_000, 70_000)
"""Of a key or a header: on both sides of what is listed, of what ext4 stores and of what the kernel accepts."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    point, log = tmp_path_factory.mktemp("mnt"), tmp_path_factory.mktemp("log")
    run = [sys.executable, "-m", "offsetfs"]
    subprocess.run([*run, "mount", log, point, "-o", "create"], check=True)
    yield point
    unmount(point)


def fill(partition: Path) -> None:
    """Append a record for each size of the key, and one for each size of a header."""
    partition.mkdir()
    for size in SIZES_BYTES:
        header = [{"key": "h", "value": "v" * size}]
        lines = ({"key": "k" * size, "value": "value"}, {"key": "k", "value": "value", "headers": header})
        (partition / "append.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_records_with_long_keys_and_headers_are_copied_with_the_attributes_that_fit(tree: Path, tmp_path: Path) -> None:
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
