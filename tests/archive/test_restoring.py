"""Restores out of archives that are interrupted, repeated, or meet what is there already."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import sealed_records

from offsetfs.archive import marker
from offsetfs.archive.archiver import Archiver
from offsetfs.archive.manifest import PartitionManifest
from offsetfs.archive.numbered_documents import NumberedDocuments
from offsetfs.archive.object_store import ObjectStore
from offsetfs.archive.restore_to_directory import ArchiveRestore, RestoreSelection
from offsetfs.archive.verifying import VerifiedArchive, verify_archive
from offsetfs.storage import Log, LogDirectory, LogReader, TopicPartition, files
from offsetfs.storage.directory import CLEAN_SHUTDOWN, RESTORE_JOURNAL

pytestmark = pytest.mark.interop

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
TIME = 1_700_000_000_000


def append(log: Log, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        log.append(sealed_records([(None, b"%06d" % number * 40, (), TIME + number)]))


@pytest.fixture
def archived(store: ObjectStore, tmp_path: Path) -> Iterator[ObjectStore]:
    """An archive of a-0 and b-0, 30 records each."""
    (tmp_path / "source").mkdir()
    directory = LogDirectory.open(str(tmp_path / "source"))
    for each in (A, B):
        append(directory.create_partition(each, {"segment.bytes": "2000"}), 30)
    archiver = Archiver(directory, store)
    assert archiver.run().failed == {}
    archiver.close()
    directory.close()
    yield store


def restore(store: ObjectStore, path: Path, selection: RestoreSelection | None = None) -> dict[str, tuple[int, int]]:
    done = ArchiveRestore(store, str(path), selection or RestoreSelection()).run()
    return {str(partition): offsets for partition, offsets in done.partitions.items()}


def offsets(path: Path, partition: TopicPartition) -> list[int]:
    directory = LogDirectory.open(str(path), read_only=True)
    try:
        return [each.offset for each in LogReader(directory.log(partition)).records()]
    finally:
        directory.close()


class Killed(BaseException):
    """As the end of the process, without anything that runs at an end."""


def killed_at(monkeypatch: pytest.MonkeyPatch, name: str, is_here: Callable[[str], bool]) -> None:
    """End at the call of a function of `files` whose last argument fits, without a clean close of directories."""
    real = getattr(files, name)

    def call(*words: str) -> object:
        if is_here(words[-1]):
            monkeypatch.setattr(LogDirectory, "close", lambda self: self._lock.release())
            raise Killed
        return real(*words)

    monkeypatch.setattr(files, name, call)


def interrupted(
    store: ObjectStore, path: Path, monkeypatch: pytest.MonkeyPatch, selection: RestoreSelection | None = None
) -> None:
    """Restore, and end before b-0 gets its name."""
    with monkeypatch.context() as patch:
        killed_at(patch, "rename", lambda target: target.endswith("/b-0"))
        with pytest.raises(Killed):
            restore(store, path, selection)
    assert (path / "a-0").exists() and not (path / "b-0").exists()


def test_a_restore_that_goes_on_recovers_what_others_left(
    archived: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer has crashed in the directory since: the end of its log is half a batch, and there is no mark."""
    target = tmp_path / "target"
    interrupted(archived, target, monkeypatch)
    directory = LogDirectory.open(str(target))
    append(directory.create_partition(TopicPartition("c", 0)), 3)
    directory.close()
    (target / CLEAN_SHUTDOWN).unlink()
    with (target / "c-0" / "00000000000000000000.log").open("ab") as file:
        file.write(b"\0" * 7 + b"\x03\0\0")
    marked: list[bool] = []

    def opened(path: str) -> LogDirectory:
        marked.append((target / CLEAN_SHUTDOWN).exists())
        return LogDirectory.open(path)

    ArchiveRestore(archived, str(target), RestoreSelection()).run(opened)
    assert marked == [False, True]
    assert (target / CLEAN_SHUTDOWN).exists()
    directory = LogDirectory.open(str(target))
    append(directory.log(TopicPartition("c", 0)), 1, first=3)
    directory.close()
    assert offsets(target, TopicPartition("c", 0)) == [0, 1, 2, 3]
    assert offsets(target, B) == list(range(30))


