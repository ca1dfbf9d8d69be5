"""A tree of files that is on no disk: which paths belong to it, and that nothing changes it."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offsetfs.storage import files

pytestmark = pytest.mark.unit

ROOT = "mem://place/logs"


class OneFile:
    """A tree with one partition that has one file."""

    def open_file(self, path: str) -> files.File:
        return files.File(path, -1)

    def names(self, path: str) -> dict[str, int]:
        return {"orders-0": 1} if path == ROOT else {"a": 2}

    def is_directory(self, path: str) -> bool:
        return path in (ROOT, f"{ROOT}/orders-0")

    def status(self, path: str) -> os.stat_result:
        if path == f"{ROOT}/orders-0/a":
            return os.stat_result((0o100440, 2, 0, 1, 0, 0, 7, 0, 0, 0))
        raise FileNotFoundError(errno.ENOENT, "missing", path)

    def space(self) -> tuple[int, int]:
        return 10, 3

    def log_start(self, path: str) -> int | None:
        return 5

    def end_offset(self, path: str, size: int) -> int | None:
        return 9 if size == 7 else None


@pytest.fixture
def tree() -> Iterator[OneFile]:
    found = OneFile()
    files.attach(ROOT, found)
    with contextlib.ExitStack() as stack:
        stack.callback(files.detach, ROOT)
        yield found


def test_paths_below_the_root_are_answered_by_the_tree(tree: OneFile) -> None:
    assert files.names(ROOT) == files.directory_names(ROOT) == ["orders-0"]
    assert files.names_with_inodes(f"{ROOT}/orders-0") == [("a", 2)]
    assert files.status(f"{ROOT}/orders-0/a").st_size == 7
    assert files.exists(f"{ROOT}/orders-0/a") and not files.exists(f"{ROOT}/orders-0/b")
    assert files.is_directory(f"{ROOT}/orders-0") and not files.is_directory(f"{ROOT}/orders-0/a")
    assert (files.total_bytes(ROOT), files.free_bytes(ROOT)) == (10, 3)
    assert files.real_path(f"{ROOT}/orders-0") == f"{ROOT}/orders-0"
    assert files.recorded_log_start(f"{ROOT}/orders-0") == 5
    assert files.recorded_end_offset(f"{ROOT}/orders-0/a", 7) == 9
    assert files.recorded_end_offset(f"{ROOT}/orders-0/a", 6) is None


def test_other_paths_are_those_of_the_disk(tree: OneFile, tmp_path: Path) -> None:
    assert files.tree_of(f"{ROOT}2/orders-0") is None
    assert files.tree_of(str(tmp_path)) is None
    assert files.recorded_log_start(str(tmp_path)) is None
    assert not files.exists("mem://other/a")
    files.detach(ROOT)
    assert files.tree_of(ROOT) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda path: files.open_file(path, create=True),
        lambda path: files.open_file(path, writable=True),
        files.create_file,
        files.make_directory,
        files.make_private_directory,
        files.remove_directory,
        files.remove_file,
        files.sync_directory,
        lambda path: files.replace_file(path, b""),
        lambda path: files.put_private(path, b""),
        lambda path: files.rename(path, "/nowhere"),
        lambda path: files.rename("/nowhere", path),
        lambda path: files.set_modified(path, 0),
        lambda path: files.locked_directory(path).__enter__(),
    ],
)
def test_nothing_changes_a_tree(tree: OneFile, change: Callable[[str], object]) -> None:
    path = f"{ROOT}/orders-0/a"
    with pytest.raises(OSError) as raised:
        change(path)
    assert raised.value.errno == errno.EROFS
    assert str(raised.value.filename).startswith(path)
