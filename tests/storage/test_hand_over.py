"""Handing a partition over to a stopped broker's directory; a real broker opens the result in tests/interop."""

from pathlib import Path

import pytest

from offsetfs.storage import files
from offsetfs.storage.checkpoint import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    read_offsets,
)
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.hand_over import HandOverRefused, hand_over
from offsetfs.storage.errors import LogDirectoryLocked, StorageError, UnknownPartition
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = pytest.mark.unit

EMPTY = TopicPartition("empty", 0)
VALUES = [b"%03d" % number for number in range(100)]


@pytest.fixture
def ours(tmp_path: Path) -> str:
    path = tmp_path / "ours"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    log = directory.create_partition(EMPTY, {"segment.bytes": "700", "index.interval.bytes": "0"})
    for value in VALUES:
        builder = BatchBuilder(1 << 12, Compression("none"))
        assert builder.append(None, value, (), 1000)
        log.append(builder.seal())
    directory.close()
    return str(path)


def values_in(path: Path, partition: TopicPartition = EMPTY) -> list[bytes | None]:
    log = LogDirectory.open(str(path), read_only=True).log(partition)
    log.check()
    return [record.value for s in log.snapshot() for batch in s.batches() for record in batch.records()]


def test_the_brokers_empty_partition_becomes_ours_under_its_topic_id(ours: str, golden_copy: Path) -> None:
    metadata = (golden_copy / "empty-0" / PARTITION_METADATA).read_bytes()
    result = hand_over(ours, EMPTY, str(golden_copy))
    assert (result.log_start_offset, result.next_offset) == (0, 100) and result.segments > 5
    assert values_in(golden_copy) == VALUES == values_in(Path(ours))
    assert (golden_copy / "empty-0" / PARTITION_METADATA).read_bytes() == metadata
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        assert read_offsets(str(golden_copy / name))[EMPTY] == 100
    assert not list((golden_copy / "empty-0").glob("*.handover"))


def test_every_batch_carries_the_epoch_of_the_broker(ours: str, golden_copy: Path) -> None:
    (golden_copy / "empty-0" / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    hand_over(ours, EMPTY, str(golden_copy))
    log = LogDirectory.open(str(golden_copy), read_only=True).log(EMPTY)
    assert {h.leader_epoch for s in log.snapshot() for _, h in s.headers()} == {7}
    assert log.epochs.entries == ((7, 0),)


def test_a_partition_with_records_is_refused_and_untouched(ours: str, golden_copy: Path) -> None:
    source = LogDirectory.open(ours)
    source.create_partition(TopicPartition("codec-lz4", 0))
    source.close()
    before = values_in(golden_copy, TopicPartition("codec-lz4", 0))
    with pytest.raises(HandOverRefused, match="holds records"):
        hand_over(ours, TopicPartition("codec-lz4", 0), str(golden_copy))
    assert values_in(golden_copy, TopicPartition("codec-lz4", 0)) == before


def test_a_topic_that_the_broker_does_not_know_is_refused_with_what_to_do(ours: str, golden_copy: Path) -> None:
    (golden_copy / "empty-0" / PARTITION_METADATA).unlink()
    with pytest.raises(HandOverRefused, match="create topic empty"):
        hand_over(ours, EMPTY, str(golden_copy))


def test_a_broker_that_was_killed_is_refused(ours: str, golden_copy: Path) -> None:
    (golden_copy / CLEAN_SHUTDOWN).unlink()
    with pytest.raises(HandOverRefused, match="cleanly"):
        hand_over(ours, EMPTY, str(golden_copy))


def test_a_running_writer_on_either_side_is_refused(ours: str, golden_copy: Path) -> None:
    for path in (ours, str(golden_copy)):
        directory = LogDirectory.open(path)
        with pytest.raises(LogDirectoryLocked):
            hand_over(ours, EMPTY, str(golden_copy))
        directory.close()


def test_an_unknown_partition_is_refused(ours: str, golden_copy: Path) -> None:
    with pytest.raises(UnknownPartition):
        hand_over(ours, TopicPartition("missing", 0), str(golden_copy))


@pytest.mark.parametrize("renames", [0, 1, 5])
def test_an_attempt_that_broke_off_can_be_made_again(
    ours: str, golden_copy: Path, renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = 0
    rename = files.rename

    def breaks(source: str, target: str) -> None:
        nonlocal done
        if done == renames:
            raise StorageError("power cut")
        done += 1
        rename(source, target)

    monkeypatch.setattr(files, "rename", breaks)
    with pytest.raises(StorageError, match="power cut"):
        hand_over(ours, EMPTY, str(golden_copy))
    monkeypatch.undo()
    hand_over(ours, EMPTY, str(golden_copy))
    assert values_in(golden_copy) == VALUES
