"""Indexes that are rebuilt while a log is read, and what the log says of it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import sealed_records

from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)
NAME = f"{0:020d}.index"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [(b"\0\0\0\3" + b"\x7f" * 4, "an entry does not agree with the log"), (None, "No such file")],
    ids=["a wrong entry", "no index"],
)
def test_indexes_that_are_rebuilt_are_a_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, entry: bytes | None, reason: str
) -> None:
    """Once a disk that damaged indexes again and again was not noticed."""
    caplog.set_level(logging.INFO, "offsetfs")
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(T, {"index.interval.bytes": "1", "segment.bytes": "300"})
    for number in range(12):
        log.append(sealed_records([(None, b"%d" % number, (), 1000)]))
    directory.close()
    index = tmp_path / "t-0" / NAME
    if entry is None:
        index.unlink()
    else:
        index.write_bytes(entry)
    directory = LogDirectory.open(str(tmp_path))
    try:
        assert caplog.messages == [], "new segments have had none"
        found = directory.log(T).batch_at(3)
        assert found is not None and found.header.last_offset == 3
        (line,) = [each for each in caplog.messages if "its indexes are rebuilt" in each]
        assert reason in line and str(index.with_suffix(".log")) in line
    finally:
        directory.close()
