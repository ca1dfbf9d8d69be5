"""A crash at any step of a round of compaction: each group of segments is the old one or the new one, never neither."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.logs.cleaner import Cleaner
from fixtures.logs.keyed_logs import Keyed, end_of_transaction, keyed, last_values, offsets_of
from fixtures.spies import spy

from offsetfs.storage import files
from offsetfs.storage.compaction import segment_writer as compaction_output
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition import swap
from offsetfs.storage.partition.producers import ABORT

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

CALLS = ("rename", "remove_file", "sync_directory", "open_file", "set_modified")
FILE_CALLS = ("write", "truncate", "sync")


class Plug:
    """Lets the process be gone at the call of that number, and at every later one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
        self.left = calls
        for holder, names in ((files, CALLS), (files.File, FILE_CALLS)):
            for name in names:
                monkeypatch.setattr(holder, name, self._counted(getattr(holder, name)))

    def _counted(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **more: object) -> object:
            if self.left == 0:
                raise KeyboardInterrupt  # nothing catches it on the way
            self.left -= 1
            return real(*arguments, **more)

        return call


def batch(offset: int, letter: str) -> bytes:
    return keyed(offset, Keyed(0, letter.lower().encode(), None if letter.isupper() else b"%d" % offset))


def planted(path: Path, **settings: str) -> Cleaner:
    aborted = keyed(12, Keyed(0, b"a", b"aborted"), producer=(1, 0, 0), transactional=True)
    segments = {
        0: [batch(n, letter) for n, letter in enumerate("abac")],
        4: [batch(4 + n, letter) for n, letter in enumerate("adBe")],
        8: [batch(8 + n, letter) for n, letter in enumerate("edcA")],
        12: [aborted, end_of_transaction(13, 1, ABORT)],
        14: [batch(14, "x")],
    }
    return Cleaner(path, segments, **settings)


@pytest.mark.long
@pytest.mark.promise(
    "The latest value of each key is readable at every moment of a compaction, and after a crash at any moment."
)
@pytest.mark.parametrize("shape", ["one group", "several groups", "several segments of one group"])
def test_a_crash_at_any_step_shows_the_old_segments_or_the_new_ones(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"segment_bytes": "320"} if shape == "several groups" else {}
    if shape == "several segments of one group":
        monkeypatch.setattr(compaction_output, "RELATIVE_OFFSET_MAX", 6)
    whole = planted(tmp_path / "whole", **settings)
    wanted, old = last_values(whole.log), offsets_of(whole.log)
    whole.clean()
    new = offsets_of(whole.log)
    whole.close()
    seen = set()
    # The larger ones at every fifth call: tests/crash pulls the plug at each.
    for calls in itertools.count(step=1 if shape == "one group" else 5):
        each = planted(tmp_path / str(calls), **settings)
        each.find_dirty_range()
        with monkeypatch.context() as patch:
            plug = Plug(patch, calls)
            with contextlib.suppress(KeyboardInterrupt):
                each.clean()
        assert last_values(each.log) == wanted  # readers of the open log see all that while
        reader = LogDirectory.open(str(each.path), read_only=True)
        assert last_values(reader.log(each.log.partition)) == wanted
        reader.close()
        each.crash()
        each.log.check()
        left = offsets_of(each.log)
        seen.add(tuple(left))
        assert last_values(each.log) == wanted and each.log.damage == ()
        assert left == sorted(set(left)) and set(new) <= set(left) <= set(old)
        assert each.log.next_offset == 15
        each.directory.deletions.run_all()
        assert each.leftover_files() == [] and not list(each.partition.glob("*.deleted"))
        each.checkpoint = None
        each.clean()
        assert last_values(each.log) == wanted
        each.close()
        if plug.left:
            break
    assert {tuple(old), tuple(new)} <= seen and calls > 20
    if shape == "one group":
        assert seen == {tuple(old), tuple(new)}


# --- the swap itself --------------------------------------------------------------------------------------------------


def named(path: Path, base: int, *suffixes: str, content: bytes = b"") -> None:
    for suffix in suffixes:
        (path / segment_name(base, suffix)).write_bytes(content)


