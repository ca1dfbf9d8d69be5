"""Logs whose broker keeps their head in remote storage (KIP-405): a writer beside it takes nothing from that head."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from fixtures.logs import metadata_records as records
from fixtures.logs.metadata_records import TOPIC, MetadataDirectory
from fixtures.logs.planted_logs import PARTITION
from fixtures.logs.small_logs import DAY_MS, SmallLog, record
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage import checkpoint
from offsetfs.storage.checkpoint import CLEANER_OFFSETS, HIGH_WATERMARKS, LEADER_EPOCHS, LOG_STARTS, RECOVERY_POINTS
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import PolicyViolation
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.retention import sweep

pytestmark = [
    pytest.mark.unit,
    pytest.mark.damages,
    pytest.mark.usefixtures("fast_disk"),
]  # lines that are no entries are a finding

NOW = 1_800_000_000_000
FOREIGN = ("tier 0 5000", "a/b 0 7", "later 0 1 leader=3", "negative 2 -1")
"""Of a partition in no directory here, and lines that are no entries for us."""


def written(path: Path, name: str, *lines: str) -> None:
    (path / name).write_text("".join(f"{line}\n" for line in (0, len(lines), *lines)))


def lines_of(path: Path, name: str) -> list[str]:
    version, count, *lines = (path / name).read_text().splitlines()
    assert (version, int(count)) == ("0", len(lines))
    return lines


def opened(small: SmallLog) -> SmallLog:
    """Open the directory of a log that was closed."""
    small.directory = LogDirectory.open(str(small.path), clock=small.clock)
    small.log = small.directory.log(PARTITION)
    return small


def tiered(path: Path, start: int | None, *, setting: str | None) -> SmallLog:
    """Return a log with segments at 0, 2, 4 and 6, of which the first two are gone; it begins at `start`."""
    small = SmallLog(path, FakeClock(NOW))
    for days in (9, 9, 9):
        small.segment(NOW - days * DAY_MS, NOW - days * DAY_MS)
    small.directory.close()
    for base in (0, 2):
        for name in os.listdir(path / "orders-0"):
            if name.startswith(f"{base:020d}"):
                os.remove(path / "orders-0" / name)
    written(path / "orders-0", LEADER_EPOCHS, "0 0", "3 1", "5 5")
    written(path, LOG_STARTS, *([] if start is None else [f"orders 0 {start}"]), *FOREIGN)
    if setting is not None:
        metadata = MetadataDirectory(path)
        metadata.append(
            [*records.topics(orders=[1]), records.setting(TOPIC, "orders", "remote.storage.enable", setting)]
        )
    return opened(small)


TIERED = {
    "its setting says so": (1, "true", 1),
    "it has no entry": (None, "true", 0),
    "its entry is at the first file": (4, "true", 4),
    "settings are unknown, its entry is below the first file": (1, None, 1),
    "its entry is 0": (0, None, 0),
}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(("start", "setting", "remote"), TIERED.values(), ids=TIERED)
def test_a_log_in_remote_storage_keeps_its_start_and_its_epochs(
    tmp_path: Path, start: int | None, setting: str | None, remote: int, is_clean: bool
) -> None:
    small = tiered(tmp_path, start, setting=setting)
    assert (small.log.remote_start_offset, small.log.log_start_offset) == (remote, 4)
    small.log.append(record(NOW))
    small.directory.checkpoint()
    small.reopen(in_order=is_clean)
    small.log.append(record(NOW))
    small.directory.configure("orders", {"retention.ms": "1", "retention.bytes": "1"})
    assert sweep(small.directory, [PARTITION], NOW) == ([], {})
    with pytest.raises(PolicyViolation, match="remote storage"):
        small.log.delete_records(7)
    for cut in (lambda: small.log.truncate_to(3), lambda: small.log.truncate_fully(9)):
        with pytest.raises(PolicyViolation, match="remote storage"):
            cut()
    small.directory.close()
    entry = [] if start is None else [f"orders 0 {start}"]
    assert sorted(lines_of(tmp_path, LOG_STARTS)) == sorted([*entry, *FOREIGN])
    epochs = ["0 0", "3 1", "5 5"] if is_clean or remote == 0 else [f"3 {remote}", "5 5"]
    assert lines_of(tmp_path / "orders-0", LEADER_EPOCHS) == epochs
    with contextlib.closing(LogDirectory.open(str(tmp_path), read_only=True)) as reader:
        note = reader.remote_note(PARTITION)
        assert note == reader.log(PARTITION).remote_note
        assert (note is None) if remote == 4 else (note or "").startswith(f"offsets {remote} to 3 are only in the rem")


def test_a_log_that_is_not_in_remote_storage_is_one_of_ours(tmp_path: Path) -> None:
    small = tiered(tmp_path, 1, setting="false")
    assert (small.log.remote_start_offset, small.log.remote_note) == (None, None)
    assert small.log.delete_records(5) == 5
    small.directory.close()
    assert "orders 0 5" in lines_of(tmp_path, LOG_STARTS)


def test_lines_of_others_stay_in_every_checkpoint(tmp_path: Path) -> None:
    small = SmallLog(tmp_path, FakeClock(NOW))
    small.segment(NOW, NOW)
    small.directory.close()
    names = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS)
    for name in names:
        written(tmp_path, name, *FOREIGN)
    opened(small).segment(NOW)
    small.log.delete_records(1)
    small.directory.set_cleaner_offset(PARTITION, 2)
    other = TopicPartition("clicks", 0)
    small.directory.create_partition(other)
    small.directory.delete_partition(other)
    small.directory.close()
    for name in names:
        ours = [line for line in lines_of(tmp_path, name) if line not in FOREIGN]
        assert set(FOREIGN) < set(lines_of(tmp_path, name)) and len(ours) == 1 and ours[0].startswith("orders 0 ")


DAMAGE = {"another version": "1\n0\n", "a wrong count": "0\n2\norders 0 1\n", "no text": "\xff"}


@pytest.mark.parametrize("text", DAMAGE.values(), ids=DAMAGE)
def test_an_unreadable_checkpoint_is_kept_under_another_name(tmp_path: Path, text: str) -> None:
    small = SmallLog(tmp_path, FakeClock(NOW))
    small.directory.close()
    for name in (LOG_STARTS, HIGH_WATERMARKS):
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    opened(small).segment(NOW)
    small.directory.close()
    for name in (LOG_STARTS, HIGH_WATERMARKS):
        assert (tmp_path / f"{name}.damaged").read_bytes() == text.encode("latin-1")
        checkpoint.read_offsets(str(tmp_path / name))
