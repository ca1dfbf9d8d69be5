"""What old brokers wrote, through a real mount: every partition of five releases, record for record."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.mounts.left_mounts import unmount

pytestmark = pytest.mark.mount

GOLDEN = Path(__file__).parents[1] / "golden"
RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "3.6.2")
PARTITIONS = [
    (release, path.name.removesuffix(".expected.ndjson"))
    for release in RELEASES
    for path in sorted((GOLDEN / f"kafka-{release}").glob("*.expected.ndjson"))
]
every_partition = pytest.mark.parametrize(
    ("release", "partition"), PARTITIONS, ids=["/".join(each) for each in PARTITIONS]
)
BESIDE = shutil.ignore_patterns("*.txt", "*.ndjson")


def expected(release: str, partition: str) -> list[dict[str, Any]]:
    with open(GOLDEN / f"kafka-{release}" / f"{partition}.expected.ndjson") as lines:
        return [json.loads(line) for line in lines]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """The log directory of each release, mounted read only for all tests of this module."""
    run = [sys.executable, "-m", "offsetfs"]
    points: dict[str, Path] = {}
    try:
        for release in RELEASES:
            log = shutil.copytree(GOLDEN / f"kafka-{release}", tmp_path_factory.mktemp("log") / release, ignore=BESIDE)
            point = tmp_path_factory.mktemp("mnt")
            subprocess.run([*run, "mount", log, point, "-o", "ro,list=all"], check=True)
            points[release] = point
        yield points
        assert [(point / ".offsetfs/errors").read_text() for point in points.values()] == [""] * len(RELEASES)
    finally:
        for point in points.values():
            unmount(point)


@pytest.fixture
def directory(trees: dict[str, Path], release: str, partition: str) -> Path:
    return trees[release] / partition


@every_partition
def test_every_old_record_is_a_file_and_so_listed(release: str, partition: str, directory: Path) -> None:
    records = expected(release, partition)
    with os.scandir(directory) as entries:
        listed = {entry.name: entry.stat(follow_symlinks=False) for entry in entries if entry.name.isdigit()}
    assert set(listed) == {str(record["offset"]) for record in records}
    for record in records:
        path, value = directory / str(record["offset"]), decoded(record["value_b64"]) or b""
        assert path.read_bytes() == value
        assert listed[path.name].st_size == path.stat().st_size == len(value)
        if record["timestamp"] >= 0:
            assert listed[path.name].st_mtime_ns == path.stat().st_mtime_ns == record["timestamp"] * 1_000_000


@every_partition
def test_an_old_record_has_the_fields_of_its_format(release: str, partition: str, directory: Path) -> None:
    for record in expected(release, partition)[::7]:
        path = directory / str(record["offset"])
        attributes = {name.removeprefix("user.kafka."): os.getxattr(path, name) for name in os.listxattr(path)}
        assert attributes["offset"] == b"%d" % record["offset"]
        assert attributes["timestamp"] == b"%d" % record["timestamp"]
        assert attributes["timestamp-type"].decode() == record["timestamp_type"]
        assert attributes.get("key") == decoded(record["key_b64"])
        assert attributes["null"] == (b"1" if record["value_b64"] is None else b"0")
        assert int(attributes["base-offset"]) <= record["offset"]
        if "v2" not in partition:
            assert [attributes[name] for name in ("leader-epoch", "producer-id", "sequence")] == [b"-1"] * 3


@every_partition
def test_the_values_and_the_ends_of_an_old_partition_are_right(release: str, partition: str, directory: Path) -> None:
    records = expected(release, partition)
    assert (directory / "values").read_bytes() == b"".join(
        (decoded(record["value_b64"]) or b"") + b"\n" for record in records
    )
    if records:
        assert os.readlink(directory / "first") == str(records[0]["offset"])
        assert os.readlink(directory / "latest") == str(records[-1]["offset"])
        assert int((directory / "next").read_text()) > records[-1]["offset"]


def test_a_time_leads_to_the_first_old_record_that_reaches_it(trees: dict[str, Path]) -> None:
    for release, partition in (
        ("0.10.2.2", "v1-segs-mix-0"),
        ("0.10.2.2", "mixed-v0v1-0"),
        ("3.6.2", "v1-compact-lat-gzip-0"),
    ):
        records = expected(release, partition)
        times = [record["timestamp"] for record in records if record["timestamp"] >= 0]
        assert times
        for time in times[::9]:
            first = next(each["offset"] for each in records if each["timestamp"] >= time)
            name = f"@{time // 1000}.{time % 1000:03d}"
            assert os.readlink(trees[release] / partition / "by-time" / name) == f"../{first}"


def test_the_newest_records_are_listed_where_sets_hide_their_number(mount: Callable[..., Any], tmp_path: Path) -> None:
    log = shutil.copytree(GOLDEN / "kafka-0.10.2.2", tmp_path / "log", ignore=BESIDE)
    mounted = mount(log, "ro,list=5")
    for release, partition in PARTITIONS:
        if release == "0.10.2.2":
            offsets = [record["offset"] for record in expected(release, partition)]
            names = sorted(int(name) for name in os.listdir(mounted.path / partition) if name.isdigit())
            assert names == offsets[-5:], partition


def test_lines_appended_behind_an_old_log_are_read_with_it(mount: Callable[..., Any], tmp_path: Path) -> None:
    log = shutil.copytree(GOLDEN / "kafka-0.10.2.2", tmp_path / "log", ignore=BESIDE)
    partitions = ["v0-none-0", "v0-gzip-0", "v1-lz4-0", "mixed-v1v0-0"]
    mounted = mount(log)
    for partition in partitions:
        with open(mounted.path / partition / "append", "ab") as append:
            append.write(b"later\n")
    mounted.unmount()
    again = mount(log, "ro")
    for partition in partitions:
        records = expected("0.10.2.2", partition)
        following = records[-1]["offset"] + 1
        assert (again.path / partition / str(following)).read_bytes() == b"later"
        lines = b"".join((decoded(record["value_b64"]) or b"") + b"\n" for record in records)
        assert (again.path / partition / "values").read_bytes() == lines + b"later\n"


@pytest.mark.damages
@pytest.mark.parametrize("partition", ["v0-none-0", "v1-none-0", "v0-snappy-0", "v1-lz4-0"])
def test_a_damaged_old_batch_fails_alone(mount: Callable[..., Any], tmp_path: Path, partition: str) -> None:
    log = shutil.copytree(GOLDEN / "kafka-0.10.2.2", tmp_path / "log", ignore=BESIDE)
    records = expected("0.10.2.2", partition)
    file = log / partition / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    position, before = 0, -1
    while position < len(data) // 2:
        before = int.from_bytes(data[position : position + 8], "big")
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    last = int.from_bytes(data[position : position + 8], "big")
    data[position + 13] ^= 0xFF
    file.write_bytes(data)
    mounted = mount(log, "ro,list=all,damage=skip", faulty=True)
    directory = mounted.path / partition
    assert {name for name in os.listdir(directory) if name.isdigit()} == {str(each["offset"]) for each in records}
    for record in records:
        path = directory / str(record["offset"])
        if before < record["offset"] <= last:
            with pytest.raises(OSError, match="Bad message"):
                path.read_bytes()
        else:
            assert path.read_bytes() == (decoded(record["value_b64"]) or b"")
    kept = [record for record in records if not before < record["offset"] <= last]
    assert (directory / "values").read_bytes() == b"".join(
        (decoded(record["value_b64"]) or b"") + b"\n" for record in kept
    )
    assert "checksum" in mounted.errors()
