"""`by-key` between the index and the log: what it does when the two do not agree. And any bytes as a name."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fixtures.logs.keyed_logs import Keyed, keyed
from fixtures.logs.planted_logs import plant
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.fs.attributes import Attributes
from offsetfs.fs.caches import KEY_INDEXES_MAX, OpenIndexes, RecordContent
from offsetfs.fs.files.by_key import KeyDirectory, LoggedKeyIndex
from offsetfs.fs.mounting.in_process_tree import run
from offsetfs.fs.mounting.path_tree import Tree
from offsetfs.fs.naming.grammar import decoded, encoded
from offsetfs.fs.naming.inodes import NUMBER_MAX
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.records.format.batch import build, read_batch
from offsetfs.storage.views.key_index import KeyIndex, KeyLocation
from offsetfs.storage.views.user_cache import sweep

pytestmark = pytest.mark.unit


class FakeIndex:
    """Answers from a script: a place, None, or an error; the last one again and again."""

    def __init__(self, *answers: KeyLocation | Exception | None) -> None:
        self.answers = list(answers)
        self.distrusted = 0

    def find(self, key: bytes) -> KeyLocation | None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def rebuild(self) -> None:
        self.distrusted += 1


class FakeRecords:
    """The records at offsets: keys, None where compaction has taken one."""

    def __init__(self, keys: dict[int, bytes]) -> None:
        self.keys = keys

    async def find(self, offset: int) -> RecordContent | None:
        if offset not in self.keys:
            return None
        batch = read_batch(build([(self.keys[offset], b"value", (), 1000)], base_offset=offset))
        return RecordContent(b"value", 0, batch.records()[0], batch.header, offset)


async def in_thread(work: Callable[[], Any]) -> Any:
    return work()


async def look_up(index: FakeIndex, keys: dict[int, bytes]) -> int | None:
    """Return the inode's number of key `a`, None when it is not there."""
    mount = SimpleNamespace(executor=SimpleNamespace(in_thread=in_thread), attributes=Attributes(0, 0, 0))
    partition = SimpleNamespace(
        name="users-0", path="/log/users-0", anchor=0, log=None, inode=lambda kind, number: number
    )
    directory = KeyDirectory(cast(Any, mount), cast(Any, partition), cast(Any, FakeRecords(keys)), cast(Any, None))

    async def complete() -> KeyIndex:
        return cast(KeyIndex, index)

    cast(Any, directory)._complete = complete
    entry = await directory.lookup(0, b"a")
    return None if entry is None else directory.files.lookups.at(entry.st_ino).offset


PLAIN, OF_A_TRANSACTION, LATER = KeyLocation(3, False), KeyLocation(3, True), KeyLocation(5, False)

CASES: dict[str, tuple[tuple[KeyLocation | Exception | None, ...], dict[int, bytes], int | None, int]] = {
    "found": ((PLAIN,), {3: b"a"}, 3, 0),
    "of no record": ((None,), {}, None, 0),
    "another key lies there": ((PLAIN, LATER), {3: b"b", 5: b"a"}, 5, 1),
    "another key lies there, and the key is nowhere": ((PLAIN, None), {3: b"b"}, None, 1),
    "closed by another look-up": ((WouldBlock("closed"), PLAIN), {3: b"a"}, 3, 0),
    "a tombstone that compaction took": ((PLAIN,), {}, None, 0),
    "taken because there is a newer one": ((PLAIN, LATER), {5: b"a"}, 5, 0),
    "an aborted record that compaction took": ((OF_A_TRANSACTION, KeyLocation(1, False)), {1: b"a"}, 1, 1),
}


@pytest.mark.parametrize(("answers", "keys", "expected", "distrusted"), CASES.values(), ids=CASES)
async def test_the_latest_record_of_a_key_is_found(
    answers: tuple[KeyLocation | Exception | None, ...], keys: dict[int, bytes], expected: int | None, distrusted: int
) -> None:
    index = FakeIndex(*answers)
    assert await look_up(index, keys) == expected and index.distrusted == distrusted


