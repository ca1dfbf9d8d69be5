"""fio reads a segment through a mount and finds each of its blocks whole, where it belongs.

fio verifies what it wrote itself: blocks with a header that shows offset and CRC-32C. Such a file lies in the place of
a segment; that it is no Kafka log does not matter, for `segments` shows the bytes of files whatever they are.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.mount

NAME = "00000000000000000000.log"
NEXT = "00000000000000001000.log"
"""The active segment: what may grow has no shared mapping."""

COMMON = (
    "--name=segment",
    "--size=4m",
    "--bs=16k",
    "--verify=crc32c",
    "--verify_fatal=1",
    "--verify_state_save=0",  # it would be a file in the current directory
    "--output=/dev/null",
)

READS = {
    "from the beginning to the end": ("--rw=read", "--ioengine=psync"),
    "anywhere": ("--rw=randread", "--ioengine=psync", "--randseed=1"),
    "through a mapping": ("--rw=randread", "--ioengine=mmap", "--randseed=2"),
    "past the page cache": ("--rw=randread", "--ioengine=psync", "--direct=1", "--randseed=3"),
    "with many requests at once": ("--rw=randread", "--ioengine=libaio", "--iodepth=16", "--direct=1", "--randseed=4"),
    "by four at once": ("--rw=randread", "--ioengine=psync", "--numjobs=4", "--randseed=5"),
}


def fio(file: Path, *words: str) -> int:
    return subprocess.run(["fio", *COMMON, f"--filename={file}", *words], capture_output=True, timeout=60).returncode


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A file that fio wrote, in the place of a segment."""
    path = tmp_path / "log" / "orders-0" / NAME
    path.parent.mkdir(parents=True)
    assert fio(path, "--rw=write", "--ioengine=psync", "--do_verify=0") == 0
    (path.parent / NEXT).touch()
    return path


@pytest.mark.damages
def test_every_block_is_whole_and_where_it_belongs(mount: Callable[..., Any], segment: Path) -> None:
    shown = mount(segment.parents[1], "ro", faulty=True).path / "orders-0" / "segments" / NAME
    for how, words in READS.items():
        assert fio(shown, "--readonly", *words) == 0, how


@pytest.mark.damages
def test_a_block_that_is_not_is_found(mount: Callable[..., Any], segment: Path) -> None:
    with segment.open("r+b") as file:
        file.seek(3_000_000)
        file.write(b"\xff\xfe\xfd")
    shown = mount(segment.parents[1], "ro", faulty=True).path / "orders-0" / "segments" / NAME
    assert fio(shown, "--readonly", *READS["anywhere"]) != 0
