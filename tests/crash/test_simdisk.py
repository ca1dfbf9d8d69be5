"""The simulated disk itself: what a power cut may leave of it, all of it in the end, and what it never may."""

import errno
import os
from collections.abc import Callable
from random import Random

import pytest
from fixtures.simulation.simdisk import ROOT, SimDisk
from fixtures.simulation.simsystem import SHORT, System, simulated

from offsetfs.storage import files

pytestmark = pytest.mark.crash

CUTS = 300
OLD, NEW = b"o" * 1024, b"n" * 1024


def after(*actions: Callable[[], object]) -> SimDisk:
    """Return a disk on which `/a` holds OLD, synced with its name, after these actions on it."""
    disk = SimDisk()
    with simulated(disk):
        with files.open_file("/a", create=True) as file:
            file.write(0, OLD)
            file.sync()
        files.sync_directory("/")
        for action in actions:
            action()
    return disk


def cuts(disk: SimDisk) -> list[dict[str, bytes]]:
    """Return the files that each of many power cuts leaves."""
    left = [disk.crash(Random(seed)) for seed in range(CUTS)]
    return [{n: d for name in each.directory(ROOT).names for n, d in each.tree(name).items()} for each in left]


def write(position: int, data: bytes, *, path: str = "/a", sync: bool = False) -> Callable[[], None]:
    def action() -> None:
        with files.open_file(path, create=True) as file:
            file.write(position, data)
            if sync:
                file.sync()

    return action


def truncate(size: int) -> Callable[[], None]:
    def action() -> None:
        with files.open_file("/a", writable=True) as file:
            file.truncate(size)

    return action


# --- what may be left


OUTCOMES: dict[str, tuple[Callable[[], object], list[Callable[[bytes | None], bool]]]] = {
    "a write over old bytes": (
        write(0, NEW),
        [
            lambda left: left == NEW,
            lambda left: left == OLD,
            lambda left: left is not None and 0 < left.count(b"n") < 1024 and left.startswith(b"n" * 10),
            lambda left: left == NEW[:512] + OLD[512:],
            lambda left: left == OLD[:512] + NEW[512:],
            lambda left: left == bytes(1024),
            lambda left: left is not None and len(set(left)) > 100,
        ],
    ),
    "a write behind the end": (
        write(1024, NEW),
        [
            lambda left: left == OLD + NEW,
            lambda left: left == OLD,
            lambda left: left == OLD + bytes(1024),
            lambda left: left is not None and len(left) < 2048 and left.startswith(OLD + b"n"),
            lambda left: left is not None and len(left) == 2048 and left.endswith(NEW[:512]) and bytes(10) in left,
        ],
    ),
    "a file that is cut": (
        truncate(100),
        [lambda left: left == OLD, lambda left: left == OLD[:100]],
    ),
    "a name that is removed": (
        lambda: files.remove_file("/a"),
        [lambda left: left == OLD, lambda left: left is None],
    ),
}


@pytest.mark.parametrize(("action", "outcomes"), OUTCOMES.values(), ids=OUTCOMES)
def test_what_was_not_synced_may_be_left_in_every_way(
    action: Callable[[], object], outcomes: list[Callable[[bytes | None], bool]]
) -> None:
    left = [each.get("a") for each in cuts(after(action))]
    for number, is_one in enumerate(outcomes):
        assert any(is_one(each) for each in left), f"outcome {number} never came"


def test_a_new_name_and_the_bytes_behind_it_are_lost_apart() -> None:
    left = [each.get("b") for each in cuts(after(write(0, NEW, path="/b", sync=True)))]
    assert {NEW, None} == set(left), "the bytes were synced, the name was not"
    left = [each.get("b") for each in cuts(after(write(0, NEW, path="/b"), lambda: files.sync_directory("/")))]
    assert {NEW, b""} < set(left) and None not in left, "the name was synced, the bytes were not"


def test_names_change_each_for_itself() -> None:
    def rename_two() -> None:
        for name in ("b", "c"):
            write(0, NEW, path=f"/{name}", sync=True)()
        files.sync_directory("/")
        files.rename("/b", "/b2")
        files.rename("/c", "/c2")

    left = {frozenset(each) for each in cuts(after(rename_two))}
    assert left == {frozenset({"a", b, c}) for b in ("b", "b2") for c in ("c", "c2")}


# --- what must be left


def test_synced_bytes_and_names_never_change() -> None:
    disk = after(write(0, NEW, sync=True), write(1024, OLD), lambda: files.remove_file("/a"))
    for left in cuts(disk):
        assert "a" not in left or left["a"].startswith(NEW), "behind them anything may be"
    assert all(each == {"a": NEW} for each in cuts(after(write(0, NEW, sync=True))))


