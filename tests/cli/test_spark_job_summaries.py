"""The last lines of Spark jobs: numbers agree with their nouns."""

from __future__ import annotations

from dataclasses import fields

import pytest

from offsetfs.cli.spark.reading import _in_all, _print_stats
from offsetfs.storage.verify.finding import VerificationCounts

pytestmark = pytest.mark.unit


def test_one_of_each_is_singular_and_two_are_plural() -> None:
    one, two = (VerificationCounts(*[count] * len(fields(VerificationCounts))) for count in (1, 2))
    assert not [words for words in str(one).split(", ") if words.endswith("s")], one
    assert all(words.endswith("s") for words in str(two).split(", ")), two
    row = {"topic": "orders", "partition": 0, "records": 1, "bytes": 70, "unreadable": 0}
    assert _in_all([row]).startswith("1 record, ") and _in_all([row]).endswith(" in 1 partition")
    assert _in_all([row, row]).startswith("2 records, ") and " in 2 partitions;" in _in_all([row, row])


def test_stats_show_the_batches_that_they_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    times = {"earliest_ms": None, "latest_ms": None, "keyed": 0, "codecs": {"none": 1}}
    sound = {"topic": "orders", "partition": 0, "records": 7, "bytes": 70, "unreadable": 0, **times}
    damaged = {**sound, "partition": 1, "unreadable": 2}
    _print_stats([sound, damaged])
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[-1] == "unreadable" and [row.split()[-1] for row in rows] == ["0", "2"]
    assert "; left out 2 damaged batches (offsetfs verify names them)" in _in_all([sound, damaged])
    _print_stats([sound])
    assert "unreadable" not in capsys.readouterr().out and "left out" not in _in_all([sound])
