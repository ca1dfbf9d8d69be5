"""Batches that a verification passes over: the implementations agree which, and what is said is the same without it."""

from __future__ import annotations

import os
import random
import shutil
import struct
from array import array
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fixtures.spies import spy

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.native import valid_batches as native_valid_batches
from offsetfs.storage.records.compression.compression import CODECS
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import HEADER_SIZE, build, parse_header, seal_checksum
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.reference import valid_batches as reference_valid_batches
from offsetfs.storage.verify import segment, segment_inspection
from offsetfs.storage.verify.batches import batch_faults
from offsetfs.storage.verify.verify import Verification

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"


@pytest.fixture(params=[native_valid_batches, reference_valid_batches], ids=["compiled", "plain"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


LIMIT = 1 << 16


def batches(counts: list[int], **fields: Any) -> list[bytearray]:
    """Return batches with so many records each, their offsets one behind the other."""
    made, offset = [], 0
    for count in counts:
        records = [(None, b"v" * (place % 9), (), 1000 + place % 7) for place in range(offset, offset + count)]
        made.append(build(records, base_offset=offset, **fields))
        offset += count
    return made


def rows_of(log: bytes, file_position: int = 0) -> array[int]:
    return chain.sound(log, 0, len(log), file_position, *chain.ANY_OFFSETS)[0]


def changed(batch: bytearray, position: int, layout: str, number: int) -> bytearray:
    """Return the batch with a number changed and its checksum made true again."""
    copy = bytearray(batch)
    struct.pack_into(layout, copy, position, number)
    seal_checksum(copy)
    return copy


ONE, TWO, THREE = batches([2, 3, 4])
PACKED = {codec: batches([2, 3], codec=codec)[1] for codec in CODECS[1:]}
BY_A_PRODUCER = build([(b"k", b"v", (), 9)], base_offset=2, producer_id=7, producer_epoch=0, base_sequence=0)
CONTROL = build(
    [(bytes(4), bytes(6), (), 9)], base_offset=2, producer_id=7, producer_epoch=0, transactional=True, control=True
)
FAR_APART = changed(build([(None, b"v", (), 2**63 - 1), (None, b"v", (), -1)], base_offset=2), 27, ">q", -1)
"""The times -1 and 2⁶³ - 1, whose difference is -2⁶³ in a Java long."""

NOT_QUIET = {
    "a largest time below -1": changed(changed(TWO, 27, ">q", -5000), 35, ">q", -4999),
    "a gap before it": changed(TWO, 0, ">q", 3),
    "an offset too low": changed(TWO, 0, ">q", 1),
    "another leader epoch": changed(TWO, 12, ">i", 4),
    "a compressed batch that inflates too far": build([(None, bytes(LIMIT), (), 1)], base_offset=2, codec="gzip"),
    "a compressed batch that does not inflate": changed(PACKED["gzip"], HEADER_SIZE + 12, ">b", -1),
    "a compressed batch with fewer records": changed(PACKED["lz4"], 57, ">i", 2),
    "a compressed batch with another largest time": changed(PACKED["zstd"], 35, ">q", 1),
    "a compressed batch that does not go on": changed(PACKED["snappy"], 0, ">q", 3),
    "a codec of the future": changed(TWO, 21, ">h", 7),
    "a control batch": CONTROL,
    "a transaction without a producer": changed(TWO, 21, ">h", 0x10),
    "a producer without an epoch": changed(BY_A_PRODUCER, 51, ">h", -1),
    "a producer without a sequence": changed(BY_A_PRODUCER, 53, ">i", -1),
    "more records than offsets": changed(TWO, 23, ">i", 1),
    "fewer records than there are": changed(TWO, 57, ">i", 2),
    "more records than there are": changed(changed(TWO, 57, ">i", 4), 23, ">i", 3),
    "more records than there is space for": changed(changed(TWO, 57, ">i", 99), 23, ">i", 98),
    "an offset inside that does not rise": changed(TWO, HEADER_SIZE + 3, ">b", -1),
    "a record that is too long": changed(TWO, HEADER_SIZE, ">b", 120),
    "a largest time that no record has": changed(TWO, 35, ">q", 1),
    "the sum of a time that wraps": changed(changed(TWO, 27, ">q", 2**63 - 1), 35, ">q", -1),
}
QUIET = {
    "a plain batch": TWO,
    **{f"a batch of {codec}": batch for codec, batch in PACKED.items()},
    "a compressed batch that lost all, whatever stands behind": changed(PACKED["gzip"], 57, ">i", 0),
    "a batch of a producer": BY_A_PRODUCER,
    "a batch of a transaction": changed(BY_A_PRODUCER, 21, ">h", 0x10),
    "a batch that lost its last records": changed(TWO, 23, ">i", 9),
    "a batch that lost all": changed(TWO[:HEADER_SIZE], 57, ">i", 0),
    "the time of appending, whatever the records say": changed(changed(TWO, 21, ">h", 8), 35, ">q", 1),
    "times that wrap": changed(changed(TWO, 27, ">q", 2**63 - 1), 35, ">q", 2**63 - 1),
    "times that are 2⁶³ apart": FAR_APART,
    "times below -1": changed(changed(TWO, 27, ">q", -5000), 35, ">q", -1),
}
struct.pack_into(">i", QUIET["a batch that lost all"], 8, HEADER_SIZE - 12)


@pytest.mark.parametrize("batch", NOT_QUIET.values(), ids=NOT_QUIET)
def test_batches_that_may_have_findings_are_not_passed_over(module: ModuleType, batch: bytearray) -> None:
    log = bytes(ONE + batch)
    assert len(rows := rows_of(log)) == 2 * chain.COLUMNS
    assert module.valid_until(log, 0, rows, 0, LIMIT) == 1


@pytest.mark.parametrize("batch", QUIET.values(), ids=QUIET)
def test_batches_without_findings_are_passed_over(module: ModuleType, batch: bytearray) -> None:
    log = bytes(ONE + batch)
    assert len(rows := rows_of(log)) == 2 * chain.COLUMNS
    assert module.valid_until(log, 0, rows, 0, LIMIT) == 2


def test_batches_are_asked_from_any_one_on(module: ModuleType) -> None:
    log = bytes(ONE + NOT_QUIET["a gap before it"] + THREE)
    rows = rows_of(log, 1000)
    assert [module.valid_until(log, 1000, rows, first, LIMIT) for first in range(4)] == [1, 2, 3, 3]


def test_an_old_message_is_never_passed_over(module: ModuleType) -> None:
    row = chain.row(5, parse_header(struct.pack(">qiIbB", 0, 14, 0, 0, 0) + bytes(8)))
    assert module.valid_until(b"", 0, row, 0, LIMIT) == 0


@pytest.mark.parametrize(("file_position", "first"), [(1, 0), (-(2**62), 0), (0, -1), (0, 3)])
def test_rows_of_another_block_are_refused(module: ModuleType, file_position: int, first: int) -> None:
    log = bytes(ONE + TWO)
    with pytest.raises(ValueError):
        module.valid_until(log, file_position, rows_of(log), first, LIMIT)


def test_rows_that_reach_out_of_the_block_are_refused(module: ModuleType) -> None:
    log = bytes(ONE + TWO)
    for size in range(len(log)):
        with pytest.raises(ValueError):
            module.valid_until(log[:size], 0, rows_of(log), 0, LIMIT)


# --- whole directories -----------------------------------------------------------------------------------------------


def said_of(path: Path) -> tuple[list[str], dict[str, int]]:
    found: list[str] = []
    tally = Verification(os.fspath(path), report=lambda finding: found.append(str(finding))).run()
    return found, asdict(tally)


def damaged(log: Path, numbers: random.Random) -> None:
    """Change one field of one header, and sometimes make its checksum true again; or drop a batch; or flip a bit."""
    data, places, position = bytearray(log.read_bytes()), [], 0
    while position < len(data):
        places.append(position)
        position += parse_header(data, position).size
    start = numbers.choice(places)
    end = start + parse_header(data, start).size
    position, layout = numbers.choice(
        [(0, ">q"), (12, ">i"), (21, ">h"), (23, ">i"), (35, ">q"), (43, ">q"), (51, ">h"), (53, ">i"), (57, ">i")]
    )
    (number,) = struct.unpack_from(layout, data, start + position)
    struct.pack_into(layout, data, start + position, numbers.choice([number + 1, max(number - 1, -1), number ^ 8, -1]))
    if numbers.random() < 0.8:
        seal_checksum(memoryview(data)[start:end])
    if numbers.random() < 0.3:
        del data[start:end]
    if numbers.random() < 0.2 and data:
        data[numbers.randrange(len(data))] ^= 1
    log.write_bytes(data)


@pytest.fixture
def mixed(tmp_path: Path, fast_disk: None) -> Path:
    """A log of several segments: three producers and none, compressed and not, appends with and without an entry."""
    path = tmp_path / "mixed"
    path.mkdir()
    numbers, sequences = random.Random(3), dict.fromkeys(range(3), 0)
    directory = LogDirectory.open(os.fspath(path))
    settings = {"segment.bytes": "20000", "index.interval.bytes": "700"}
    log = directory.create_partition(TopicPartition("mixed", 0), settings)
    for time in range(200):
        producer, count = numbers.randrange(-1, 3), numbers.randint(1, 20)
        fields: dict[str, Any] = {}
        if producer >= 0:
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences[producer]}
            sequences[producer] += count
        records = [(None, bytes(place), (), 1000 + 7 * time + place % 5) for place in range(count)]
        batch = build(records, codec="none" if time % 11 else "lz4", **fields)
        log.append(SealedBatch(memoryview(batch), count, 1, parse_header(batch).max_timestamp, len(batch)))
    directory.close()
    return path


@pytest.mark.long
def test_findings_are_the_same_when_no_batch_is_passed_over(
    mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = random.Random(5)
    for _ in range(25):
        copy = tmp_path / "copy"
        shutil.copytree(mixed, copy)
        for _ in range(numbers.randint(0, 2)):
            damaged(numbers.choice(sorted((copy / "mixed-0").glob("*.log"))), numbers)
        said = said_of(copy)
        with monkeypatch.context() as patched:
            patched.setattr(segment_inspection, "valid_until", lambda _block, _start, _rows, first, _most: first)
            assert said_of(copy) == said
        shutil.rmtree(copy)


@pytest.mark.parametrize("topic", ["codec-none", "codec-lz4", "idempotent"])
def test_no_batch_of_a_usual_log_is_taken_in_hand(topic: str, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    faults = batch_faults
    monkeypatch.setattr(segment, "batch_faults", spy(taken, lambda batch, most: batch.position, faults))
    (tally,) = [Verification(os.fspath(golden), [TopicPartition(topic, 0)], report=lambda _: None).run()]
    assert taken == [] and tally.batches > 10
