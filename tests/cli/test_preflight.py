"""What is wrong with a mount before it is made, in a sentence and a code."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import FAILED, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.mounts import retention_warnings
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.settings.topic_settings import TopicSettings

pytestmark = pytest.mark.unit

SEGMENT = "00000000000000000000.log"


def check(path: Path, *, read_only: bool = False, create: bool = False) -> list[str]:
    return preflight.check_directory(os.fspath(path), read_only=read_only, may_be_empty=create)


def make(root: Path, *names: str) -> None:
    """Make files and, where a name ends in a slash, directories."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_bytes(b"")


# --- the log directory -----------------------------------------------------------------------------------------------


def test_what_kafka_wrote_is_a_log_directory(golden: Path) -> None:
    assert check(golden, read_only=True) == []


def test_what_we_made_is_a_log_directory(tmp_path: Path) -> None:
    directory = LogDirectory.open(os.fspath(tmp_path))
    directory.create_partition(TopicPartition("orders", 0))
    directory.close()
    assert check(tmp_path) == []


@pytest.mark.damages
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(["orders-0/" + SEGMENT], id="a partition with a segment"),
        pytest.param(["meta.properties"], id="a broker's mark"),
        pytest.param(["recovery-point-offset-checkpoint", "orders-0/"], id="checkpoints and an empty partition"),
        pytest.param(["orders-0/" + SEGMENT, "orders-1/"], id="an empty partition beside a full one"),
        pytest.param(["orders-0/" + SEGMENT, "a-0.64f0c1-delete/", "lost+found/", ".trash/"], id="known others"),
    ],
)
def test_these_are_log_directories(tmp_path: Path, content: list[str]) -> None:
    make(tmp_path, *content)
    assert check(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param([], "is empty: to start a new log directory, mount it with -o create", id="nothing"),
        pytest.param(
            [".lock", "lost+found/"], "is empty: to start a new log directory, mount it", id="nothing that counts"
        ),
        pytest.param(["notes.txt"], "holds neither partitions", id="foreign files"),
        pytest.param(["dbus-1/"], "none of its partitions contains a segment", id="a name like a partition's"),
        pytest.param(["dbus-1/system.conf"], "holds neither partitions", id="and other things"),
        pytest.param(
            ["meta.properties", "backup-1/a.txt"], "backup-1: is named like a partition", id="in a log directory"
        ),
    ],
)
def test_these_are_none_or_not_to_be_written_to(tmp_path: Path, content: list[str], sentence: str) -> None:
    make(tmp_path, *content)
    with pytest.raises(Failure, match=re.escape(sentence)) as caught:
        check(tmp_path)
    assert caught.value.code == WRONG_CALL


def test_an_empty_directory_is_one_with_create(tmp_path: Path) -> None:
    assert check(tmp_path, create=True) == []


def test_read_only_a_directory_named_like_a_partition_is_harmless(tmp_path: Path) -> None:
    make(tmp_path, "meta.properties", "backup-1/a.txt")
    assert check(tmp_path, read_only=True) == []


def test_what_is_not_there_or_no_directory_is_no_log_directory(tmp_path: Path) -> None:
    make(tmp_path, "file")
    for name, sentence in (("missing", "there is no such directory"), ("file", "is not a directory")):
        with pytest.raises(Failure, match=sentence):
            check(tmp_path / name)


def test_the_index_cache_of_tiered_storage_causes_no_warning(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    (tmp_path / "remote-log-index-cache").mkdir()
    assert preflight.check_directory(str(tmp_path), read_only=True, may_be_empty=True) == []


def test_directories_that_are_no_partitions_are_reported_in_groups(tmp_path: Path) -> None:
    make(tmp_path, "orders-0/" + SEGMENT, *(f"stranger{number}/" for number in range(9)))
    warnings = check(tmp_path)
    assert len(warnings) == 6
    assert warnings[0].endswith("stranger0 is not a partition and is not shown")
    assert warnings[-1].endswith("4 more directories are not partitions")


# --- the mount point -------------------------------------------------------------------------------------------------


def test_a_mount_point_is_a_directory_where_nothing_is_mounted(tmp_path: Path) -> None:
    make(tmp_path, "file", "directory/")
    preflight.check_mount_point(os.fspath(tmp_path / "directory"))
    for path, sentence, code in (
        (tmp_path / "missing", "the mount point does not exist: create it with mkdir", WRONG_CALL),
        (tmp_path / "file", "is not a directory", WRONG_CALL),
        (Path("/proc"), "another file system is already mounted there (proc)", FAILED),
    ):
        with pytest.raises(Failure, match=re.escape(sentence)) as caught:
            preflight.check_mount_point(os.fspath(path))
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("log", "mount", "sentence"),
    [
        ("log", "log", "is the log directory itself"),
        ("log", "log/mnt", "is in the log directory"),
        ("log", "link/mnt", "is in the log directory"),
        ("mnt/log", "mnt", "contains the log directory"),
        ("mnt/../mnt/log", "mnt/", "contains the log directory"),
    ],
)
def test_neither_may_lie_in_the_other(tmp_path: Path, log: str, mount: str, sentence: str) -> None:
    make(tmp_path, "log/mnt/", "mnt/log/")
    (tmp_path / "link").symlink_to("log")
    with pytest.raises(Failure, match=sentence) as caught:
        preflight.check_not_nested(f"{tmp_path}/{log}", f"{tmp_path}/{mount}")
    assert caught.value.code == WRONG_CALL


