"""What swaps, removals and crashes leave in a partition's directory: which of it goes, when, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, plant, sealed, values_of
from fixtures.spies import spy

from offsetfs.storage import files
from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.recovery import leftover_files

pytestmark = pytest.mark.unit


def file(name: str) -> str:
    """Return the name of a segment's file, its number written out: 5.log becomes 00000000000000000005.log."""
    number, dot, suffix = name.partition(".")
    return f"{int(number):020d}.{suffix}" if number.isdigit() and dot else name


def names(text: str) -> list[str]:
    return sorted(map(file, text.split()))


def directory_of(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


# --- which files ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The names in a directory, those that go, and those that lose the ending `.swap`."""

    name: str
    present: str
    goes: str = ""
    renamed: str = ""


SWAPS = [
    Case("nothing to do", "0.log 0.index 5.log"),
    Case("files on their way out", "0.log 0.log.deleted 3.snapshot.deleted", "0.log.deleted 3.snapshot.deleted"),
    Case("unfinished output", "0.log 0.log.cleaned 0.index.cleaned", "0.log.cleaned 0.index.cleaned"),
    Case("a swap", "0.log 0.index 0.log.swap 0.index.swap 9.log", "0.log 0.index", "0.log.swap 0.index.swap"),
    Case("one for several", "0.log 2.log 2.snapshot 9.log 0.log.swap", "0.log 2.log 2.snapshot", "0.log.swap"),
    Case("several for several", "0.log 3.log 9.log 0.log.swap 2.log.swap", "0.log 3.log", "0.log.swap 2.log.swap"),
    Case("a swap of which an index is left", "0.log 0.index 9.log 0.timeindex.swap", "", "0.timeindex.swap"),
    Case("a log without its index", "0.log 0.index 9.log 0.log.swap", "0.log 0.index", "0.log.swap"),
    Case("being prepared", "0.log 0.log.cleaned 2.log.swap 2.index.swap", "0.log.cleaned 2.log.swap 2.index.swap"),
    Case("ready, the next one not", "0.log 9.log 0.log.swap 4.log.cleaned", "0.log 4.log.cleaned", "0.log.swap"),
    Case("what was kept stays", "0.log 0.cut-61 2.cut-0 2.cut-0-2 9.log 0.log.swap", "0.log", "0.log.swap"),
    Case("the snapshot at the base stays", "0.log 0.snapshot 9.log 0.log.swap", "0.log", "0.log.swap"),
    Case("names of others stay", "0.log 9.log 0.log.swap x.swap 7.swap y.deleted 1.bak.deleted", "0.log", "0.log.swap"),
]  # fmt: skip


@pytest.mark.parametrize("case", SWAPS, ids=lambda case: case.name)
def test_a_swap_is_finished_or_undone(case: Case, tmp_path: Path) -> None:
    for name in case.present.split():
        content = batch(int(name.split(".")[0]), b"v") + batch(4, b"w") if name.endswith(".log.swap") else b""
        (tmp_path / file(name)).write_bytes(content)
    pending = leftover_files.pending_swaps(str(tmp_path))
    assert (sorted(pending.removed), sorted(pending.renamed)) == (names(case.goes), names(case.renamed))
    leftover_files.remove_garbage(str(tmp_path / name) for name in leftover_files.finish_swaps(str(tmp_path)).garbage)
    left = {*names(case.present)} - {*names(case.goes)}
    renamed = {name.removesuffix(".swap") if name in names(case.renamed) else name for name in left}
    assert {path.name for path in tmp_path.iterdir()} == renamed


@pytest.mark.parametrize("offset", [2**40, 2**62, -1], ids=str)
def test_an_offset_that_no_checksum_covers_takes_no_live_segment_along(offset: int, tmp_path: Path) -> None:
    lying = bytearray(batch(0, b"v") + batch(4, b"w"))
    lying[len(batch(0, b"v")) : len(batch(0, b"v")) + 8] = offset.to_bytes(8, "big", signed=True)
    for name in ("0.log", "5.log", "9.log"):
        (tmp_path / file(name)).write_bytes(b"")
    (tmp_path / file("0.log.swap")).write_bytes(lying)
    removed = leftover_files.pending_swaps(str(tmp_path)).removed
    assert removed == [file("0.log.swap" if offset < 0 else "0.log")], "one that cannot be right is undone"


def test_the_last_segment_is_never_taken_for_one_that_was_rewritten(tmp_path: Path) -> None:
    for name in ("0.log", "9.log"):
        (tmp_path / file(name)).write_bytes(b"")
    (tmp_path / file("0.log.swap")).write_bytes(batch(0, b"v") + batch(1000, b"w"))
    removed = leftover_files.pending_swaps(str(tmp_path)).removed
    assert removed == [file("0.log")]


STRAYS = [
    Case("none", "0.log 5.log 5.snapshot"),
    Case("Kafka's: 2 goes, 5 stays", "0.log 1.log 3.log 1.snapshot 2.snapshot 5.snapshot", "2.snapshot"),
    Case("only the latest of several", "0.log 3.snapshot 5.snapshot 42.snapshot", "3.snapshot 5.snapshot"),
    Case("one below the last segment", "0.log 5.log 3.snapshot", "3.snapshot"),
    Case("without segments", "3.snapshot 7.snapshot", "3.snapshot"),
]


@pytest.mark.parametrize("case", STRAYS, ids=lambda case: case.name)
def test_snapshots_that_no_segment_begins_with_go_but_for_the_latest(case: Case) -> None:
    assert sorted(leftover_files.stray_snapshots(leftover_files.parse_segment_names(names(case.present)))) == names(
        case.goes
    )


def test_snapshots_beyond_the_end_go_and_leave_the_latest_below_it() -> None:
    present = leftover_files.parse_segment_names(names("0.log 3.snapshot 5.snapshot 42.snapshot 50.snapshot"))
    assert sorted(leftover_files.stray_snapshots(present, offset_max=9)) == names("3.snapshot 42.snapshot 50.snapshot")


def test_indexes_without_a_log_and_unfinished_files_are_the_orphans() -> None:
    orphans = names("7.index 7.timeindex 7.txnindex 7.values-map 7.records-map 0.snapshot.tmp 0.index.tmp")
    others = names("0.log 0.index 7.snapshot 7.cut-0 7.log.deleted 7.index.handover x.index readme x.tmp 7.tmp")
    assert sorted(leftover_files.orphans(leftover_files.parse_segment_names([*orphans, *others]))) == orphans


# --- in which order ---------------------------------------------------------------------------------------------------


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    taken: list[str] = []

    def noted(call: Callable[..., object], word: str) -> Callable[..., object]:
        def instead(path: str, *rest: str) -> None:
            taken.append(word if word == "sync" else f"{word} {path.rpartition('/')[2].lstrip('0') or '0'}")
            call(path, *rest)

        return instead

    for name, word in (("remove_file", "remove"), ("rename", "rename"), ("sync_directory", "sync")):
        monkeypatch.setattr(files, name, noted(getattr(files, name), word))
    return taken


def test_what_is_undone_is_gone_before_its_record(tmp_path: Path, steps: list[str]) -> None:
    for name in ("1.log", "1.log.cleaned", "2.log.swap"):
        (tmp_path / file(name)).write_bytes(b"")
    leftover_files.finish_swaps(str(tmp_path))
    assert steps == ["sync", "remove 2.log.swap", "sync", "sync"]
    assert (tmp_path / file("1.log.cleaned")).exists()


def test_what_is_replaced_is_gone_before_the_new_has_its_name(tmp_path: Path, steps: list[str]) -> None:
    for name in ("1.log", "3.log", "9.log", "1.index.swap", "3.log.deleted"):
        (tmp_path / file(name)).write_bytes(b"")
    (tmp_path / file("1.log.swap")).write_bytes(batch(1, b"v") + batch(4, b"w"))
    leftover_files.finish_swaps(str(tmp_path))
    assert [steps[0], *sorted(steps[1:3])] == ["sync", "remove 1.log", "remove 3.log"]
    assert steps[3:] == ["sync", "rename 1.log.swap", "rename 1.index.swap", "sync"]


# --- a directory that was closed cleanly ------------------------------------------------------------------------------


@pytest.mark.damages
@pytest.mark.promise("Opening a directory and closing it without a write changes no byte.")
def test_garbage_in_a_clean_directory_stays_until_the_first_change(tmp_path: Path) -> None:
    partition = plant(tmp_path, {0: [batch(0, b"a")], 5: [batch(5, b"b")]})
    garbage = ["0.log.deleted", "2.index.cleaned", "3.index", "3.timeindex", "1.snapshot", "2.snapshot", "99.snapshot"]
    others = ["0.cut-61", "notes.txt", "5.snapshot"]
    for name in [*garbage, *others]:
        (partition / file(name)).write_bytes(b"x")
    directory = LogDirectory.open(str(tmp_path))
    assert values_of(directory.log(PARTITION)) == [b"a", b"b"]
    made_anew = {f"{PARTITION}/{base:020d}{suffix}" for base in (0, 5) for suffix in (".index", ".timeindex")}
    before = directory_of(tmp_path)
    directory.close()
    assert directory_of(tmp_path) == before and made_anew < before.keys()
    directory = LogDirectory.open(str(tmp_path))
    directory.log(PARTITION).append(sealed(b"c"))
    names = {path.name for path in partition.iterdir()}
    assert not names & {file(name) for name in garbage} and names > {file(name) for name in others}
    directory.close()


def test_a_swap_in_a_clean_directory_is_finished_after_its_mark_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = plant(tmp_path, {0: [batch(0, b"old"), batch(2, b"old")], 4: [batch(4, b"after")]})
    (partition / file("0.log.swap")).write_bytes(batch(2, b"new"))
    marks: list[bool] = []
    rename = files.rename
    monkeypatch.setattr(files, "rename", spy(marks, lambda *paths: (tmp_path / CLEAN_SHUTDOWN).exists(), rename))
    reader = LogDirectory.open(str(tmp_path), read_only=True)
    assert values_of(reader.log(PARTITION)) == [b"new", b"after"] and marks == []
    directory = LogDirectory.open(str(tmp_path))
    assert (tmp_path / CLEAN_SHUTDOWN).exists()  # the log was not opened yet
    log = directory.log(PARTITION)
    assert values_of(log) == [b"new", b"after"] and marks == [False]
    assert {path.suffix for path in partition.iterdir()} <= {".log", ".index", ".timeindex"}
    directory.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


def test_a_leftover_file_that_cannot_be_removed_prevents_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = plant(tmp_path, {0: [batch(0, b"a")]})
    (partition / file("0.log.deleted")).mkdir()
    directory = LogDirectory.open(str(tmp_path))
    assert directory.log(PARTITION).append(sealed(b"b")).base_offset == 1
    directory.close()
    assert (partition / file("0.log.deleted")).exists()


def test_after_a_crash_orphans_and_strays_go_at_once_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    partition = plant(tmp_path, {0: [batch(0, b"a")], 5: [batch(5, b"b")]}, is_clean=False, recovery_point=5)
    garbage = ["3.index", "3.txnindex", "3.values-map", "3.records-map", "1.snapshot", "7.snapshot"]
    garbage += ["2.log.deleted", "2.log.cleaned"]
    others = ["0.cut-61", "notes.txt", "7.index.bak", "8.cut-0"]
    for name in [*garbage, *others]:
        (partition / file(name)).write_bytes(b"")
    for name in ("orders-0.0123456789abcdef0123456789abcdef-stray", "orders-1.0123456789abcdef0123456789abcdef-future"):
        (tmp_path / name).mkdir()
        (tmp_path / name / file("0.log")).write_bytes(b"junk")
    LogDirectory.open(str(tmp_path)).close()
    left = {path.name for path in partition.iterdir()}
    assert not left & {file(name) for name in garbage} and left > {file(name) for name in others}
    assert [path.read_bytes() for path in tmp_path.glob("*-*.*/*")] == [b"junk"] * 2
