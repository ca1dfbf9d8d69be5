"""A partition of a billion records: what people do at once costs the work of what they ask for, and little memory.

Work is what the mount reads and the pages that it touches, since the indexes are mapped. Times are rows of
`scripts/bench`: on a busy machine no round of a thousand may be in time.

The log is sparse: segments of 1 GiB with true indexes, in which few batches can be read, and at the end true records.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsetfs.storage.directory.directory import LogDirectory

sys.path.append(str(Path(__file__).parents[2] / "scripts" / "benchmarks"))

import logs

pytestmark = pytest.mark.mount

SEGMENTS = 104
RECORDS = 1_000_000_000
LISTED = 10_000
LOOK_UP_BYTES_MAX = 16 << 20
"""What a look-up may read or touch, seven times what was seen; the indexes of the log have 100 MiB."""
LISTING_BYTES_MAX = 32 << 20
"""The same for 10,000 names."""


@pytest.fixture
def billion(tmp_path: Path) -> Path:
    path: Path = logs.sparse(tmp_path / "log", SEGMENTS, 100).directory
    directory = LogDirectory.open(str(path))
    log = directory.log(logs.PARTITION)
    assert log.next_offset > RECORDS
    end = log.next_offset + LISTED
    while log.next_offset < end:
        log.append(logs.full_batch())
    directory.close()
    return path


def work_bytes(pid: int) -> int:
    """Return the bytes that a process has read, and those of the pages that it has touched for the first time."""
    read = next(
        int(line.split()[1]) for line in Path(f"/proc/{pid}/io").read_text().splitlines() if line.startswith("rchar")
    )
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return read + (int(fields[7]) + int(fields[9])) * os.sysconf("SC_PAGE_SIZE")


def test_what_people_ask_for_does_not_depend_on_the_length_of_the_log(mount: Any, billion: Path) -> None:
    mounted = mount(billion, "retention.ms=-1")
    partition = mounted.path / str(logs.PARTITION)
    end = int((partition / "next").read_text())
    assert end > RECORDS

    def listed() -> None:
        names = subprocess.run(["ls", "-U", partition], check=True, capture_output=True).stdout.split()
        assert sum(name.isdigit() for name in names) == LISTED

    def cost(act: Callable[[], object]) -> int:
        before = work_bytes(mounted.process.pid)
        act()
        return work_bytes(mounted.process.pid) - before

    status = Path(f"/proc/{mounted.process.pid}/status")
    before = resident_kib(status)
    index_bytes = sum(path.stat().st_size for path in (billion / str(logs.PARTITION)).glob("*index"))
    assert index_bytes > 6 * LOOK_UP_BYTES_MAX
    assert cost(listed) < LISTING_BYTES_MAX
    assert cost(lambda: os.readlink(partition / "latest")) < LOOK_UP_BYTES_MAX
    assert cost(lambda: (partition / str(end - 5)).read_bytes()) < LOOK_UP_BYTES_MAX
    assert cost(lambda: (partition / f"range/{end - 100}..{end - 90}").read_bytes()) < LOOK_UP_BYTES_MAX
    assert cost(lambda: (partition / "last/10").read_bytes()) < LOOK_UP_BYTES_MAX
    assert cost(lambda: os.readlink(partition / "by-time/2020-01-01")) < LOOK_UP_BYTES_MAX
    assert resident_kib(status) - before < 32 << 10


def resident_kib(status: Path) -> int:
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmRSS"))
