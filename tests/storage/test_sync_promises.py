"""What others may rely on: that what was flushed is on disk, the mark of a clean end, the lock of a directory."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from fixtures.simulation.simdisk import ROOT, SimDisk
from fixtures.simulation.simsystem import System, simulated

from offsetfs.storage import files
from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import LogFailed
from offsetfs.storage.files import File
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)
VALUES = [b"%d" % number * 100 for number in range(10)]
MARK = f"/logs/{CLEAN_SHUTDOWN}"


@pytest.fixture
def system() -> Iterator[System]:
    disk = SimDisk()
    disk.do("create", ROOT, "logs", True)
    disk.do("sync", ROOT)
    with simulated(disk) as system:
        yield system


def opened() -> LogDirectory:
    return LogDirectory.open("/logs", defaults={"segment.bytes": "600", "retention.ms": "-1"})


def append(log: Log, *values: bytes) -> None:
    for value in values:
        data = build([(None, value, (), 1_700_000_000_000)])
        log.append(SealedBatch(memoryview(data), 1, len(value) + 1, Timestamp(1_700_000_000_000), len(data)))


def values(directory: LogDirectory) -> list[bytes | None]:
    log = directory.log(ORDERS)
    return [record.value for segment in log.snapshot() for batch in segment.batches() for record in batch.records()]


def cut_power(system: System) -> None:
    """Lose everything that was not synced."""
    system.disk = system.disk.crash(Random(0), "none")


def log_files(disk: SimDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.tree("logs").items() if name.endswith(".log")}


# --- records


def test_what_was_flushed_is_there_after_a_power_cut(system: System) -> None:
    directory = opened()
    directory.create_partition(ORDERS)
    append(directory.log(ORDERS), *VALUES)
    assert len(directory.log(ORDERS).snapshot()) > 2, "some rolled before the flush"
    directory.log(ORDERS).flush()
    cut_power(system)
    directory = opened()
    assert directory.has(ORDERS) and values(directory) == VALUES


def test_a_flush_syncs_the_files_that_have_changed_and_no_others(system: System) -> None:
    directory = opened()
    directory.create_partition(ORDERS)
    log = directory.log(ORDERS)
    append(log, b"a")
    system.disk.history.clear()
    log.flush()
    assert [change[0] for change in system.disk.history].count("sync") == 1, "of the log file; no index has entries"


# --- the mark of a clean end


def test_a_mark_of_a_clean_end_is_gone_before_an_append_is_on_disk(system: System) -> None:
    directory = opened()
    directory.create_partition(ORDERS)
    directory.close()
    assert files.exists(MARK)
    directory = opened()
    append(directory.log(ORDERS), *VALUES)
    directory.log(ORDERS).flush()
    cut_power(system)
    assert not files.exists(MARK)


@pytest.mark.long
def test_a_mark_of_a_clean_end_is_never_on_disk_before_what_was_appended(system: System) -> None:
    directory = opened()
    directory.create_partition(ORDERS)
    append(directory.log(ORDERS), *VALUES)
    wanted, state, marks = log_files(system.disk), system.disk.clone(), 0
    system.disk.history.clear()
    directory.close()
    for number, change in enumerate(system.disk.history):
        state.apply(change)
        system.disk = state
        cut_power(system)
        if files.exists(MARK):
            marks += 1
            assert log_files(system.disk) == wanted, f"cut after change {number} of the close"
    assert len(wanted) > 2 and 0 < marks < number


def test_no_mark_of_a_clean_end_is_left_where_a_log_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LogDirectory.open(str(tmp_path))
    directory.create_partition(ORDERS)
    log = directory.log(ORDERS)
    append(log, b"a")

    def fail(self: File) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(File, "sync", fail)
        with pytest.raises(OSError, match="Input/output"):
            log.flush()
    with pytest.raises(LogFailed):
        log.flush()
    with pytest.raises(OSError, match="Input/output"):
        directory.close()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


# --- the lock


def test_a_brokers_request_for_the_lock_is_refused(tmp_path: Path) -> None:
    script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    ask = [sys.executable, "-c", script, str(tmp_path / ".lock")]
    directory = LogDirectory.open(str(tmp_path))
    assert "BlockingIOError" in subprocess.run(ask, stderr=subprocess.PIPE, text=True, check=False).stderr
    directory.close()
    assert subprocess.run(ask, check=False).returncode == 0
