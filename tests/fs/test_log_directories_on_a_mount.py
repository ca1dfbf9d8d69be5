"""Several log directories in one mount."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.machine.waiting import soon

from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN

pytestmark = pytest.mark.mount

Mount = Callable[..., Any]


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "disk1", tmp_path / "disk2"]
    for disk in made:
        disk.mkdir()
    return made


def both(disks: list[Path]) -> Path:
    return Path(",".join(map(str, disks)))


def status_of(mnt: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "offsetfs", "status", str(mnt), "--json"]
    answer: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return answer


def filled(mount: Mount, disks: list[Path]) -> None:
    """orders-0 and users-0 in the first directory, orders-1 in the second."""
    mounted = mount(both(disks), "create")
    for name in ("orders-0", "orders-1", "users-0"):
        (mounted.path / name).mkdir()
        (mounted.path / name / "append").write_text(f"{name}\n")
    mounted.unmount()


def test_several_log_directories_are_one_tree(mount: Mount, disks: list[Path]) -> None:
    mounted = mount(both(disks), "create,delete")
    for name in ("orders-0", "orders-1", "users-0"):
        (mounted.path / name).mkdir()
    lines = [json.dumps({"key": f"k{number}", "value": str(number)}) for number in range(50)]
    (mounted.path / "topics" / "orders" / "append.ndjson").write_text("".join(f"{line}\n" for line in lines))
    values = [(mounted.path / name / "values").read_text().split() for name in ("orders-0", "orders-1")]
    assert all(values) and sorted(int(each) for part in values for each in part) == list(range(50))
    infos = [json.loads((mounted.path / name / "info").read_text()) for name in ("orders-0", "orders-1")]
    assert [info["path"] for info in infos] == [str(disks[0] / "orders-0"), str(disks[1] / "orders-1")]
    (listed,) = [line for line in Path("/proc/mounts").read_text().splitlines() if f" {mounted.path} " in line]
    assert listed.startswith(f"{disks[0]},{disks[1]} ")
    assert {each["log_directory"] for each in status_of(mounted.path)["partitions"]} == set(map(str, disks))
    assert (mounted.path / "orders-1" / "by-key").is_dir()
    (mounted.path / "orders-1").rmdir()
    assert not (mounted.path / "orders-1").exists()
    assert mounted.unmount() == 0
    assert all((disk / CLEAN_SHUTDOWN).exists() for disk in disks)


def test_a_group_lags_over_the_partitions_of_all_log_directories(mount: Mount, disks: list[Path]) -> None:
    mounted = mount(both(disks), "create")
    names = ("orders-0", "orders-1")
    for name in names:
        (mounted.path / name).mkdir()
        (mounted.path / name / "append").write_text("a\nb\nc\n")
    (mounted.path / "groups" / "billing").mkdir()
    for name in names:
        (mounted.path / "groups" / "billing" / name).write_text("1\n")
    lag = (mounted.path / "groups" / "billing" / "lag").read_text()
    rows = [line.split() for line in lag.splitlines()[1:]]
    assert [row[:4] for row in rows] == [[name, "1", "3", "2"] for name in names]

    def measured() -> dict[str, float]:
        """Return the lags in the metrics of the mount, in records and seconds."""
        text = (mounted.path / ".offsetfs" / "metrics").read_text()
        found = re.findall(
            r"^offsetfs_broker_group_(\w+)\{group=\"billing\",.*topic=\"orders\"\} (.*)$", text, re.MULTILINE
        )
        return {name: float(number) for name, number in found}

    assert measured() == {"lag": 4, "lag_seconds": max(float(row[4]) for row in rows)}
    (mounted.path / "groups" / "billing" / "orders-0").write_text("3\n")
    assert soon(lambda: measured()["lag"] == 2), "they are measured again after twenty times the time that this takes"


def test_df_counts_the_disk_of_two_log_directories_once(mount: Mount, disks: list[Path]) -> None:
    mounted = mount(both(disks), "create")
    assert os.statvfs(mounted.path).f_blocks == os.statvfs(disks[0]).f_blocks


@pytest.mark.promise("If one of several log directories of a mount cannot be read, the others are still served.")
def test_a_log_directory_that_is_missing_leaves_the_others_served(mount: Mount, disks: list[Path]) -> None:
    filled(mount, disks)
    disks[1].rename(disks[1].with_name("gone"))
    mounted = mount(both(disks), faulty=True)
    assert (mounted.path / "orders-0" / "values").read_text() == "orders-0\n"
    assert not (mounted.path / "orders-1").exists()
    (mounted.path / "users-0" / "append").write_text("more\n")
    assert f"ENOTDIR open {disks[1]}: there is no such directory" in mounted.errors()
    assert mounted.unmount() == 0
    said = b"".join(mounted.lines).decode()
    assert f"warning: {disks[1]}: there is no such directory; its partitions are left out" in said


@pytest.mark.promise("If one of several log directories of a mount cannot be read, the others are still served.")
def test_a_log_directory_that_fails_later_leaves_the_others_served(mount: Mount, disks: list[Path]) -> None:
    filled(mount, disks)
    mounted = mount(both(disks), "ro")
    disks[0].rename(disks[0].with_name("gone"))
    assert (mounted.path / "orders-1" / "values").read_text() == "orders-1\n"
    assert "orders-1" in os.listdir(mounted.path)
    assert (mounted.path / "orders-1" / "0").read_text() == "orders-1"
    os.statvfs(mounted.path)
    disks[0].with_name("gone").rename(disks[0])


@pytest.mark.damages
def test_a_partition_in_two_directories_is_not_written_and_both_are_named(mount: Mount, disks: list[Path]) -> None:
    filled(mount, disks)
    shutil.copytree(disks[1] / "orders-1", disks[0] / "orders-1")
    mounted = mount(both(disks), faulty=True)
    with pytest.raises(OSError) as caught:
        (mounted.path / "orders-1" / "append").write_text("x\n")
    assert caught.value.errno == errno.EEXIST
    assert f"it is in {disks[0]} and in {disks[1]}; remove one of the two" in mounted.errors()
    (mounted.path / "orders-0" / "append").write_text("more\n")
    assert mounted.unmount() == 0
    reading = mount(both(disks), "ro", faulty=True)
    assert (reading.path / "orders-1" / "values").read_text() == "orders-1\n"


def test_a_move_between_log_directories_names_the_future_copy(mount: Mount, disks: list[Path]) -> None:
    filled(mount, disks)
    future = disks[1] / f"orders-0.{'0a' * 16}-future"
    shutil.copytree(disks[0] / "orders-0", future)
    mounted = mount(both(disks), "ro")
    assert sorted(os.listdir(mounted.path)) == ["README", "orders-0", "orders-1", "topics", "users-0"]
    assert json.loads((mounted.path / "orders-0" / "info").read_text())["future"] == str(future)
    assert (mounted.path / "orders-0" / "values").read_text() == "orders-0\n"


def test_a_second_mount_of_one_of_the_log_directories_is_refused(mount: Mount, disks: list[Path]) -> None:
    filled(mount, disks)
    mounted = mount(both(disks))
    command = [sys.executable, "-m", "offsetfs", "append", str(disks[1]), "orders-1"]
    result = subprocess.run(command, input=b"x\n", capture_output=True, check=False)
    assert result.returncode != 0 and str(mounted.path) in result.stderr.decode()


def test_a_brokers_settings_name_the_log_directories_to_mount(mount: Mount, disks: list[Path], tmp_path: Path) -> None:
    filled(mount, disks)
    settings = tmp_path / "server.properties"
    settings.write_text(f"node.id=1\nlog.dirs={disks[0]},\\\n    {disks[1]}\nlog.segment.bytes=1000000\n")
    mounted = mount(settings)
    assert {"orders-0", "orders-1", "users-0"} <= set(os.listdir(mounted.path))
    assert json.loads((mounted.path / "orders-1" / "info").read_text())["config"] == {"segment.bytes": "1000000"}
    for place in (settings, disks[1], both(disks)):
        (listed,) = status_of(place)["mounts"]
        assert listed["mount_point"] == str(mounted.path)
    command = [sys.executable, "-m", "offsetfs", "cat", str(settings), "orders-1/values"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"orders-1\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"node.id=1\n", "this file has no log.dirs; give a log directory or a server.properties"),
        (b"\xff\xfe", "is neither a log directory nor a valid server.properties: is not UTF-8 text"),
    ],
)
def test_a_file_that_names_no_log_directories_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "file").write_bytes(content)
    (tmp_path / "mnt").mkdir()
    for arguments in (["mount", "file", "mnt"], ["ls", "file"], ["status", "file"]):
        command = [sys.executable, "-m", "offsetfs", *arguments]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 1 and f"file: {reason}" in result.stderr and result.stderr.count("\n") == 1
