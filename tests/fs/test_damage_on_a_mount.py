"""Damage that a view of a mount skips is reported: in `info`, the metrics, the log, `offsetfs status`, and once."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import PARTITION, plant

from offsetfs.storage.records.format.batch import build

pytestmark = [pytest.mark.mount, pytest.mark.damages]

BATCHES, RECORDS, HURT = 28, 30, 5
BEGIN_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z, and a second for each record
LOST = range(HURT * RECORDS, (HURT + 1) * RECORDS)


def plant_damaged(path: Path) -> int:
    """Write a log with one flipped byte in a record's value; return the position of its batch."""
    batches = []
    for number in range(BATCHES):
        offsets = range(number * RECORDS, (number + 1) * RECORDS)
        records = [(b"key-%d" % offset, b"value %d" % offset, (), BEGIN_MS + 1000 * offset) for offset in offsets]
        batches.append(build(records, base_offset=offsets[0]))
    batches[HURT][-3] ^= 1
    plant(path, {0: [bytes(each) for each in batches]}, recovery_point=BATCHES * RECORDS)
    return sum(map(len, batches[:HURT]))


def follow(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with contextlib.suppress(BlockingIOError):
            while os.read(fd, 1 << 20):
                pass
    finally:
        os.close(fd)


def by_key(path: Path) -> None:
    assert path.read_bytes() == b"value 839"


READS: dict[str, Callable[[Path], object]] = {
    "values": Path.read_bytes,
    "records.ndjson": Path.read_bytes,
    "range/0..840": Path.read_bytes,
    "last/840": Path.read_bytes,
    "last/840.ndjson": Path.read_bytes,
    "follow@0": follow,
    "by-key/key-839": by_key,
    "by-time/2023-11-14T22:15:55Z": Path.read_bytes,
    "": os.listdir,
}


def offsetfs(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "offsetfs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def damaged_places(mounted: Any) -> float:
    metrics = (mounted.path / ".offsetfs" / "metrics").read_text().splitlines()
    return sum(float(line.split()[-1]) for line in metrics if line.startswith("offsetfs_log_damaged_places{"))


@pytest.mark.promise(
    "Damage that a view skips is reported in `info`, `offsetfs status`, the metrics and the log, each place once."
)
@pytest.mark.parametrize("view", READS)
def test_damage_that_a_view_skips_is_reported_everywhere_and_once(mount: Any, tmp_path: Path, view: str) -> None:
    position = plant_damaged(tmp_path / "log")
    mounted = mount(tmp_path / "log", "ro,damage=skip")
    for _ in range(2):
        READS[view](mounted.path / str(PARTITION) / view)
    damage = json.loads((mounted.path / str(PARTITION) / "info").read_bytes())["damage"]
    assert [(os.path.basename(each["path"]), each["position"]) for each in damage] == [(f"{0:020}.log", position)]
    assert damaged_places(mounted) == 1
    assert f"position {position}" in mounted.errors()
    status = json.loads(offsetfs("status", mounted.path, "--json").stdout)
    assert status["mounts"][0]["damaged_partitions"] == [str(PARTITION)]
    (shown,) = status["partitions"][0]["damage"]
    assert f"position {position}" in shown
    assert mounted.unmount() == 0
    assert sum(b"damage:" in line and b"position %d" % position in line for line in mounted.lines) == 1


def test_a_record_that_cannot_be_read_counts_as_damage(mount: Any, tmp_path: Path) -> None:
    plant_damaged(tmp_path / "log")
    mounted = mount(tmp_path / "log", "ro")
    with pytest.raises(OSError, match="Bad message"):
        (mounted.path / str(PARTITION) / str(LOST[0])).read_bytes()
    assert damaged_places(mounted) == 1


@pytest.mark.promise(
    "Reads of `values` and `records.ndjson` fail with EIO where records cannot be read, unless `damage=skip` is set."
)
@pytest.mark.parametrize("options", ["ro", "ro,damage=eio"])
@pytest.mark.parametrize("view", ["values", "records.ndjson"])
def test_a_read_ends_at_the_damage_with_an_error(mount: Any, tmp_path: Path, view: str, options: str) -> None:
    plant_damaged(tmp_path / "log")
    mounted = mount(tmp_path / "log", options)
    path = mounted.path / str(PARTITION) / view
    before, after = b"", b""
    with path.open("rb", buffering=0) as file:
        with pytest.raises(OSError) as caught:
            while chunk := file.read(1 << 20):
                before += chunk
        assert caught.value.errno == errno.EIO
        assert before.count(b"\n") == LOST[0]
        file.seek(len(before) + 1)  # what lies behind the damage can be read all the same
        while chunk := file.read(1 << 20):
            after += chunk
        assert after.count(b"\n") == BATCHES * RECORDS - LOST[-1] - 1
    assert subprocess.run(["cat", path], capture_output=True, check=False).returncode == 1
    assert "damage=skip" in mounted.errors()


@pytest.mark.parametrize("view", ["values", "records.ndjson"])
def test_with_damage_skip_a_read_leaves_the_damage_out(mount: Any, tmp_path: Path, view: str) -> None:
    plant_damaged(tmp_path / "log")
    mounted = mount(tmp_path / "log", "ro,damage=skip")
    lines = (mounted.path / str(PARTITION) / view).read_bytes().splitlines()
    assert len(lines) == BATCHES * RECORDS - RECORDS


@pytest.mark.parametrize("view", ["values", "range/0..840", "last/840", str(LOST[0])])
def test_cat_without_a_mount_prints_the_rest_and_exits_with_an_error(tmp_path: Path, view: str) -> None:
    position = plant_damaged(tmp_path / "log")
    done = offsetfs("cat", tmp_path / "log", f"{PARTITION}/{view}")
    assert done.returncode == 1
    assert f"position {position}" in done.stderr
    assert len(done.stdout.splitlines()) == (0 if view.isdigit() else BATCHES * RECORDS - RECORDS)