async def test_an_index_that_never_agrees_with_the_log_is_an_error_and_no_answer() -> None:
    with pytest.raises(OSError, match="do not agree") as raised:
        await look_up(FakeIndex(PLAIN), {3: b"b"})
    assert raised.value.errno == errno.EIO


@pytest.mark.parametrize("name", ["by-key/far", "by-key/far.json", f"{NUMBER_MAX + 1}", f"{NUMBER_MAX + 1}.json"])
def test_a_record_too_far_above_the_first_is_an_error_with_a_remedy(tmp_path: Path, name: str) -> None:
    far = keyed(NUMBER_MAX + 1, Keyed(0, b"far", b"value"), codec="zstd")
    plant(tmp_path, {0: [keyed(0, Keyed(0, b"near", b"value"))], NUMBER_MAX + 1: [far]})

    async def look(tree: Tree) -> None:
        assert (await tree.find("orders-0/by-key/near")).size == 5
        with pytest.raises(OSError, match="too large") as raised:
            await tree.find(f"orders-0/{name}")
        assert raised.value.errno == errno.EOVERFLOW
        (line,) = tree.errors()
        assert "`values`" in line and str(NUMBER_MAX + 1) in line

    run(LogDirectory.open(str(tmp_path), read_only=True), MountOptions.parse(["ro"]), look)


def test_of_many_indexes_those_used_last_stay_open() -> None:
    opened, indexes = OpenIndexes(), [cast(KeyIndex, _Index()) for _ in range(KEY_INDEXES_MAX)]
    assert [opened.use(index) for index in indexes] == [[]] * KEY_INDEXES_MAX
    assert opened.use(indexes[0]) == []
    assert opened.use(cast(KeyIndex, _Index())) == [indexes[1]]
    cast(Any, indexes[5]).is_gone = cast(Any, indexes[6]).is_gone = True
    assert opened.take_gone() == [indexes[5], indexes[6]] and opened.take_gone() == []
    cast(Any, indexes[7]).is_gone = True
    assert opened.use(indexes[0]) == [indexes[7]], "of a partition that a broker deleted"


class _Index:
    is_gone = False


def test_a_slow_index_build_is_logged_and_a_fast_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    index = SimpleNamespace(scanned_bytes=300)
    partition = SimpleNamespace(log=SimpleNamespace(size_bytes=1000))
    logged = LoggedKeyIndex(cast(Any, index), "users-0/by-key", cast(Any, partition))
    for now_s, is_complete in ((10.0, False), (11.9, True), (20.0, False), (21.0, False)):
        logged.log_progress(now_s, is_complete)
    assert caplog.messages == []
    for now_s, is_complete in ((22.1, False), (23.0, False), (24.2, False), (25.0, True), (26.0, True)):
        logged.log_progress(now_s, is_complete)
    line = "users-0/by-key: the index is being made, 300 of 1000 bytes are read"
    assert caplog.messages == [line, line, "users-0/by-key: the index is complete after 5 s"]


def test_a_cached_index_unused_for_a_month_is_removed(tmp_path: Path) -> None:
    now_s = time.time()
    for name, days in (("old.sqlite", 31), ("old.seal", 40), ("new.sqlite", 29), ("now.sqlite", 0)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (now_s - days * 86400, now_s - days * 86400))
    sweep(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["new.sqlite", "now.sqlite"]


@pytest.mark.security(
    "A group or a key may contain any bytes; it has exactly one name, which is a file name and not a path."
)
@given(st.binary(max_size=90))
def test_any_bytes_have_one_name_that_a_file_may_have(data: bytes) -> None:
    name = encoded(data)
    assert name is not None and decoded(name) == data
    assert name and name not in (b".", b"..") and not set(name) & {0, ord("/")}


@given(st.binary(min_size=1, max_size=40))
def test_a_name_is_that_of_one_thing_or_of_none(name: bytes) -> None:
    data = decoded(name)
    assert data is None or encoded(data) == name


def test_what_would_be_longer_than_a_name_has_none() -> None:
    assert encoded(b"k" * 255) == b"k" * 255 and encoded(b"k" * 256) is None and encoded(b"/" * 86) is None
    assert decoded(b"k" * 256) is None