def test_neighbors_with_one_beginning_are_apart(tmp_path: Path) -> None:
    make(tmp_path, "log/", "log2/")
    preflight.check_not_nested(f"{tmp_path}/log", f"{tmp_path}/log2")
    assert not (tmp_path / "log2").samefile(tmp_path / "log")


# --- the system ------------------------------------------------------------------------------------------------------


def test_without_the_device_there_is_no_mount(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="modprobe fuse") as caught:
        preflight.check_fuse(os.fspath(tmp_path / "fuse"))
    assert caught.value.code == SYSTEM


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [("user_allow_other\n", True), ("# user_allow_other\n", False), ("", False), ("x\n user_allow_other \n", True)],
)
def test_a_user_lets_others_in_only_where_the_administrator_agreed(tmp_path: Path, text: str, is_allowed: bool) -> None:
    (tmp_path / "fuse.conf").write_text(text)
    try:
        preflight.check_allow_other(os.fspath(tmp_path / "fuse.conf"))
        said = None
    except Failure as failure:
        said = failure.message
    assert (said is None) == is_allowed and "user_allow_other" in (said or "user_allow_other")


# --- what a mount would remove ---------------------------------------------------------------------------------------

HOUR_MS = 3_600_000


def archive(path: Path, *ages_ms: int, roll: bool = False) -> None:
    """Make orders-0 with a record of each age, the oldest first; with `roll` an empty active segment behind them."""
    directory = LogDirectory.open(os.fspath(path))
    log = directory.create_partition(TopicPartition("orders", 0), {"index.interval.bytes": "0"})
    now_ms = time.time_ns() // 1_000_000
    for age_ms in ages_ms:
        builder = BatchBuilder(1 << 12)
        assert builder.append(None, b"value", (), now_ms - age_ms)
        log.append(builder.seal())
    if roll:
        log.roll()
    directory.close()


@pytest.mark.parametrize("roll", [False, True])
def test_a_mount_that_would_remove_an_archive_reports_it_before(tmp_path: Path, roll: bool) -> None:
    archive(tmp_path, 300 * HOUR_MS, 200 * HOUR_MS, roll=roll)
    [warning] = retention_warnings.warnings(os.fspath(tmp_path), MountOptions())
    assert "all records of orders-0 are older than retention.ms" in warning and "-o retention.ms=-1" in warning


@pytest.mark.parametrize(
    ("ages_ms", "options", "settings"),
    [
        ((300 * HOUR_MS, 10 * HOUR_MS), "", {}),
        ((300 * HOUR_MS,), "retention.ms=-1", {}),
        ((300 * HOUR_MS,), "", {"retention.ms": "-1"}),
        ((300 * HOUR_MS,), "cleanup.policy=compact", {}),
        ((), "", {}),
    ],
    ids=["some are young", "the mount keeps all", "the topic keeps all", "compacted", "empty"],
)
def test_a_topic_that_keeps_segments_causes_no_warning(
    tmp_path: Path, ages_ms: tuple[int, ...], options: str, settings: dict[str, str]
) -> None:
    archive(tmp_path, *ages_ms)
    if settings:
        TopicSettings(os.fspath(tmp_path)).change("orders", settings)
    assert retention_warnings.warnings(os.fspath(tmp_path), MountOptions.parse([options])) == []


def test_a_brokers_directory_causes_no_warning(tmp_path: Path) -> None:
    archive(tmp_path, 300 * HOUR_MS)
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    assert retention_warnings.warnings(os.fspath(tmp_path), MountOptions()) == []
