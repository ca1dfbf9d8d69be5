"""`offsetfs diff --by key` and `--by content`: copies at other offsets."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import PARTITION, plant
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.answers.diff import contents, keys
from offsetfs.answers.diff.contents import ContentComparison
from offsetfs.answers.diff.keys import KeyComparison
from offsetfs.answers.diff.streams import OrderlessDiff
from offsetfs.cli import exit_codes, run
from offsetfs.storage import Log, LogDirectory
from offsetfs.storage.records.format.batch import build

pytestmark = pytest.mark.unit

Pair = tuple[bytes | None, bytes | None]


def planted(path: Path, pairs: list[Pair], *, start: int = 0, gap: int = 1, time: int = 1000) -> Path:
    """Write a record a batch, `gap` offsets apart."""
    made = [
        bytes(build([(key, value, (), time)], base_offset=start + gap * at)) for at, (key, value) in enumerate(pairs)
    ]
    plant(path, {start: made})
    return path


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Log]:
    with contextlib.closing(LogDirectory.open(str(path), read_only=True)) as directory:
        yield directory.log(PARTITION)


def by_content(a: Path, b: Path, *, times: bool = True) -> OrderlessDiff:
    with opened(a) as first, opened(b) as second:
        return ContentComparison(first, second, times=times).run()


def by_key(a: Path, b: Path) -> OrderlessDiff:
    with opened(a) as first, opened(b) as second:
        return KeyComparison(first, second).run()


ROWS: list[Pair] = [(b"k%d" % (at % 7), b"v%d" % at) for at in range(50)]


def numbers(found: OrderlessDiff) -> tuple[int, ...]:
    return (found.equal, found.only_a, found.only_b, found.before_a, found.before_b, found.behind_a, found.behind_b)


# --- by content ------------------------------------------------------------------------------------------------------


def test_a_copy_at_other_offsets_is_equal(tmp_path: Path) -> None:
    found = by_content(planted(tmp_path / "a", ROWS, start=1000), planted(tmp_path / "b", ROWS, gap=2))
    assert numbers(found) == (50, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("window", [4096, 12])
def test_what_the_copy_began_after_and_what_it_lacks_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(contents, "WINDOW", window)
    a, b = planted(tmp_path / "a", ROWS), planted(tmp_path / "b", ROWS[20:40])
    assert numbers(by_content(a, b)) == (20, 0, 0, 20, 0, 0, 10)
    assert numbers(by_content(b, a)) == (20, 0, 0, 0, 20, 10, 0)


def test_records_that_the_copy_lacks_or_has_twice(tmp_path: Path) -> None:
    copy = [*ROWS[:10], *ROWS[8:30], *ROWS[33:]]
    found = by_content(planted(tmp_path / "a", ROWS), planted(tmp_path / "b", copy, start=5))
    assert numbers(found) == (47, 3, 2, 0, 0, 0, 0)
    assert (found.first_a, found.first_b) == (10, 15)


def test_other_times_can_be_ignored(tmp_path: Path) -> None:
    a, b = planted(tmp_path / "a", ROWS), planted(tmp_path / "b", ROWS, time=2000)
    assert by_content(a, b).equal == 0
    assert numbers(by_content(a, b, times=False)) == (50, 0, 0, 0, 0, 0, 0)


def test_logs_that_have_nothing_in_common_or_nothing_at_all(tmp_path: Path) -> None:
    a, b, empty = planted(tmp_path / "a", ROWS[:5]), planted(tmp_path / "b", ROWS[5:8]), planted(tmp_path / "c", [])
    assert numbers(by_content(a, b)) == (0, 5, 3, 0, 0, 0, 0)
    assert numbers(by_content(a, empty)) == (0, 0, 0, 0, 0, 0, 5)
    assert numbers(by_content(empty, empty)) == (0, 0, 0, 0, 0, 0, 0)


def test_aborted_records_and_markers_are_no_content(tmp_path: Path) -> None:
    own: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "transactional": True}
    aborted = bytes(build([(b"k", b"no", (), 1000)], base_offset=2, base_sequence=0, **own))
    made = [bytes(build([(key, value, (), 1000)], base_offset=at)) for at, (key, value) in enumerate(ROWS[:2])]
    with contextlib.closing(LogDirectory.open(str(_empty(tmp_path / "a")))) as directory:
        log = directory.create_partition(PARTITION)
        for each in [*made, aborted, bytes(_abort(3))]:
            log.append_replicated(each)
    found = by_content(tmp_path / "a", planted(tmp_path / "b", ROWS[:2]))
    assert numbers(found) == (2, 0, 0, 0, 0, 0, 0)


def _empty(path: Path) -> Path:
    path.mkdir()
    return path


def _abort(offset: int) -> bytes:
    from offsetfs.storage.coordinators import end_marker_batch
    from offsetfs.storage.records.format.batch import stamp

    made = end_marker_batch(9, 0, is_commit=False, coordinator_epoch=0, now_ms=1000)
    stamp(made.data, offset, 0)
    return bytes(made.data)


PAIRS = st.lists(st.tuples(st.sampled_from([b"a", b"b", None]), st.sampled_from([b"1", b"2", None])), max_size=20)


@given(PAIRS, PAIRS)
@settings(max_examples=100, deadline=None)
def test_every_record_of_both_is_counted_once(
    tmp_path_factory: pytest.TempPathFactory, one: list[Pair], other: list[Pair]
) -> None:
    folder = tmp_path_factory.mktemp("pair")
    found = by_content(planted(folder / "a", one), planted(folder / "b", other))
    assert found.equal + found.only_a + found.before_a + found.behind_b == len(one)
    assert found.equal + found.only_b + found.before_b + found.behind_a == len(other)
    assert (found.equal == len(one) == len(other)) == (one == other)


# --- by key ----------------------------------------------------------------------------------------------------------


@given(PAIRS, PAIRS, st.sampled_from([1, 2, 100]))
@settings(max_examples=100, deadline=None)
def test_the_latest_values_are_those_of_two_dictionaries(
    tmp_path_factory: pytest.TempPathFactory, one: list[Pair], other: list[Pair], keys_max: int
) -> None:
    folder = tmp_path_factory.mktemp("pair")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "KEYS_MAX", keys_max + 1)  # and the null key
        found = by_key(planted(folder / "a", one), planted(folder / "b", other, start=7))
    a, b = (
        {key: value for key, value in dict(pairs).items() if key is not None and value is not None}
        for pairs in (one, other)
    )
    both = a.keys() & b.keys()
    assert found.equal == sum(a[key] == b[key] for key in both)
    assert (found.changed, found.only_a, found.only_b) == (
        len(both) - found.equal,
        len(a) - len(both),
        len(b) - len(both),
    )
    assert (found.first_a is None and found.first_b is None) == (a == b)


def test_a_compacted_copy_has_the_same_latest_values(tmp_path: Path) -> None:
    found = by_key(planted(tmp_path / "a", ROWS), planted(tmp_path / "b", ROWS[43:], start=400, time=5))
    assert (found.equal, found.changed, found.only_a, found.only_b) == (7, 0, 0, 0)


def test_records_without_a_key_are_no_equal_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = planted(tmp_path / "a", [(None, b"1"), (None, b"2")])
    b = planted(tmp_path / "b", [(None, b"3"), (b"k", None)])
    assert run(["diff", str(a), str(b), "--by", "key", "--only", "records"]) == 1
    printed = capsys.readouterr().out
    assert "orders-0: no-keys: 3 records without a key, and no key with a value" in printed
    assert re.search(r"^orders-0 +no keys ", printed, re.MULTILINE) and re.search(r"^equal +0$", printed, re.MULTILINE)
    for folder, more in ("c", (None, b"1")), ("d", (None, b"2")):
        planted(tmp_path / folder, [(b"k", b"v"), more])
    assert run(["diff", str(tmp_path / "c"), str(tmp_path / "d"), "--by", "key", "--only", "records"]) == 0
    assert "not looked at: orders-0: 2 records without a key, which are not compared by key" in capsys.readouterr().out


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_compares_a_topic_of_another_name_by_content_and_by_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = planted(tmp_path / "a", ROWS), planted(tmp_path / "b", [*ROWS[:49], (b"k0", b"other")], start=9)
    (b / "orders-0").rename(b / "dc1.orders-0")
    words = ["diff", str(a), str(b), "orders", "--topic-in-b", "dc1.orders", "--json"]
    for way, counts in (("content", (49, 0, 1, 1)), ("key", (6, 1, 0, 0))):
        assert run([*words, "--by", way]) == 1
        printed = json.loads(capsys.readouterr().out)
        (row,) = printed["tables"]["partitions"]
        assert (row["equal_records"], row["changed"], row["missing_a"], row["missing_b"]) == counts
        assert json.loads(printed["tables"]["partings"][-1]["record"])["value"] == "other"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--quick", "--by", "key"], "--quick reads no records; leave out --by"),
        (["--ignore-times"], "--ignore-times goes with --by content"),
        (["--topic-in-b", "other"], "--topic-in-b goes with one topic"),
        (["orders", "--topic-in-b", "a/b"], "--topic-in-b: "),
    ],
)
def test_options_that_do_not_go_together(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(planted(tmp_path / "a", ROWS[:1]))
    assert run(["diff", path, path, *words]) == exit_codes.WRONG_CALL
    assert reason in capsys.readouterr().err
