"""Searches of one log of all kinds of batches, compared with a look at each record."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import marker

from offsetfs.answers import find_patterns
from offsetfs.answers.find import FindBounds, Limit, Search
from offsetfs.answers.find_conditions import FIELDS, Condition, HasHeader, HasKey, HasText
from offsetfs.answers.find_lines import path_lines
from offsetfs.answers.find_patterns import HasPattern
from offsetfs.common.name_patterns import compiled
from offsetfs.storage import BatchGroup, LogDirectory, LogReader, Record, TopicPartition
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.unit

NAME = TopicPartition("orders", 0)
TIME = 1_795_000_000_000
VALUES = (
    None,
    b"",
    b"value 1",
    b"Value 12, lost",
    b"line 1\nline 2\nthe end",
    b"\n",
    b"\xff\xfe value",
    "été à la mer".encode(),
    b'{"state":"refused"}',
    b'{"state":"lost","at":"end"}',
    b"value",
    b"x" * 15000 + b"tail",
)
KEYS = (None, b"", b"key 1", b"key", b"\xff", b"customer-7")
PATTERNS = (
    "", "^$", "value", "(?i)VALUE", "^value", "^value$", "1$", r"\bvalue\b", "(?m)^line 2$", "(?s)line 1.*end",
    "line 1.*end", "x*", "x+t", "[^a]$", r"\C\C\C$", "é", r"\Avalue", r"lost\z", '"state":"(refused|lost)"',
    "refused|lost", "(?:value )?1", ".{3}", r"\xff", "z{0}", "n$|^v", r"\pL\s\d", "1", "h", "(?i)K", "absent",
    "absent|", "(absent)?",
)  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    """A log of some megabytes: plain batches of one and of many records, compressed ones, transactions and markers."""
    path, chance = tmp_path_factory.mktemp("log"), random.Random(1)
    with contextlib.closing(LogDirectory.open(str(path))) as directory:
        log = directory.create_partition(NAME, {"segment.bytes": str(1_500_000)})
        number = 0
        for batch in range(300):
            count = chance.choice((1, 1, 1, 2, 30))
            records = []
            for _ in range(count):
                headers = [("n", b"%d" % number)] if number % 3 == 0 else [("h", None)] if number % 7 == 0 else []
                key = b"only %d" % number if number % 31 == 0 else chance.choice(KEYS)
                records.append((key, chance.choice(VALUES), headers, TIME + number))
                number += 1
            fields: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
            codec = chance.choice(("zstd", "lz4", "gzip", "snappy")) if 100 < batch < 130 or batch % 50 == 0 else "none"
            built = build(records, codec=codec, **(fields if batch % 70 == 1 else {}))
            log.append(SealedBatch(memoryview(built), count, 1, Timestamp(TIME + number - 1), len(built)))
            if batch % 70 == 1:
                log.append(marker(1, batch // 70 % 2))
        every = list(LogReader(log).records())
        assert sum(isinstance(each, BatchGroup) for each, _, _ in LogReader(log).groups()) > 5
    return path, every


def fields_of(record: Record, place: str) -> list[bytes]:
    fields = []
    if place in ("key", "any"):
        fields.append(record.key)
    if place in ("value", "any"):
        fields.append(record.value)
    if place in ("headers", "any"):
        fields += [part for name, value in record.headers for part in (name.encode(), value)]
    return [field for field in fields if field is not None]


def compare(world: tuple[Path, list[Record]], searches: list[tuple[Condition, Callable[[Record], bool]]]) -> None:
    """Compare each search with a look at each record: all of it, its number, its ends, between bounds."""
    path, records = world
    middle = records[len(records) // 2].offset
    with contextlib.closing(LogDirectory.open(str(path), read_only=True)) as directory:
        for condition, matches in searches:
            expected = [record.offset for record in records if matches(record)]
            paths = [b"%s/%d\n" % (str(NAME).encode(), offset) for offset in expected]

            def search(bounds: FindBounds, condition: Condition = condition) -> Search:
                return Search(directory, [NAME], [condition], bounds)

            def lines(limit: Limit | None, bounds: FindBounds, condition: Condition = condition) -> list[bytes]:
                made = search(bounds, condition).lines(path_lines, limit)
                return [line for each in made for line in each]

            everything = FindBounds()
            assert lines(None, everything) == paths, condition
            assert search(everything).count() == len(expected), condition
            assert lines(Limit(3), everything) == paths[:3], condition
            assert lines(Limit(3, is_newest=True), everything) == paths[::-1][:3], condition
            bounded = [each for each, offset in zip(paths, expected, strict=True) if middle <= offset < middle + 99]
            assert lines(None, FindBounds(middle, middle + 99)) == bounded, condition


@pytest.mark.parametrize("one_by_one_max", [0, 1 << 60])
def test_patterns_find_what_a_look_at_each_record_finds(
    world: tuple[Path, list[Record]], monkeypatch: pytest.MonkeyPatch, one_by_one_max: int
) -> None:
    monkeypatch.setattr(find_patterns, "ONE_BY_ONE_MAX", one_by_one_max)
    searches: list[tuple[Condition, Callable[[Record], bool]]] = []
    for pattern, place in zip(PATTERNS, itertools.cycle(("value", "any")), strict=False):
        program = compiled(pattern, has_groups=False)
        searches.append(
            (
                HasPattern(pattern, FIELDS[place]),
                lambda record, program=program, place=place: any(map(program.search, fields_of(record, place))),  # type: ignore[misc]
            )
        )
    compare(world, searches)


def test_keys_texts_and_headers_find_what_a_look_at_each_record_finds(world: tuple[Path, list[Record]]) -> None:
    _, records = world
    searches: list[tuple[Condition, Callable[[Record], bool]]] = []
    for key in {record.key for record in records} - {None}:  # keys of single records too: some lie between blocks
        assert key is not None
        searches.append((HasKey(key), lambda record, key=key: record.key == key))  # type: ignore[misc]
    for text, place in itertools.product((b"", b"value", b"\n", b"tail", b"key", b"n", b"\xff", b"no"), FIELDS):
        searches.append(
            (
                HasText(text, FIELDS[place]),
                lambda record, text=text, place=place: any(text in field for field in fields_of(record, place)),  # type: ignore[misc]
            )
        )
    for name, value in (("n", None), ("n", b"33"), ("h", None), ("h", b""), ("x", None)):
        searches.append(
            (
                HasHeader(name.encode(), value),
                lambda record, name=name, value=value: any(  # type: ignore[misc]
                    found == name and (value is None or text == value) for found, text in record.headers
                ),
            )
        )
    compare(world, searches)
