"""What a recovery cuts is reported by the command that mounts, by the mount and by `status`; `dump` reads the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, plant
from fixtures.mounts.left_mounts import unmount

KEPT = f"{0:020}.cut-"


def offsetfs(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "offsetfs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A log that was not closed, of three batches; the second one is damaged, and none was synced."""
    damaged = bytearray(batch(2, b"two"))
    damaged[-2] ^= 1
    plant(tmp_path / "log", {0: [batch(0, b"zero", b"one"), bytes(damaged), batch(3, b"three")]}, is_clean=False)
    return tmp_path / "log"


def kept_name() -> str:
    return f"{KEPT}{len(batch(0, b'zero', b'one'))}"


@pytest.mark.mount
@pytest.mark.promise(
    "A command that recovers a log reports what it removed: the offset, and the file that keeps the data."
)
def test_mount_warns_of_what_the_recovery_cut(crashed: Path, tmp_path: Path) -> None:
    point, log_file = tmp_path / "mnt", tmp_path / "mount.log"
    point.mkdir()
    done = offsetfs("mount", crashed, point, "-o", f"log-file={log_file}")
    try:
        assert done.returncode == 0
        errors = (point / ".offsetfs" / "errors").read_text()
        info = json.loads((point / str(PARTITION) / "info").read_text())
        status = json.loads(offsetfs("status", point, "--json").stdout)
    finally:
        unmount(point)
    for text in (done.stderr, errors, log_file.read_text()):
        assert kept_name() in text and "offset" in text
    assert "offsetfs mount: warning: " in done.stderr and "offset 2" in done.stderr
    assert [os.path.basename(each["kept"]) for each in info["damage"]] == [kept_name()]
    assert status["partitions"][0]["cut"] == [kept_name()]
    assert status["mounts"][0]["damaged_partitions"] == [str(PARTITION)]


@pytest.mark.long
@pytest.mark.unit
def test_status_names_what_a_recovery_cut_also_later(crashed: Path) -> None:
    done = offsetfs("repair", crashed, "--yes")
    assert kept_name() in done.stdout
    assert kept_name() in offsetfs("status", crashed).stdout


@pytest.mark.long
@pytest.mark.unit
@pytest.mark.parametrize("arguments", [("append",), ("create",)])
def test_a_command_that_writes_warns_of_what_its_recovery_cut(crashed: Path, arguments: tuple[str, ...]) -> None:
    more = {"append": (f"{PARTITION}/append",), "create": ("other",)}[arguments[0]]
    command = [sys.executable, "-m", "offsetfs", *arguments, str(crashed), *more]
    done = subprocess.run(command, input="new\n", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert kept_name() in done.stderr


@pytest.mark.long
@pytest.mark.unit
def test_dump_reads_the_file_that_keeps_what_a_recovery_cut(crashed: Path) -> None:
    offsetfs("repair", crashed, "--yes")
    done = offsetfs("dump", "--print-data-log", crashed / str(PARTITION) / kept_name())
    assert done.returncode == 0
    assert "payload: three" in done.stdout and "isvalid: false" in done.stdout
    assert "Cut by a recovery from segment 0" in done.stdout
