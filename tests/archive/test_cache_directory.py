"""The directory of the cache of archives: files of others are neither removed nor made private."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from offsetfs.archive.block_cache import MARK, BlockCache

pytestmark = pytest.mark.unit

SIZE_MAX = 100_000


@pytest.mark.parametrize("name", ["thesis.txt", "ab/thesis.txt", "photos/2020/beach.jpg", ".bashrc"])
def test_a_directory_with_other_files_is_no_cache(name: str, tmp_path: Path) -> None:
    path = tmp_path / "home" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"mine")
    (tmp_path / "home").chmod(0o755)
    with pytest.raises(OSError, match=r"is not a cache of offsetfs, and holds .*; give an empty or") as found:
        BlockCache(str(tmp_path / "home"), SIZE_MAX)
    assert (found.value.errno, found.value.filename) == (errno.ENOTEMPTY, str(tmp_path / "home"))
    assert path.read_bytes() == b"mine"
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("names", [[], ["lost+found"], [".offsetfs-cache.0123456789abcdef.tmp"]])
def test_an_empty_directory_becomes_a_cache(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    for _ in range(2):
        cache = BlockCache(str(tmp_path), SIZE_MAX)
        cache.put(cache.name("a"), b"block")
        assert cache.get(cache.name("a")) == b"block"


def test_the_cache_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    before = BlockCache(str(tmp_path), SIZE_MAX)
    before.put(before.name("a"), b"block")
    (tmp_path / MARK).unlink()
    assert BlockCache(str(tmp_path), SIZE_MAX).get(before.name("a")) == b"block"


def test_an_eviction_removes_only_blocks(tmp_path: Path) -> None:
    cache = BlockCache(str(tmp_path), SIZE_MAX)
    others = [tmp_path / "photos" / "beach.jpg", tmp_path / "ab" / "thesis.txt"]
    for each in others:
        each.parent.mkdir(exist_ok=True)
        each.write_bytes(b"x" * 90_000)
        os.utime(each, (1, 1))
    for number in range(100):
        cache.put(cache.name(number), b"x" * 3000)
    assert cache.size() <= SIZE_MAX
    assert [each.exists() for each in others] == [True, True]