def names(path: Path) -> set[str]:
    return {f"{int(each.name[:20])}{each.name[20:]}" for each in path.iterdir()}


ALL = (".log", ".index", ".timeindex", ".txnindex")


def test_any_number_of_segments_takes_the_place_of_any_number(tmp_path: Path) -> None:
    for base in (0, 5, 9):
        named(tmp_path, base, *ALL, ".snapshot", ".values-map", ".records-map", content=b"old")
    for base in (0, 7):
        named(tmp_path, base, ".log.cleaned", ".index.cleaned", ".timeindex.cleaned", content=b"new")
    deleted = swap.replace(str(tmp_path), [0, 7], [0, 5, 9])
    live = {name for name in names(tmp_path) if not name.endswith(".deleted")}
    assert live == {f"{base}{suffix}" for base in (0, 7) for suffix in ALL[:3]} | {"0.snapshot"}
    assert {Path(path).name for path in deleted} == {p.name for p in tmp_path.iterdir() if p.suffix == ".deleted"}
    assert len(deleted) == 3 * 7 - 1
    assert (tmp_path / segment_name(0, ".log")).read_bytes() == b"new"


def test_the_highest_base_is_renamed_first_and_on_disk_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for base in (0, 7):
        named(tmp_path, base, ".log.cleaned", ".index.cleaned")
    named(tmp_path, 0, ".log")
    steps: list[str] = []
    rename, sync_directory = files.rename, files.sync_directory
    monkeypatch.setattr(files, "rename", spy(steps, lambda s, t: f"{int(Path(s).name[:20])} {Path(t).suffix}", rename))
    monkeypatch.setattr(files, "sync_directory", spy(steps, lambda path: "sync", sync_directory))
    swap.replace(str(tmp_path), [0, 7], [0])
    prepared = ["7 .swap", "7 .swap", "sync", "0 .swap", "0 .swap", "sync"]
    assert steps == [*prepared, "0 .deleted", "sync", "0 .log", "0 .index", "7 .log", "7 .index", "sync"]


def test_a_swap_without_the_new_log_is_refused(tmp_path: Path) -> None:
    named(tmp_path, 0, ".log", ".index")
    named(tmp_path, 0, ".index.cleaned")
    with pytest.raises(FileNotFoundError):
        swap.replace(str(tmp_path), [0], [0])
    assert names(tmp_path) == {"0.log", "0.index"}


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_an_unfinished_round_left_does_not_take_what_the_next_one_makes(tmp_path: Path, is_clean: bool) -> None:
    each = planted(tmp_path)
    each.close()
    for suffix in (".log.cleaned", ".index.cleaned", ".log.deleted"):
        (each.partition / segment_name(0, suffix)).write_bytes(b"of another round")
    if not is_clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    each.open()
    before = last_values(each.log)

    def is_cancelled() -> bool:
        each.clock.advance(60_001)
        each.directory.deletions.run_due()
        return False

    each.clean(is_cancelled=is_cancelled)
    assert last_values(each.log) == before and len(offsets_of(each.log)) < 15
    each.clock.advance(60_001)
    each.directory.deletions.run_due()
    assert not list(each.partition.glob("*.cleaned")) and not list(each.partition.glob("*.deleted"))
    each.close()


@pytest.mark.parametrize("call", range(6))
def test_a_swap_that_fails_before_anything_old_is_touched_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    for base in (0, 7):
        named(tmp_path, base, ".log.cleaned", ".index.cleaned")
    named(tmp_path, 0, ".log", ".index")
    before = {"0.log", "0.index"}
    calls = itertools.count()

    def failing(real: Callable[..., object]) -> Callable[..., object]:
        def step(*arguments: object) -> object:
            if next(calls) == call:
                raise OSError(5, "broken")
            return real(*arguments)

        return step

    monkeypatch.setattr(files, "rename", failing(files.rename))
    monkeypatch.setattr(files, "sync_directory", failing(files.sync_directory))
    with pytest.raises(OSError, match="broken"):
        swap.replace(str(tmp_path), [0, 7], [0])
    assert names(tmp_path) == before