def test_only_the_bytes_of_a_write_are_touched_and_not_their_whole_sectors() -> None:
    for left in cuts(after(write(100, b"n" * 50))):
        assert left["a"][:100] == OLD[:100] and left["a"][150:] == OLD[150:]


def test_a_name_that_is_replaced_never_stands_for_nothing() -> None:
    left = cuts(after(lambda: files.replace_file("/a", NEW)))
    assert {each["a"] for each in left} == {NEW}, "replace_file syncs the directory"
    disk = after(write(0, NEW, path="/b", sync=True), lambda: files.rename("/b", "/a"))
    assert {each["a"] for each in cuts(disk)} == {OLD, NEW}


def test_a_process_that_is_killed_loses_nothing() -> None:
    disk = after(write(0, NEW), lambda: files.rename("/a", "/b")).clone()
    assert disk.tree("b") == {"b": NEW}
    assert len({frozenset(each.items()) for each in cuts(disk)}) > 5, "and a later power cut still takes it"


def test_a_sync_that_failed_has_given_up_what_it_was_to_cover() -> None:
    def fail_once(system: System) -> None:
        def fault(kind: str, path: str) -> None:
            if kind == "sync":
                system.fault = lambda _kind, _path: None
                raise OSError(errno.EIO, "injected", path)

        system.fault = fault

    disk = after()
    with simulated(disk) as system, files.open_file("/a", writable=True) as file:
        file.write(0, b"lost")
        fail_once(system)
        with pytest.raises(OSError, match="injected"):
            file.sync()
        file.write(512, b"kept")
        file.sync()
        assert file.read(0, 4) == b"lost", "readers see it until the power goes"
    left = {(each["a"][:4] == b"lost", each["a"][512:516]) for each in cuts(disk)}
    assert left == {(True, b"kept"), (False, b"kept")}


# --- the history


def test_a_history_leads_through_every_state() -> None:
    before = after()
    disk = before.clone()
    with simulated(disk):
        write(0, NEW)()
        files.rename("/a", "/b")
        write(0, b"x", path="/c")()
    states = []
    for change in disk.history:
        before.apply(change)
        states.append(sorted(before.directory(ROOT).names))
    assert states == [["a"], ["b"], ["b", "c"], ["b", "c"]]
    assert before.tree("b") == disk.tree("b") == {"b": NEW}


def test_the_same_seed_leaves_the_same() -> None:
    disk = after(write(0, NEW), write(900, OLD), lambda: files.rename("/a", "/b"))
    assert cuts(disk) == cuts(disk)


# --- the system


def test_open_descriptors_are_counted_and_none_is_real() -> None:
    disk = after()
    with simulated(disk) as system:
        file = files.open_file("/a")
        assert system.open_paths(disk) == ["/a"]
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file.fd)
        file.close()
        assert system.open_paths() == []


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_short_call_is_gone_on_with(kind: str) -> None:
    disk = after()
    with simulated(disk) as system, files.open_file("/a", writable=True) as file:
        system.fault = lambda each, path: SHORT if each == kind else None
        file.write(0, NEW)
        assert file.read(0, 1024) == NEW
    writes = [change for change in disk.history if change[0] == "write"]
    assert len(writes) > 5 if kind == "write" else len(writes) == 2


def test_a_full_disk_takes_a_part_of_a_write() -> None:
    def full(kind: str, path: str) -> None:
        if kind == "write":
            raise OSError(errno.ENOSPC, "injected", path)

    disk = after()
    with simulated(disk) as system, files.open_file("/a", writable=True) as file:
        system.fault = full
        with pytest.raises(OSError, match="injected"):
            file.write(0, NEW)
    assert disk.tree("a") == {"a": NEW[:512] + OLD[512:]}


ERRORS: dict[str, tuple[Callable[[], object], type[OSError]]] = {
    "a file that is not there": (lambda: files.read_file("/none"), FileNotFoundError),
    "a directory that is not there": (lambda: files.names("/none"), FileNotFoundError),
    "a file in a file": (lambda: files.read_file("/a/b"), NotADirectoryError),
    "a directory that is there": (lambda: files.make_directory("/d"), FileExistsError),
    "to remove a directory as a file": (lambda: files.remove_file("/d"), IsADirectoryError),
    "to remove a directory that holds something": (lambda: files.remove_directory("/d"), OSError),
    "to list a file": (lambda: files.names("/a"), NotADirectoryError),
    "to rename what is not there": (lambda: files.rename("/none", "/b"), FileNotFoundError),
}


@pytest.mark.parametrize(("action", "error"), ERRORS.values(), ids=ERRORS)
def test_it_refuses_what_a_system_refuses(action: Callable[[], object], error: type[OSError]) -> None:
    def prepare() -> None:
        files.make_directory("/d")
        write(0, b"", path="/d/x")()

    with simulated(after(prepare)), pytest.raises(error):
        action()
