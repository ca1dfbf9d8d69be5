"""A listing over damaged batches: each offset once and in order, and what it leaves out is reported."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio
from fixtures.logs.planted_logs import PARTITION, batch, plant

from offsetfs.fs.files.record_listing import rows
from offsetfs.fs.mount_context import mount_context
from offsetfs.fs.options import MountOptions
from offsetfs.fs.partitions import Partitions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError

BATCHES, RECORDS = 28, 30
"""Batches in two segments of the same size, and records in each batch."""


def flipped(data: bytes, bit: int) -> bytes:
    """Return a batch with one bit of its base offset flipped; bit 0 is the lowest."""
    damaged = bytearray(data)
    damaged[7 - bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def plant_with_flipped_bit(path: Path, number: int, bit: int) -> None:
    """Write a log of which batch `number` has a wrong base offset."""
    batches = [batch(n * RECORDS, *(b"%d" % (n * RECORDS + m) for m in range(RECORDS))) for n in range(BATCHES)]
    batches[number] = flipped(batches[number], bit)
    half = BATCHES // 2
    plant(path, {0: batches[:half], half * RECORDS: batches[half:]}, recovery_point=BATCHES * RECORDS)


@pytest.mark.long
@pytest.mark.unit
@pytest.mark.damages
@pytest.mark.parametrize("bit", [0, 1, 3, 5, 8, 12, 20, 33, 41, 50, 62, 63])
@pytest.mark.parametrize("number", [0, 5, 13, 14, 25])
async def test_a_flipped_bit_in_a_base_offset_hides_the_records_of_its_batch_alone(
    nursery: trio.Nursery, tmp_path: Path, number: int, bit: int
) -> None:
    plant_with_flipped_bit(tmp_path, number, bit)
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    partition = Partitions(mount_context(directory, MountOptions(), nursery)).of(PARTITION)
    await partition.open()
    damage: list[StorageError] = []
    listed = list(rows(partition, 0, partition.log.next_offset, damage.append))
    hidden = range(number * RECORDS, (number + 1) * RECORDS)
    assert [row.offset for row in listed] == list(range(BATCHES * RECORDS))
    assert [row.offset for row in listed if row.size < 0] == list(hidden)
    assert {(os.path.basename(error.path or ""), error.position is not None) for error in damage} == {
        (f"{0 if number < BATCHES // 2 else BATCHES // 2 * RECORDS:020}.log", True)
    }
    directory.close()


@pytest.mark.long
@pytest.mark.unit
@pytest.mark.damages
@pytest.mark.parametrize("bit", [1, 3, 5, 8, 63])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_last_batch_whose_offset_became_lower_moves_no_end(tmp_path: Path, bit: int, read_only: bool) -> None:
    plant_with_flipped_bit(tmp_path, BATCHES - 1, bit)
    directory = LogDirectory.open(str(tmp_path), read_only=read_only)
    log = directory.log(PARTITION)
    assert log.next_offset == BATCHES * RECORDS and log.damage
    directory.close()


@pytest.mark.mount
@pytest.mark.damages
@pytest.mark.parametrize(("number", "bit"), [(0, 41), (5, 12), (14, 63), (BATCHES - 1, 41), (BATCHES - 1, 62)])
def test_ls_ends_and_lists_every_other_record_and_the_damage_is_reported(
    mount: Any, tmp_path: Path, number: int, bit: int
) -> None:
    log = tmp_path / "log"
    plant_with_flipped_bit(log, number, bit)
    mounted = mount(log, "ro,list=all")
    listed = subprocess.run(
        ["ls", "-U", "--", mounted.path / str(PARTITION)], capture_output=True, timeout=60, check=True
    )
    assert not listed.stderr
    offsets = {int(name) for name in listed.stdout.split() if name.isdigit()}
    others = set(range(BATCHES * RECORDS)) - set(range(number * RECORDS, (number + 1) * RECORDS))
    assert others <= offsets
    assert "orders-0" in mounted.errors()
