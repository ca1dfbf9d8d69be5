"""Temporary files of writers that were killed between write and rename: the next writer removes them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, plant, sealed

from offsetfs.storage import files
from offsetfs.storage.directory import unfinished_files
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.settings.topic_settings import TOPICS

pytestmark = pytest.mark.unit

KILLED = """
import os, signal, sys
from offsetfs.storage.checkpoint import CleanShutdown
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.mirror_file import MirrorFile
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.settings.topic_settings import TopicSettings

path, killed_at, is_first = sys.argv[1], sys.argv[2], len(sys.argv) > 3
replace = os.replace

def instead(source, target):
    if target.endswith(killed_at):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = instead
if is_first:
    TopicSettings(path).change("orders", {"retention.ms": "5"})
directory = LogDirectory.open(path)
directory.set_mirror(MirrorFile("cluster", "there:9092"))
log = directory.log(TopicPartition("orders", 0))
builder = BatchBuilder(1 << 16)
builder.append(b"k", b"v", (), 1_795_000_000_000)
log.append(builder.seal())
log.epochs.assign(9, log.next_offset)
log.roll()
directory.checkpoint()
directory.close()
"""
UNFINISHED = [
    "orders-0/leader-epoch-checkpoint",
    f"orders-0/{6:020d}.snapshot",
    "/recovery-point-offset-checkpoint",
    "/replication-offset-checkpoint",
    "/.offsetfs-mirror.json",
    "/.kafka_cleanshutdown",
]


def left(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*.tmp")}


def kill_before_rename(path: Path, name: str, *more: str) -> None:
    """Let a process write to the directory until it is to rename the temporary file of `name`."""
    done = subprocess.run([sys.executable, "-c", KILLED, path, name, *more], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", UNFINISHED)
def test_what_a_killed_writer_had_not_renamed_is_removed_by_the_next(tmp_path: Path, name: str) -> None:
    plant(tmp_path, {0: [batch(0, b"a")], 5: [batch(5, b"b")]})
    kill_before_rename(tmp_path, name)
    assert left(tmp_path) == {name.removeprefix("/") + ".tmp"}
    LogDirectory.open(str(tmp_path), read_only=True)
    assert left(tmp_path), "a reader removes nothing"
    directory = LogDirectory.open(str(tmp_path))
    assert left(tmp_path) == set()
    directory.log(PARTITION).append(sealed(b"c"))
    directory.close()
    assert left(tmp_path) == set()


def test_unfinished_settings_in_a_clean_directory_stay_until_the_first_change(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(0, b"a")]})
    kill_before_rename(tmp_path, f"/{TOPICS}", "first")
    LogDirectory.open(str(tmp_path)).close()
    assert left(tmp_path) == {TOPICS + ".tmp"}
    directory = LogDirectory.open(str(tmp_path))
    directory.log(PARTITION).append(sealed(b"c"))
    assert left(tmp_path) == set()
    directory.close()


def test_the_settings_that_another_process_is_writing_are_not_removed(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(0, b"a")]}, is_clean=False)
    (tmp_path / (TOPICS + ".tmp")).write_text("{")
    with files.locked_directory(str(tmp_path)):  # as `offsetfs config`, beside a mount
        directory = LogDirectory.open(str(tmp_path))
    assert left(tmp_path) == {TOPICS + ".tmp"}
    directory.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    LogDirectory.open(str(tmp_path)).close()
    assert left(tmp_path) == set()


def test_files_that_writers_write_without_the_lock_and_those_of_others_stay(tmp_path: Path) -> None:
    names = [".offsetfs-restore.json.tmp", "meta.properties.tmp", "notes.tmp", ".offsetfs-nonce-5.tmp", "x.json.tmp"]
    assert unfinished_files.unfinished(names) == []
    plant(tmp_path, {0: [batch(0, b"a")]}, is_clean=False)
    for name in names:
        (tmp_path / name).write_text(json.dumps(name))
    LogDirectory.open(str(tmp_path)).close()
    assert left(tmp_path) == set(names)


def test_a_file_that_was_written_again_before_the_first_change_stays(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(0, b"a")]})
    unfinished = tmp_path / ".offsetfs-published.json.tmp"
    unfinished.write_text("old")
    directory = LogDirectory.open(str(tmp_path))
    unfinished.unlink()
    unfinished.write_text("new")
    os.utime(unfinished, ns=(1, 1))
    directory.log(PARTITION).append(sealed(b"c"))
    assert unfinished.read_text() == "new"
    directory.close()


def test_a_temporary_file_that_cannot_be_removed_prevents_no_recovery(tmp_path: Path) -> None:
    partition = plant(tmp_path, {0: [batch(0, b"a")]}, is_clean=False)
    (partition / "partition.metadata.tmp").mkdir()
    (tmp_path / "cleaner-offset-checkpoint.tmp").mkdir()
    directory = LogDirectory.open(str(tmp_path))
    assert directory.log(PARTITION).append(sealed(b"b")).base_offset == 1
    directory.close()
