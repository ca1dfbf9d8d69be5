"""The index of keys: what it answers over a log's life, and that a stored index is used only where it is valid."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fixtures.logs.keyed_logs import Keyed, keyed
from fixtures.logs.planted_logs import PARTITION, plant
from fixtures.logs.small_logs import SmallLog, record
from fixtures.simulation.fake_clock import FakeClock
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import MalformedBatch, StorageError, WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.records.format import varint
from offsetfs.storage.records.format.batch import build, read_batch, seal_checksum
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.reference import key_hash as reference_key_hash
from offsetfs.storage.units import Timestamp
from offsetfs.storage.views import key_footer, key_hash, key_index, key_store, key_table
from offsetfs.storage.views.key_hash import KeyDigest
from offsetfs.storage.views.key_index import KeyIndex, KeyLocation
from offsetfs.storage.views.key_store import KeyStore
from offsetfs.storage.views.key_table import stem_beside, stem_in

pytestmark = pytest.mark.unit

SEED = bytes(range(16))


@pytest.fixture
def small(tmp_path: Path) -> SmallLog:
    return SmallLog(tmp_path / "log", FakeClock(1_000_000))


@pytest.fixture(autouse=True)
def closed_tables() -> Iterator[None]:
    """Close the tables that a test leaves open, as the end of its process would: SQLite reports them otherwise."""
    stores: list[KeyStore] = []

    class Recorded(KeyStore):
        def __init__(self, path: str) -> None:
            super().__init__(path)
            stores.append(self)

    with pytest.MonkeyPatch.context() as patch:  # of its own: tests undo theirs
        patch.setattr(key_table, "KeyStore", Recorded)
        yield
    for store in stores:
        store.close()


def append(log: Log, *keys: bytes | None, value: bytes | None = b"v") -> None:
    for key in keys:
        log.append(record(1000, value, key))


def opened(log: Log, stem: str | None = "", **options: Any) -> KeyIndex:
    """Return the index of a log, complete; beside it unless another stem is said."""
    view = LogView(log, **options)
    index = KeyIndex(view, stem_beside(view) if stem == "" else stem, no_damage)
    assert index.refresh()
    return index


def no_damage(error: StorageError) -> None:
    raise AssertionError(error)


def offset_of(index: KeyIndex, key: bytes) -> int | None:
    found = index.find(key)
    return None if found is None else found.offset


# --- what it answers -------------------------------------------------------------------------------------------------


def test_the_latest_record_of_a_key_is_found_and_others_are_not(small: SmallLog) -> None:
    append(small.log, b"a", b"b", None, b"a", b"", b"x" * 5000)
    index = opened(small.log)
    found = {key: offset_of(index, key) for key in (b"a", b"b", b"", b"x" * 5000, b"c", b"x")}
    assert found == {b"a": 3, b"b": 1, b"": 4, b"x" * 5000: 5, b"c": None, b"x": None}


def test_what_is_appended_is_taken_in_at_the_next_look(small: SmallLog) -> None:
    index = opened(small.log)
    assert index.find(b"a") is None
    for offset in range(5):
        append(small.log, b"a")
        with pytest.raises(WouldBlock):
            index.refresh(nowait=True)
        assert index.refresh() and index.refresh(nowait=True) and offset_of(index, b"a") == offset


def test_it_is_made_in_steps_over_segments(small: SmallLog) -> None:
    for number in range(6):
        append(small.log, b"%d" % number, b"always")
        small.log.roll()
    view = LogView(small.log)
    index = KeyIndex(view, stem_beside(view), no_damage)
    steps = 1
    while not index.refresh(bytes_max=1):
        steps += 1
    assert steps >= 12 and index.scanned_bytes == small.log.size_bytes
    assert [offset_of(index, b"%d" % number) for number in range(6)] == [0, 2, 4, 6, 8, 10]
    assert offset_of(index, b"always") == 11


def test_a_tombstone_is_a_record_like_others(small: SmallLog) -> None:
    append(small.log, b"a")
    append(small.log, b"a", value=None)
    assert offset_of(opened(small.log), b"a") == 1


def test_keys_below_the_log_start_are_not_there(small: SmallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(small.log, *(b"%d" % number for number in range(10)))
    index = opened(small.log)
    small.log.raise_log_start(7)
    assert index.refresh() and [offset_of(index, b"%d" % number) for number in (6, 7)] == [None, 7]
    monkeypatch.setattr(key_index, "PRUNED_AT_LEAST", 1)
    append(small.log, b"10")
    assert index.refresh()
    assert index._table is not None and index._table.store.count() == 4, "of what is gone nothing is kept for ever"
    assert [offset_of(index, b"%d" % number) for number in (6, 7, 10)] == [None, 7, 10]


def test_after_a_truncation_offsets_mean_other_records(small: SmallLog) -> None:
    append(small.log, b"a", b"b", b"a")
    index = opened(small.log)
    small.log.truncate_to(1)
    append(small.log, b"c", b"c")
    assert index.refresh()
    assert [offset_of(index, key) for key in (b"a", b"b", b"c")] == [0, None, 2]
    small.log.truncate_fully(100)
    append(small.log, b"b")
    assert index.refresh() and [offset_of(index, key) for key in (b"a", b"b", b"c")] == [None, 100, None]


def test_uncommitted_records_do_not_count_among_committed_ones(golden_copy: Path) -> None:
    directory = LogDirectory.open(str(golden_copy))
    log = directory.log(TopicPartition("transactions", 0))
    for committed in (True, False):
        view = LogView(log, is_committed_only=committed)
        latest: dict[bytes, KeyLocation] = {}
        for segment in log.snapshot():
            for batch in segment.batches():
                if view.shows(batch.header) and batch.header.base_offset < view.end_offset():
                    is_marked = batch.header.is_transactional and not committed
                    latest |= {r.key: KeyLocation(r.offset, is_marked) for r in batch.records() if r.key is not None}
        index = opened(log, is_committed_only=committed)
        assert latest and {key: index.find(key) for key in latest} == latest
        index.close()
    assert {name for name in os.listdir(log.path) if "by-key" in name} == {
        "by-key.sqlite",
        "by-key.seal",
        "by-key-committed.sqlite",
        "by-key-committed.seal",
    }
    directory.close()


GOLDEN = Path(__file__).parents[1] / "golden"
RELEASES = ("kafka-0.8.2.2", "kafka-0.9.0.1", "kafka-0.10.0.1", "kafka-0.10.2.2", "kafka-3.6.2", "kafka-4.1")


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
def test_in_the_logs_of_every_release_it_finds_what_its_clients_saw_last(release: str) -> None:
    directory = LogDirectory.open(str(GOLDEN / release), read_only=True)
    for partition in directory.partitions():
        log = directory.log(partition)
        latest: dict[bytes, int] = {}
        for segment in log.snapshot():
            for batch in segment.batches():
                if not batch.header.is_control:
                    latest |= {r.key: r.offset for r in batch.records() if r.key is not None}
        latest = {key: offset for key, offset in latest.items() if offset >= log.log_start_offset}
        index = opened(log, None)
        assert {key: offset_of(index, key) for key in latest} == latest, partition
        index.close()
    directory.close()


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([b"", b"a", b"b", b"cc", b"/", b"\0"]), st.booleans()), min_size=1, max_size=30)
)
def test_it_finds_what_a_scan_of_the_log_finds(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    small = SmallLog(tmp_path_factory.mktemp("log") / "log", FakeClock(1_000_000))
    latest: dict[bytes, int] = {}
    index = opened(small.log)
    for key, is_reopened in steps:
        latest[key] = small.log.next_offset
        append(small.log, key)
        if is_reopened:
            index.close()
            index = opened(small.log)
    assert index.refresh() and {key: offset_of(index, key) for key in latest} == latest
    index.close()
    small.directory.close()


@pytest.mark.damages
def test_an_unreadable_batch_is_reported_at_each_opening(tmp_path: Path) -> None:
    batches = [keyed(offset, Keyed(0, b"%d" % offset, b"value")) for offset in range(3)]
    bad = bytearray(batches[1])
    bad[-2] ^= 1
    plant(tmp_path, {0: [batches[0], bytes(bad), batches[2]]})
    directory = LogDirectory.open(str(tmp_path))
    for _ in range(2):
        reported: list[StorageError] = []
        view = LogView(directory.log(PARTITION))
        index = KeyIndex(view, stem_beside(view), reported.append)
        assert index.refresh() and len(reported) == 1
        assert [offset_of(index, b"%d" % number) for number in range(3)] == [0, None, 2]
        index.close()
        assert not [name for name in os.listdir(view.log.path) if name.startswith("by-key")]
    directory.close()


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_what_was_sealed_is_taken_over_and_nothing_read_again(small: SmallLog) -> None:
    append(small.log, b"a", b"b", b"a")
    opened(small.log).close()
    files = {name for name in os.listdir(small.log.path) if name.startswith("by-key")}
    assert files == {"by-key.sqlite", "by-key.seal"}
    log = small.reopen()
    index = opened(log)
    assert index.scanned_bytes == 0 and offset_of(index, b"a") == 2
    append(log, b"b")
    assert index.refresh() and 0 < index.scanned_bytes < log.size_bytes and offset_of(index, b"b") == 3
    assert not (Path(log.path) / "by-key.seal").exists(), "a table that changed is not sealed before it is closed"
    index.close()
    assert opened(small.reopen()).scanned_bytes == 0


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    inode = path.stat().st_ino
    with open(path, "r+b") as file:
        file.write(data)
    assert path.stat().st_ino == inode


def copy_back(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".copy"))
    os.replace(path.with_suffix(".copy"), path)


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a table that was written further": lambda at: append_row(at / "by-key.sqlite"),
    "a bit of the table": lambda at: flip(at / "by-key.sqlite", 5000),
    "a table cut short": lambda at: os.truncate(at / "by-key.sqlite", 4096),
    "a copy of the table": lambda at: copy_back(at / "by-key.sqlite"),
    "no table": lambda at: (at / "by-key.sqlite").unlink(),
    "no seal": lambda at: (at / "by-key.seal").unlink(),
    "a bit of the seal": lambda at: flip(at / "by-key.seal", 60),
    "a seal cut short": lambda at: os.truncate(at / "by-key.seal", 30),
    "a longer seal": lambda at: os.truncate(at / "by-key.seal", 3000),
    "an empty table": lambda at: os.truncate(at / "by-key.sqlite", 0),
    "no database": lambda at: (at / "by-key.sqlite").write_bytes(b"no database" * 1000),
    "a directory": lambda at: make_directory(at / "by-key.seal"),
}


def append_row(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM keys WHERE rowid IN (SELECT rowid FROM keys LIMIT 1)")
    database.close()


@pytest.mark.long
@pytest.mark.promise(
    "Each answer of a key index is checked against the record, and an index that does not match its "
    "footer or the log is rebuilt."
)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_does_not_fit_is_made_anew(small: SmallLog, damage: Callable[[Path], object]) -> None:
    append(small.log, *(b"%d" % number for number in range(50)))
    opened(small.log).close()
    damage(Path(small.log.path))
    index = opened(small.log)
    assert index.scanned_bytes == small.log.size_bytes
    assert [offset_of(index, b"%d" % number) for number in range(50)] == list(range(50))
    index.close()


MADE_UP: dict[str, dict[str, Any]] = {
    "of another log": {"identity": bytes(32)},
    "no batch": {"last_offset": -1},
    "a batch beyond the end": {"last_offset": 2**63 - 1},
    "another batch": {"last_crc": 7},
    "an earlier batch": {"last_offset": 3},
    "more than there is": {"next_offset": 2**63 - 1},
}


@pytest.mark.parametrize("lie", MADE_UP.values(), ids=MADE_UP)
def test_a_complete_but_inconsistent_footer_is_rejected(small: SmallLog, lie: dict[str, Any]) -> None:
    append(small.log, *(b"%d" % number for number in range(50)))
    opened(small.log).close()
    seal, table = (os.path.join(small.log.path, name) for name in ("by-key.seal", "by-key.sqlite"))
    covered = key_footer.read(seal, table)
    assert covered is not None
    key_footer.write(seal, dataclasses.replace(covered, **lie), table)
    index = opened(small.log)
    assert index.scanned_bytes == small.log.size_bytes and offset_of(index, b"49") == 49


def test_what_was_not_closed_is_made_anew(small: SmallLog) -> None:
    append(small.log, b"a")
    opened(small.log).close()
    index = opened(small.log)
    append(small.log, b"b")
    assert index.refresh()
    assert index._table is not None
    index._table.store.close()  # as SIGKILL does
    after = opened(small.log)
    assert after.scanned_bytes == small.log.size_bytes and offset_of(after, b"b") == 1


def test_the_index_of_another_log_is_rejected(small: SmallLog, tmp_path: Path) -> None:
    append(small.log, b"a", b"b")
    opened(small.log).close()
    log = small.reopen()
    log.truncate_to(1)
    append(log, b"c")
    small.directory.close()
    index = opened(small.reopen())
    assert [offset_of(index, key) for key in (b"a", b"b", b"c")] == [0, None, 1]


def test_links_and_pipes_in_its_place_are_not_followed(small: SmallLog, tmp_path: Path) -> None:
    append(small.log, b"a")
    outside = tmp_path / "outside"
    with sqlite3.connect(outside) as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()
    before = outside.read_bytes()
    path = Path(small.log.path) / "by-key.sqlite"
    plants: tuple[Callable[[], object], ...] = (
        lambda: path.symlink_to(outside),
        lambda: os.link(outside, path),
        lambda: os.mkfifo(path),
    )
    for plant_it in plants:
        plant_it()
        index = opened(small.log)
        assert offset_of(index, b"a") == 0
        index.close()
        assert path.is_file() and not path.is_symlink() and outside.read_bytes() == before
        path.unlink()


# --- where it cannot lie beside the log ------------------------------------------------------------------------------


def test_without_a_stem_nothing_is_written(small: SmallLog) -> None:
    append(small.log, b"a")
    before = sorted(os.listdir(small.log.path))
    index = opened(small.log, None)
    assert offset_of(index, b"a") == 0
    index.close()
    assert sorted(os.listdir(small.log.path)) == before


def test_in_a_directory_of_many_each_log_has_its_own(small: SmallLog, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    append(small.log, b"a")
    stem = stem_in(str(cache), LogView(small.log))
    opened(small.log, stem).close()
    assert opened(small.log, stem).scanned_bytes == 0
    other = SmallLog(tmp_path / "other", FakeClock(1_000_000))
    assert stem_in(str(cache), LogView(other.log)) != stem
    assert sorted(os.listdir(cache)) == [os.path.basename(stem) + suffix for suffix in (".seal", ".sqlite")]
    other.directory.close()


HOLDER = """
import sys
from offsetfs.storage.views.key_store import KeyStore
from offsetfs.storage.views.key_table import stem_beside, stem_in
store = KeyStore(sys.argv[1])
store.put([(1, 2)])
print("ready", flush=True)
sys.stdin.read()
print(store.get(1))
"""


@pytest.mark.long
def test_a_place_that_another_process_has_is_left_alone(small: SmallLog, tmp_path: Path) -> None:
    append(small.log, b"a")
    view = LogView(small.log)
    stem = stem_in(str(tmp_path), view)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, stem + ".sqlite"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "ready\n"
        index = opened(small.log, stem)
        assert offset_of(index, b"a") == 0
        index.close()
        assert other.communicate()[0] == "2\n"


def test_a_full_disk_is_reported_and_costs_the_table(small: SmallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(small.log, b"a")
    monkeypatch.setattr(key_store, "_SETUP", (*key_store._SETUP, "PRAGMA max_page_count = 3"))
    view = LogView(small.log)
    index = KeyIndex(view, stem_beside(view), no_damage)
    assert index.refresh()
    small.log.append(batch_of(range(5000)))
    with pytest.raises(OSError, match="full"):
        index.refresh()
    assert not [name for name in os.listdir(small.log.path) if name.startswith("by-key")]
    monkeypatch.undo()
    assert index.refresh() and offset_of(index, b"4999") == 5000


def batch_of(numbers: range) -> SealedBatch:
    data = build([(b"%d" % number, b"v", (), 1000) for number in numbers])
    return SealedBatch(memoryview(data), len(numbers), 2 * len(numbers), Timestamp(1000), len(data))


# --- hashes ----------------------------------------------------------------------------------------------------------


def test_two_keys_with_equal_hashes_are_distinguished_by_a_new_round(
    small: SmallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(small.log, b"a", b"b")
    index = opened(small.log)
    assert index._table is not None
    index._table.store.put([(key_hash.hash_key(b"a", index._seed), 1)])  # as if b had the hash of a
    assert offset_of(index, b"a") == 1, "a reader finds another key there"
    seed = index._seed
    index.rebuild()
    assert index.refresh() and index._seed != seed and offset_of(index, b"a") == 0


IMPLEMENTATIONS = [pytest.param(key_hash, id="compiled"), pytest.param(reference_key_hash, id="pure")]


@pytest.mark.long
@pytest.mark.parametrize("module", IMPLEMENTATIONS)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=100)), min_size=1, max_size=40), st.integers(0, 2**62))
def test_the_keys_of_a_batch_are_hashed_in_order(module: ModuleType, keys: list[bytes | None], base: int) -> None:
    batch = read_batch(build([(key, b"value", (), 0) for key in keys], base_offset=base))
    hashes, offsets = module.hash_rows(batch.payload(), batch.rows(), base, SEED, 0, len(keys))
    expected = [(module.hash_key(k, SEED), base + n) for n, k in enumerate(keys) if k is not None]
    assert list(zip(hashes, offsets, strict=True)) == expected


@pytest.mark.long
@pytest.mark.parametrize("module", IMPLEMENTATIONS)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=85), st.just(b"k" * 81)), min_size=1, max_size=20))
def test_the_digests_of_long_keys_are_hashed_in_order(module: ModuleType, keys: list[bytes | None]) -> None:
    batch = read_batch(build([(key, b"value", (), 0) for key in keys], base_offset=7))
    hashes, offsets = module.hash_digests(batch.payload(), batch.rows(), 7, SEED)
    there = [(key, 7 + number) for number, key in enumerate(keys) if key is not None]
    seed = bytes(255 - byte for byte in SEED)
    expected = [(module.hash_key(hashlib.sha256(k).digest(), seed), offset) for k, offset in there if len(k) > 80]
    assert list(zip(hashes, offsets, strict=True)) == expected


def test_a_long_key_is_found_by_its_digest_and_a_short_one_is_not(small: SmallLog) -> None:
    long, short = b"k" * 81, b"k" * 80
    digest = KeyDigest(hashlib.sha256(long).digest())
    append(small.log, long, digest.sha256, short, long)
    index = opened(small.log)
    assert index.find(digest) == KeyLocation(3, False)
    assert index.find(KeyDigest(hashlib.sha256(short).digest())) is None
    assert offset_of(index, digest.sha256) == 1, "a key that equals the digest is another key"


def test_an_index_without_rows_for_digests_is_made_anew(small: SmallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(small.log, b"k" * 100)
    monkeypatch.setattr(key_table, "DIGEST_ROWS", "none")
    opened(small.log).close()
    monkeypatch.undo()
    index = opened(small.log)
    assert index.scanned_bytes > 0 and index.find(KeyDigest(hashlib.sha256(b"k" * 100).digest())) == KeyLocation(
        0, False
    )


ROWS = {
    "beyond the end": [0, 0, 90, 20, 0, 0, 0, 0],
    "a stem that overflows": [0, 0, 2**63 - 1, 2, 0, 0, 0, 0],
    "before the beginning": [0, 0, -1, 2, 0, 0, 0, 0],
}


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_rows_of_another_payload_are_refused(module: ModuleType, row: list[int]) -> None:
    with pytest.raises(ValueError, match="outside"):
        module.hash_rows(bytes(100), array("q", row), 10, SEED, 0, 5)
    with pytest.raises(ValueError, match="outside"):
        module.hash_digests(bytes(100), array("q", [*row[:3], 81, *row[4:]]), 10, SEED)


DELTAS = {
    "below the batch": (-1, 10, 0, 5),
    "behind the batch": (6, 10, 0, 5),
    "below nothing": (-20, 10, -30, 5),
    "below what a long holds": (-1, -(2**63), -30, 5),
    "above what a long holds": (1, 2**63 - 1, 0, 5),
}


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
@pytest.mark.parametrize("case", DELTAS)
def test_a_keyed_record_whose_offset_is_not_in_its_batch_is_damage(module: ModuleType, case: str) -> None:
    delta, base, least, most = DELTAS[case]
    with pytest.raises(MalformedBatch):
        module.hash_rows(bytes(100), array("q", [delta, 0, 0, 2, 0, 0, 0, 0]), base, SEED, least, most)
    assert len(module.hash_rows(bytes(100), array("q", [delta, 0, 0, -1, 0, 0, 0, 0]), base, SEED, least, most)[0]) == 0


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
def test_rows_that_are_none_are_not_hashed(module: ModuleType) -> None:
    for rows in (array("q", [0] * 7), array("i", [0] * 16)):
        with pytest.raises(ValueError):
            module.hash_rows(b"", rows, 0, SEED, 0, 5)
        with pytest.raises(ValueError):
            module.hash_digests(b"", rows, 0, SEED)


@pytest.mark.damages
@pytest.mark.parametrize("delta", [-1, 40])
def test_a_keyed_record_outside_of_its_batch_costs_that_batch_and_no_other_key(small: SmallLog, delta: int) -> None:
    append(small.log, b"a", b"b")
    data = bytearray(build([(b"c", b"v", (), 1000), (b"d", b"v", (), 1000)], base_offset=2))
    data[data.index(bytes([2, 2]) + b"d")] = varint.encode(delta)[0]  # instead of 1
    seal_checksum(data)
    small.log.append(SealedBatch(memoryview(data), 2, 4, Timestamp(1000), len(data)))
    append(small.log, b"e")
    damage: list[StorageError] = []
    index = KeyIndex(LogView(small.log), None, damage.append)
    assert index.refresh()
    assert {key: offset_of(index, key) for key in (b"a", b"b", b"d", b"e")} == {b"a": 0, b"b": 1, b"d": None, b"e": 4}
    assert [type(error) for error in damage] == [MalformedBatch] and damage[
        0
    ].path == small.log.snapshot().active.log_path


def test_another_seed_makes_other_hashes() -> None:
    for module in (key_hash, reference_key_hash):
        assert module.hash_key(b"key", SEED) != module.hash_key(b"key", SEED[::-1])
        with pytest.raises(ValueError, match="seed"):
            module.hash_key(b"key", b"short")


# --- the table -------------------------------------------------------------------------------------------------------


def test_a_table_keeps_its_values(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    store = KeyStore(path)
    store.put([(-(2**63), 5), (2**63 - 1, ~7), (0, 2**63 - 1)])
    store.put([(0, 9)])
    store.close()
    store.close()
    store = KeyStore(path)
    assert [store.get(key) for key in (-(2**63), 2**63 - 1, 0, 1)] == [5, ~7, 9, None]
    store.forget_below(8)
    assert [store.get(key) for key in (-(2**63), 2**63 - 1, 0)] == [None, None, 9]
    store.close()
    assert os.listdir(tmp_path) == ["table"], "no journal lies beside it"
