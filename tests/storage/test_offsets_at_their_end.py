"""Batches at the largest offset and times before 1970: an error with a reason for one partition, the others go on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.logs.keyed_logs import Keyed, keyed
from fixtures.logs.old_messages import message, wrapper
from fixtures.logs.planted_logs import PARTITION, plant, sealed

from offsetfs.storage import checkpoint
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.names import OFFSET_MAX, TopicPartition
from offsetfs.storage.partition.convert import convert_log

pytestmark = pytest.mark.unit

OTHER = TopicPartition("other", 0)

BEYOND_THE_END = {
    "a batch": [keyed(OFFSET_MAX, Keyed(0, b"k", b"v"))],
    "the end of a batch": [keyed(OFFSET_MAX - 1, Keyed(0, b"k", b"v"), Keyed(1, b"k", b"v"))],
    "a message": [message(1, OFFSET_MAX, b"k", b"v", 5)],
    "a second message": [message(1, OFFSET_MAX - 1, b"k", b"v", 5), message(1, OFFSET_MAX, b"k", b"v", 5)],
    "a set": [wrapper(1, OFFSET_MAX, [message(1, each, b"k", b"v", 5) for each in range(2)])],
}


@pytest.mark.damages
@pytest.mark.parametrize("first", [0, OFFSET_MAX - 5, OFFSET_MAX])
@pytest.mark.parametrize("batches", BEYOND_THE_END.values(), ids=BEYOND_THE_END)
def test_a_record_at_the_largest_offset_costs_no_other_partition_its_checkpoint(
    tmp_path: Path, batches: Sequence[bytes], first: int
) -> None:
    plant(tmp_path, {first: batches})
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.log(PARTITION)
        assert log.next_offset <= OFFSET_MAX
        log.roll()
        directory.create_partition(OTHER).append(sealed())
    ends = checkpoint.read_offsets(str(tmp_path / checkpoint.RECOVERY_POINTS))
    assert ends[OTHER] == 1 and ends[PARTITION] == log.next_offset
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        assert directory.log(OTHER).next_offset == 1


TIMES_BEFORE_1970 = {
    "messages": [message(1, offset, b"k", b"v", time) for offset, time in enumerate((-5, 1000, -(2**63), -1))],
    "one message": [message(1, 0, b"k", b"v", -5)],
    "a set": [wrapper(1, 2, [message(1, each, b"k", b"v", time) for each, time in enumerate((-5, -6, -5))], "lz4")],
    "a set with an append time": [wrapper(1, 0, [message(1, 0, b"k", b"v")], timestamp=-5, attributes=8)],
    "times far apart": [message(1, 0, b"k", b"v", 2**62), message(1, 1, b"k", b"v", -(2**62))],
}


@pytest.mark.parametrize("batches", TIMES_BEFORE_1970.values(), ids=TIMES_BEFORE_1970)
def test_times_before_1970_are_converted_as_brokers_have_stored_them(tmp_path: Path, batches: Sequence[bytes]) -> None:
    plant(tmp_path, {0: batches})
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        before = times_of(directory)
        assert min(before) < -1
        assert convert_log(directory.log(PARTITION)).segments == 1
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        assert times_of(directory) == before


def times_of(directory: LogDirectory) -> list[int]:
    batches = (batch for segment in directory.log(PARTITION).snapshot() for batch in segment.batches())
    return [record.timestamp for batch in batches for record in batch.records()]


@pytest.mark.damages
def test_a_set_with_offsets_too_far_apart_for_v2_is_an_error(tmp_path: Path) -> None:
    far = wrapper(0, 2**31, [message(0, each, b"k", b"v") for each in (0, 2**31)])
    plant(tmp_path, {0: [far]})
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        with pytest.raises(MalformedBatch, match="offsets 0 to 2147483648, too far apart"):
            convert_log(directory.log(PARTITION))
        assert len(times_of(directory)) == 2


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segment_with_batches_near_the_largest_offset_is_split(tmp_path: Path, is_clean: bool) -> None:
    offsets = [0, *range(OFFSET_MAX - 5, OFFSET_MAX - 1)]
    plant(tmp_path, {0: [keyed(each, Keyed(0, b"k", b"v")) for each in offsets]}, is_clean=is_clean, recovery_point=0)
    with closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.log(PARTITION)
        assert [each.base_offset for each in log.snapshot()] == [0, OFFSET_MAX - 5]
        assert log.next_offset == OFFSET_MAX - 1
