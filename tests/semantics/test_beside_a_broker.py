"""The sentences of docs/use/semantics.md about a read-only mount beside a broker, with a metadata log made by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs import metadata_records as records
from fixtures.logs.metadata_records import METADATA, MetadataDirectory
from fixtures.mounts.left_mounts import unmount
from fixtures.pages.said import Said, run

from offsetfs.storage import checkpoint
from offsetfs.storage.checkpoint import HIGH_WATERMARKS
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.producers import COMMIT
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.mount

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)
START_MS = 1_795_266_300_000


def data(value: bytes, *, producer_id: int = -1) -> SealedBatch:
    is_transactional = producer_id >= 0
    batch = build(
        [(None, value, (), START_MS)],
        transactional=is_transactional,
        producer_id=producer_id,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=0 if is_transactional else -1,
    )
    return SealedBatch(memoryview(batch), 1, len(value) + 1, Timestamp(START_MS), len(batch))


def marker(producer_id: int) -> SealedBatch:
    record = (b"\0\0" + COMMIT.to_bytes(2, "big"), b"\0\0\0\0\0\7", (), START_MS)
    batch = build([record], transactional=True, control=True, producer_id=producer_id, producer_epoch=0)
    return SealedBatch(memoryview(batch), 1, 0, Timestamp(START_MS), len(batch))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`orders-0` has three replicas and 15 records, of which the followers have ten; `clicks-0` has one replica."""
    path = tmp_path_factory.mktemp("beside") / "log"
    path.mkdir()
    with_lock = LogDirectory.open(str(path))
    for partition in (ORDERS, CLICKS):
        log = with_lock.create_partition(partition)
        for number in range(15):
            log.append(data(b"%d" % number))
    with_lock.close()
    checkpoint.write_offsets(str(path / HIGH_WATERMARKS), {ORDERS: 10, CLICKS: 10})
    MetadataDirectory(path).append(records.topics(orders=[1, 2, 3], clicks=[1]))
    return path


Mount = Callable[..., Path]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mount]:
    points: list[Path] = []
    command = [sys.executable, "-m", "offsetfs"]

    def mount(log: Path, options: str) -> Path:
        point = tmp_path / f"mnt-{len(points)}"
        point.mkdir()
        subprocess.run([*command, "mount", log, point, "-o", options], check=True)
        points.append(point)
        return point

    yield mount
    for point in points:
        unmount(point)


BOUNDED = [
    Said(
        "A read-only mount shows a partition with several replicas up to the high watermark in "
        "`replication-offset-checkpoint`.",
        "wc -l < orders-0/values; cat orders-0/latest; echo; cat orders-0/last/2; ls orders-0 | grep -c '^[0-9]'; "
        "wc -l < orders-0/records.ndjson; cat orders-0/range/8..99; ls -d orders-0/11 2>&1 | grep -o 'No such.*'",
        "10\n9\n8\n9\n10\n10\n8\n9\nNo such file or directory\n",
    ),
    Said(
        "Then `next` is the high watermark and `next_offset` in `info` the log end; `segments` has the complete files.",
        "cat orders-0/next; jq -c '[.high_watermark,.next_offset]' orders-0/info; "
        "cmp orders-0/segments/*.log clicks-0/segments/*.log && echo same",
        "10\n[10,15]\nsame\n",
    ),
]
LOG_END = Said(
    "`-o high-watermark=log-end` also shows the records above it.",
    "wc -l < orders-0/values; cat orders-0/next; jq -c '[.high_watermark,.next_offset]' orders-0/info",
    "15\n15\n[15,15]\n",
)
ONE_REPLICA = Said(
    "A partition with one replica, or in a directory without a metadata log, is shown up to the log end.",
    "wc -l < clicks-0/values; cat clicks-0/next",
    "15\n15\n",
)


@pytest.mark.parametrize("said", [*BOUNDED, ONE_REPLICA], ids=str)
def test_what_followers_lack_is_not_shown(log: Path, mounted: Mount, tmp_path: Path, said: Said) -> None:
    run(mounted(log, "ro"), tmp_path, said, "-")


def test_the_log_end_is_shown_where_it_is_asked_for(log: Path, mounted: Mount, tmp_path: Path) -> None:
    run(mounted(log, "ro,high-watermark=log-end"), tmp_path, LOG_END, "-")


def test_the_metadata_log_may_be_elsewhere(log: Path, mounted: Mount, tmp_path: Path) -> None:
    apart = tmp_path / "apart"
    apart.mkdir()
    (log / METADATA).rename(apart / METADATA)
    try:
        assert (mounted(log, "ro") / "orders-0" / "next").read_text() == "15\n"
        assert (mounted(log, f"ro,metadata.log.dir={apart}") / "orders-0" / "next").read_text() == "10\n"
    finally:
        (apart / METADATA).rename(log / METADATA)


@pytest.mark.semantics(
    "With `-o isolation=read_committed`, `next` is the last stable offset.",
    "`info` contains the high watermark, the last stable offset and the open transactions: producer "
    "id, start offset, start time, age.",
)
def test_next_and_info_show_open_transactions(tmp_path: Path, mounted: Mount) -> None:
    path = tmp_path / "log"
    path.mkdir()
    with_lock = LogDirectory.open(str(path))
    log = with_lock.create_partition(ORDERS)
    for each in (data(b"0"), data(b"1", producer_id=7), marker(7), data(b"3", producer_id=8), data(b"4")):
        log.append(each)
    with_lock.close()
    orders = mounted(path, "ro,isolation=read_committed") / "orders-0"
    assert (orders / "next").read_text() == "3\n"
    info = json.loads((orders / "info").read_text())
    assert (info["next_offset"], info["high_watermark"], info["last_stable_offset"]) == (5, 5, 3)
    (open_transaction,) = info["open_transactions"]
    assert open_transaction["producer_id"] == 8 and open_transaction["start_offset"] == 3
    assert open_transaction["start_timestamp"] == START_MS and open_transaction["age_ms"] >= 0
    assert (mounted(path, "ro") / "orders-0" / "next").read_text() == "5\n"
