"""Mounts with isolation=read_committed: what a consumer of that level sees, in every view."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.machine.waiting import soon
from fixtures.mounts.left_mounts import unmount

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.mount

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
PARTITIONS = sorted(path.name.removesuffix(".expected.ndjson") for path in GOLDEN.glob("*.expected.ndjson"))
WITH_TRANSACTIONS = ["compacted-tx-0", "compacted-tx2-0", "transactions-0"]
Records = list[dict[str, Any]]


def expected(partition: str, *, committed: bool = True) -> Records:
    with open(GOLDEN / f"{partition}.expected.ndjson") as lines:
        records = [json.loads(line) for line in lines]
    return [record for record in records if record["committed"] or not committed]


def is_value(record: dict[str, Any], value: bytes) -> bool:
    if "value_sha256" in record:
        return bool(hashlib.sha256(value).hexdigest() == record["value_sha256"])
    return value == base64.b64decode(record["value_b64"] or "")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The golden log directory, mounted for committed records."""
    point = tmp_path_factory.mktemp("mnt")
    run = [sys.executable, "-m", "offsetfs"]
    subprocess.run([*run, "mount", GOLDEN, point, "-o", "ro,list=all,isolation=read_committed"], check=True)
    try:
        yield point
        assert (point / ".offsetfs/errors").read_text() == ""
    finally:
        unmount(point)


@pytest.mark.promise(
    "With `isolation=read_committed`, every view except `segments/` and `info` shows what a "
    "read_committed consumer sees: no record of an aborted transaction, and none at or above the "
    "last stable offset, which is also `next`."
)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_view_shows_the_committed_records_and_no_others(tree: Path, partition: str) -> None:
    directory, records = tree / partition, expected(partition)
    offsets = [record["offset"] for record in records]
    assert sorted(int(name) for name in os.listdir(directory) if name.isdigit()) == offsets
    values = [(directory / str(offset)).read_bytes() for offset in offsets]
    assert all(map(is_value, records, values))
    joined = b"".join(value + b"\n" for value in values)
    assert (directory / "values").read_bytes() == joined and (directory / "values").stat().st_size == len(joined)
    lines = (directory / "records.ndjson").read_bytes().splitlines(keepends=True)
    assert [json.loads(line)["offset"] for line in lines] == offsets
    assert (directory / "range/...ndjson").read_bytes() == b"".join(lines)
    assert (directory / "last/5").read_bytes() == b"".join(value + b"\n" for value in values[-5:])
    for record in expected(partition, committed=False):
        assert (directory / f"{record['offset']}.json").exists() == record["committed"]
        assert (directory / str(record["offset"])).exists() == record["committed"]
    if offsets:
        assert [os.readlink(directory / name) for name in ("first", "latest")] == [str(offsets[0]), str(offsets[-1])]
    else:
        assert not os.path.lexists(directory / "first") and not os.path.lexists(directory / "latest")


@pytest.mark.parametrize("partition", WITH_TRANSACTIONS)
def test_times_lead_to_committed_records(tree: Path, partition: str) -> None:
    records = expected(partition)
    for timestamp in {record["timestamp"] for record in expected(partition, committed=False)}:
        first = next((record["offset"] for record in records if record["timestamp"] >= timestamp), None)
        link = tree / partition / "by-time" / f"@{timestamp // 1000}.{timestamp % 1000:03d}"
        assert (os.readlink(link) if os.path.lexists(link) else None) == (None if first is None else f"../{first}")
    listed = [name for _, _, names in os.walk(tree / partition / "by-time") for name in names]
    assert listed


@pytest.mark.parametrize("partition", WITH_TRANSACTIONS)
def test_segments_and_info_are_of_the_whole_log(tree: Path, partition: str) -> None:
    bounds = json.loads((GOLDEN / f"{partition}.bounds.json").read_text())
    info = json.loads((tree / partition / "info").read_text())
    assert int((tree / partition / "next").read_text()) == bounds["high_watermark"] == info["next_offset"]
    assert info["last_stable_offset"] == bounds["high_watermark"]
    for path in (GOLDEN / partition).glob("*.log"):
        assert (tree / partition / "segments" / path.name).read_bytes() == path.read_bytes()


# --- transactions that are still open --------------------------------------------------------------------------------


_next_sequences: dict[int, int] = {}


@pytest.fixture(autouse=True)
def first_sequences() -> None:
    """Producers begin with sequence 0 in each test."""
    _next_sequences.clear()


