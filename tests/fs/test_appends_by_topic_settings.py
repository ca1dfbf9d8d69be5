"""What a topic's settings say of appends holds on a mount: how they are compressed, and whose time they carry."""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.mounts.left_mounts import unmount

from offsetfs.storage.records.compression.compression import CODECS
from offsetfs.storage.records.format.batch import read_batch

pytestmark = pytest.mark.mount

_topics = itertools.count()
LINES = b"".join(b"order %07d of customer %03d\n" % (number, number % 321) for number in range(20_000))


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., tuple[Path, Path]]]:
    """Make a partition with settings on the one mount of this module: its directory there, and below."""
    point, log = tmp_path_factory.mktemp("mnt"), tmp_path_factory.mktemp("log")
    run = [sys.executable, "-m", "offsetfs"]
    subprocess.run([*run, "mount", log, point, "-o", "create"], check=True)

    def partition(*settings: str) -> tuple[Path, Path]:
        topic = f"t{next(_topics)}"
        (point / f"{topic}-0").mkdir()
        subprocess.run([*run, "config", log, topic, *settings], check=True, stdout=subprocess.DEVNULL)
        return point / f"{topic}-0", log / f"{topic}-0"

    yield partition
    unmount(point)


def appended(where: tuple[Path, Path]) -> tuple[str, int]:
    """Append lines; return the codec of the first batch and the size of the segment."""
    mounted, log = where
    (mounted / "append").write_bytes(LINES)
    assert (mounted / "values").read_bytes() == LINES
    segment = (log / "00000000000000000000.log").read_bytes()
    return read_batch(segment).header.codec_name, len(segment)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_appends_are_compressed_as_the_topic_sets(make: Callable[..., tuple[Path, Path]], codec: str) -> None:
    name, size = appended(make(f"compression.type={codec}"))
    assert name == codec and size < len(LINES) // 2


@pytest.mark.parametrize("codec", ["uncompressed", "producer"])
def test_without_a_codec_they_are_plain(make: Callable[..., tuple[Path, Path]], codec: str) -> None:
    name, size = appended(make(f"compression.type={codec}"))
    assert name == "none" and size > len(LINES)


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", -5, 15)])
def test_the_level_is_the_topics(make: Callable[..., tuple[Path, Path]], codec: str, low: int, high: int) -> None:
    sizes = [
        appended(make(f"compression.type={codec}", f"compression.{codec}.level={level}"))[1] for level in (low, high)
    ]
    assert sizes[1] < sizes[0]


def test_a_time_further_from_now_than_the_topic_allows_is_refused(make: Callable[..., tuple[Path, Path]]) -> None:
    mounted, _ = make("message.timestamp.before.max.ms=60000", "message.timestamp.after.max.ms=60000")
    now = time.time_ns() // 1_000_000
    lines = [b'{"timestamp":%d}\n' % (now + away) for away in (-50_000, 50_000, 0, -70_000, 70_000)]
    (mounted / "append.ndjson").write_bytes(b"{}\n" + b"".join(lines[:3]))
    for refused in lines[3:]:
        with pytest.raises(OSError) as raised:
            (mounted / "append.ndjson").write_bytes(refused)
        assert raised.value.errno == errno.EINVAL
    assert (mounted / "next").read_text() == "4\n"
    errors = (mounted.parent / ".offsetfs/errors").read_text()
    assert "line 1, byte 1: the timestamp is further from now than message.timestamp.before.max.ms" in errors


def test_the_brokers_time_is_stamped_where_the_topic_sets_it(make: Callable[..., tuple[Path, Path]]) -> None:
    mounted, _ = make("message.timestamp.type=LogAppendTime", "compression.type=zstd")
    before = time.time_ns() // 1_000_000
    fd = os.open(mounted / "append.ndjson", os.O_RDWR)
    os.write(fd, b'{"value":"a","timestamp":5}\n{"value":"b","timestamp":7}\n')
    reported = [int(line.split()[1]) for line in os.read(fd, 100).splitlines()]
    os.close(fd)
    records = [json.loads(line) for line in (mounted / "records.ndjson").read_bytes().splitlines()]
    assert [record["timestamp_type"] for record in records] == ["LogAppendTime"] * 2
    assert reported == [record["timestamp"] for record in records]
    assert before <= reported[0] <= time.time_ns() // 1_000_000