def test_a_restore_that_was_killed_does_not_mark_what_it_has_changed(
    archived: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    directory = LogDirectory.open(str(target))
    append(directory.create_partition(TopicPartition("c", 0)), 3)
    directory.close()
    (target / CLEAN_SHUTDOWN).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(ArchiveRestore, "_restore", lambda *words: (_ for _ in ()).throw(Killed()))
        patch.setattr(LogDirectory, "close", lambda self: self._lock.release())
        with pytest.raises(Killed):
            restore(archived, target)
    assert not (target / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("to_ms", [None, TIME + 20])
def test_a_restore_goes_on_with_what_is_complete(
    to_ms: int | None, archived: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, selection = tmp_path / "target", RestoreSelection(from_ms=TIME + 5, to_ms=to_ms)
    interrupted(archived, target, monkeypatch, selection)
    inode = (target / "a-0").stat().st_ino
    end = 30 if to_ms is None else 20
    assert restore(archived, target, selection) == {"a-0": (5, end), "b-0": (5, end)}
    assert (target / "a-0").stat().st_ino == inode
    assert offsets(target, A) == offsets(target, B) == list(range(5, end))
    assert not [name for name in os.listdir(target) if name.endswith("-delete") or name == RESTORE_JOURNAL][1:]


def test_a_partition_created_meanwhile_is_not_taken_for_a_restored_one(
    archived: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, selection = tmp_path / "target", RestoreSelection(to_ms=TIME + 20)
    interrupted(archived, target, monkeypatch, selection)
    directory = LogDirectory.open(str(target))
    append(directory.create_partition(B), 100)
    directory.close()
    with pytest.raises(FileExistsError, match="is there already") as found:
        restore(archived, target, selection)
    assert found.value.filename == str(target / "b-0")
    assert offsets(target, B) == list(range(100))


def test_what_was_appended_to_a_restored_partition_is_not_cut(
    archived: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, selection = tmp_path / "target", RestoreSelection(to_ms=TIME + 20)
    interrupted(archived, target, monkeypatch, selection)
    directory = LogDirectory.open(str(target))
    append(directory.log(A), 5, first=100)
    directory.close()
    restore(archived, target, selection)
    assert offsets(target, A) == list(range(25))


def test_a_partition_of_a_topic_that_is_there_leaves_its_settings(archived: ObjectStore, tmp_path: Path) -> None:
    """A lost partition of the same topic is restored beside the others."""
    target = tmp_path / "target"
    assert restore(archived, target)
    (target / "a-0").rename(target / "a-1")
    directory = LogDirectory.open(str(target))
    directory.configure("a", {"retention.ms": "-1"})
    directory.close()
    warnings: list[str] = []
    done = ArchiveRestore(
        archived, str(target), RestoreSelection(lambda topic: topic == "a"), on_warning=warnings.append
    ).run()
    assert done.partitions == {A: (0, 30)}
    directory = LogDirectory.open(str(target), read_only=True)
    assert directory.settings_of("a") == {"segment.bytes": "2000", "retention.ms": "-1"}
    assert warnings == [f"a: has other partitions in {target}; its settings there stay"]


def test_a_partition_of_another_topic_with_the_name_is_refused(archived: ObjectStore, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    directory = LogDirectory.open(str(target))
    directory.create_partition(TopicPartition("a", 1), {"retention.ms": "-1"})
    directory.close()
    with pytest.raises(FileExistsError, match="is of another topic a; restore into an empty directory") as found:
        restore(archived, target)
    assert found.value.filename == str(target / "a-1")
    assert not (target / RESTORE_JOURNAL).exists()
    assert sorted(each.name for each in target.glob("*-*") if each.is_dir()) == ["a-1"]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: b"{",
        lambda data: b"[]\n",
        lambda data: b"\xff" * 10,
        lambda data: b"[" * 100_000,
        lambda data: data.replace(b'"states"', b'"status"'),
        lambda data: data.replace(b'"b-0": 1', b'"b-0": "one"'),
        lambda data: data.replace(b'"b-0": 1', b'"../b": 1'),
        lambda data: data + b"x\n",
        lambda data: data + b'["c-0", 1, 2, 3]\n',
        lambda data: data + b'["a-0", 1, 2]\n',
        lambda data: data.replace(b'"version": 2', b'"version": "2"'),
    ],
)
def test_a_damaged_journal_is_one_sentence_with_the_file(
    change: Callable[[bytes], bytes], archived: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    interrupted(archived, target, monkeypatch)
    path = target / RESTORE_JOURNAL
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(OSError, match=r"journal .*remove it|no partition") as found:
        restore(archived, target)
    assert (found.value.errno, found.value.filename) == (errno.EINVAL, str(path))


@pytest.mark.parametrize(("version", "words"), [(1, "an earlier version"), (3, "a newer version")])
def test_a_journal_of_another_version_is_refused(
    version: int, words: str, archived: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    interrupted(archived, target, monkeypatch)
    path = target / RESTORE_JOURNAL
    content = {"version": version, "url": archived.url, "selection": [None, None, None], "states": {"a-0": 1}}
    path.write_bytes(json.dumps(content).encode())
    with pytest.raises(FileExistsError, match=f"{words} of offsetfs: finish it with that, or remove") as found:
        restore(archived, target)
    assert found.value.filename == str(path)


def test_a_line_of_the_journal_that_a_crash_has_cut_is_written_again(
    archived: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    interrupted(archived, target, monkeypatch)
    path = target / RESTORE_JOURNAL
    path.write_bytes(path.read_bytes()[:-5])
    interrupted(archived, target, monkeypatch)
    assert restore(archived, target) == {"a-0": (0, 30), "b-0": (0, 30)}


def test_a_restore_of_other_topics_does_not_go_on(
    archived: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    interrupted(archived, target, monkeypatch)
    with pytest.raises(FileExistsError, match="with other options"):
        restore(archived, target, RestoreSelection(lambda topic: topic == "a", ("a",)))


def test_a_topic_with_the_longest_name_is_restored(store: ObjectStore, tmp_path: Path) -> None:
    longest = TopicPartition("t" * 249, 0)
    (tmp_path / "source").mkdir()
    directory = LogDirectory.open(str(tmp_path / "source"))
    append(directory.create_partition(longest), 3)
    archiver = Archiver(directory, store)
    assert archiver.run().failed == {}
    archiver.close()
    directory.close()
    assert restore(store, tmp_path / "target") == {str(longest): (0, 3)}


def test_a_partition_whose_states_of_that_time_have_expired_is_named(archived: ObjectStore, tmp_path: Path) -> None:
    documents = NumberedDocuments(archived, "b-0")
    first = documents.at(1)
    assert first is not None
    as_of_ms = first.content["time_ms"] + 1000
    assert documents.publish(2, {**first.content, "time_ms": as_of_ms + 1})
    documents.delete(1)
    warnings: list[str] = []
    done = ArchiveRestore(
        archived, str(tmp_path / "target"), RestoreSelection(as_of_ms=as_of_ms), on_warning=warnings.append
    ).run()
    assert list(done.partitions) == [A]
    assert warnings == ["b-0: left out: states before number 2 have expired"]


def test_verify_names_what_a_restore_or_a_reader_would_refuse(archived: ObjectStore) -> None:
    def findings() -> list[str]:
        return [f"{each.url.removeprefix(archived.url)}: {each.reason}" for each in verify_archive(archived, done=done)]

    done = VerifiedArchive()
    assert findings() == []
    mark, copy = archived.read(marker.NAME), archived.read("a-0/manifest.json")
    archived.delete([marker.NAME])
    assert [each.split(";")[0] for each in findings()] == [
        f": is not an archive of offsetfs: it has no object {marker.NAME}"
    ]
    archived.put(marker.NAME, mark)
    archived.put("a-0/manifest.json", copy[:-3] + b"?" + copy[-2:])
    archived.put("manifest.json", b"{}")
    assert findings() == [
        "/manifest.json: is not a document of an archive of offsetfs",
        "/a-0/manifest.json: is damaged: its bytes do not match its SHA-256",
    ]
    archived.put("a-0/manifest.json", archived.read("b-0/manifest.json"))
    archived.delete(["manifest.json"])
    assert "is not a manifest of a partition: it is a copy of that of b-0" in findings()[0]


@pytest.mark.parametrize(
    "change",
    [
        {"segments": []},
        {"topic_id": "??"},
        {"topic_id": "YWJj"},
        {"settings": None},
        {"log_start": -1},
        {"time_ms": "soon"},
        {"leader_epochs": [[1]]},
        {"block_bytes": 0},
    ],
)
def test_an_impossible_manifest_is_one_sentence(
    change: dict[str, object], archived: ObjectStore, tmp_path: Path
) -> None:
    documents = NumberedDocuments(archived, "a-0")
    first = documents.at(1)
    assert first is not None
    assert documents.publish(2, {**first.content, **change})
    for selection in (RestoreSelection(), RestoreSelection(as_of_ms=2**62)):
        with pytest.raises(OSError, match="is not a manifest of a partition: ") as found:
            restore(archived, tmp_path / "target", selection)
        assert found.value.errno == errno.EINVAL
    assert [each.url for each in verify_archive(archived, done=VerifiedArchive())] == [f"{archived.url}/a-0"]


def test_two_segments_with_one_name_are_refused(archived: ObjectStore) -> None:
    first = NumberedDocuments(archived, "a-0").at(1)
    assert first is not None
    segments = first.content["segments"]
    empty = {**segments[0], "end": segments[0]["base_offset"]}
    with pytest.raises(OSError, match="is not a manifest of a partition"):
        PartitionManifest.decoded({**first.content, "segments": [empty, *segments]}, archived.url)