def data(producer_id: int, *values: bytes) -> SealedBatch:
    records = [(None, value, (), 1000) for value in values]
    sequence = _next_sequences.get(producer_id, 0)
    _next_sequences[producer_id] = sequence + len(values)
    batch = build(records, transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return SealedBatch(memoryview(batch), len(values), sum(map(len, values)) + len(values), Timestamp(1000), len(batch))


def marker(producer_id: int, kind: int) -> SealedBatch:
    record = (b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\7", (), 1000)
    batch = build([record], transactional=True, control=True, producer_id=producer_id, producer_epoch=0)
    return SealedBatch(memoryview(batch), 1, 0, Timestamp(1000), len(batch))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A partition that another process writes, which a read-only mount follows."""
    directory = LogDirectory.open(str(tmp_path / "log"), defaults={"segment.bytes": "1000"})
    yield directory.create_partition(TopicPartition("orders", 0))
    directory.close()


@pytest.fixture(autouse=True)
def log_directory(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()


def test_metrics_of_a_read_only_mount_follow_what_another_process_appends(log: Log, mount: Any, tmp_path: Path) -> None:
    mounted = mount(tmp_path / "log", "ro").path
    log.append(data(1, b"one"))
    assert soon(lambda: (mounted / "orders-0" / "next").read_text() == "1\n")
    log.append(data(1, b"two", b"three"))  # no file of the partition is read again
    assert soon(lambda: 'topic="orders"} 3.0' in (mounted / ".offsetfs" / "metrics").read_text())


def test_what_is_open_is_not_there_yet_and_appears_with_its_commit(log: Log, mount: Any, tmp_path: Path) -> None:
    log.append(data(1, b"one", b"two"))
    partition = mount(tmp_path / "log", "ro,isolation=read_committed").path / "orders-0"
    assert (partition / "values").read_bytes() == b"" and not (partition / "0").exists()
    assert [(partition / name).read_text() for name in ("start", "next")] == ["0\n", "0\n"]
    info = json.loads((partition / "info").read_text())
    assert (info["next_offset"], info["high_watermark"], info["last_stable_offset"]) == (2, 2, 0)
    (open_transaction,) = info["open_transactions"]
    assert open_transaction.pop("age_ms") > 1_700_000_000_000, "the records are of the first second of 1970"
    assert open_transaction == {"producer_id": 1, "start_offset": 0, "start_timestamp": 1000}
    lines = [b"%d" % number + b"x" * 100 + b"\n" for number in range(20)]
    with open(partition / "values", "rb") as values:
        log.append(data(2, b"never"))
        log.append(marker(1, COMMIT))
        assert soon(lambda: (partition / "values").stat().st_size == 8)
        assert values.read() == b"one\ntwo\n"
        assert json.loads((partition / "info").read_text())["last_stable_offset"] == 2
        for line in lines:  # over several segments, behind an open transaction
            log.append(data(1, line[:-1]))
            log.append(marker(1, COMMIT))
        assert soon(lambda: json.loads((partition / "info").read_text())["next_offset"] == log.next_offset)
        assert (partition / "next").read_text() == "2\n"
        assert len(json.loads((partition / "info").read_text())["open_transactions"]) == 1
        assert len(list((partition / "segments").glob("*.log"))) > 2
        assert values.read() == b"" and os.readlink(partition / "latest") == "1"
        assert sorted(name for name in os.listdir(partition) if name.isdigit()) == ["0", "1"]
        log.append(marker(2, ABORT))
        assert soon(lambda: (partition / "values").stat().st_size == 8 + len(b"".join(lines)))
        assert values.read() == b"".join(lines)
    assert json.loads((partition / "info").read_text())["open_transactions"] == []
    assert (partition / "next").read_text() == f"{log.next_offset}\n"
    assert not (partition / "2").exists() and (partition / "1").read_bytes() == b"two"
    assert (partition / "latest").read_bytes() == lines[-1][:-1]


def test_both_levels_may_be_mounted_at_once_and_keep_no_maps_of_each_other(golden_copy: Path, mount: Any) -> None:
    committed = mount(golden_copy, "isolation=read_committed").path / "transactions-0"
    shown = (committed / "values").read_bytes()
    assert list((golden_copy / "transactions-0").glob("*map*")) == []
    everything = mount(golden_copy, "ro").path / "transactions-0"
    assert len(everything.joinpath("values").read_bytes().splitlines()) > len(shown.splitlines())
    assert (committed / "values").read_bytes() == shown


def test_maps_of_everything_are_not_taken_for_those_of_committed_records(golden_copy: Path, mount: Any) -> None:
    first = mount(golden_copy)
    everything = (first.path / "transactions-0" / "values").read_bytes()
    lines = (first.path / "transactions-0" / "records.ndjson").read_bytes()
    for kind in ("values", "records"):
        assert list((golden_copy / "transactions-0").glob(f"*.{kind}-map"))
    first.unmount()
    committed = mount(golden_copy, "isolation=read_committed").path / "transactions-0"
    assert 0 < len((committed / "values").read_bytes()) < len(everything)
    assert 0 < len((committed / "records.ndjson").read_bytes()) < len(lines)
    assert 0 < len((committed / "range/...ndjson").read_bytes()) < len(lines)
