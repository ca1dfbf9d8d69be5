"""The beginning of a log file before an offset: whole batches of every format, and their indexes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs.old_messages import message, wrapper
from fixtures.logs.planted_logs import batch

from offsetfs.storage import files
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.segments import LogPrefix, measure_prefix

pytestmark = pytest.mark.unit

BASE = 10
BATCHES = [
    wrapper(1, 12, [message(1, number, value=b"x", timestamp=2000) for number in range(3)], timestamp=2000),  # 10…12
    message(1, 13, value=b"y", timestamp=1000),
    batch(14, b"a", b"b", codec="zstd", timestamp=3000),
    batch(20, b"c", timestamp=1000),  # compaction has left a gap before it
]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[files.File]:
    path = tmp_path / "00000000000000000010.log"
    path.write_bytes(b"".join(BATCHES))
    with files.open_file(str(path)) as file:
        yield file


def prefix(log: files.File, end: int) -> LogPrefix:
    return measure_prefix(log, log.size(), BASE, end, interval_bytes=0)


def test_a_prefix_has_the_whole_batches_before_an_offset(log: files.File) -> None:
    for end, count, latest in ((10, 0, -1), (13, 1, 2000), (14, 2, 2000), (16, 3, 3000), (18, 3, 3000), (21, 4, 3000)):
        found = prefix(log, end)
        assert (found.size, found.max_timestamp) == (sum(map(len, BATCHES[:count])), latest), end
        assert len(found.offset_index) // 8 == max(count - 1, 0), end  # each batch but the first one


def test_a_prefix_does_not_end_inside_of_a_batch(log: files.File) -> None:
    for end, text in ((11, "offsets 10 to 12, on both sides of 11"), (15, "offsets 14 to 15, on both sides of 15")):
        with pytest.raises(MalformedBatch, match=text):
            prefix(log, end)
