"""Maps of values and of lines of JSON, and these themselves, come out of rows as they come out batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage.errors import UNREADABLE
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_header import BatchHeader
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.time_search import shows_data
from offsetfs.storage.settings.config import DEFAULTS
from offsetfs.storage.views import line_index, view_blocks
from offsetfs.storage.views.line_index import LineIndex
from offsetfs.storage.views.view_format import VALUES, JsonFormat, ViewFormat

pytestmark = pytest.mark.unit


def shows_data_too(header: BatchHeader, *, nowait: bool = False) -> bool:
    """The same as `shows_data`, but another function: then nothing is taken in rows."""
    return shows_data(header, nowait=nowait)


KINDS = ["plain", "plain", "plain", "append time", "empty values", "many", "gzip", "control", "damaged", "zeros"]
KIND = st.sampled_from(KINDS)


def log_of(kinds: list[str]) -> bytes:
    log, offset = bytearray(), 0
    for kind in kinds:
        count = {"many": 30, "empty values": 50}.get(kind, 1)
        value = b"" if kind == "empty values" else b"v" * (offset * 37 % 500)
        fields: dict[str, Any] = {"codec": "gzip"} if kind == "gzip" else {}
        if kind == "append time":
            fields = {"timestamp_type": "LogAppendTime"}
        if kind == "control":
            fields = {"control": True, "transactional": True, "producer_id": 1, "producer_epoch": 0}
        batch = build([(b"\0\0\0\1", value, (), 1)] * count, base_offset=offset, **fields)
        if kind == "damaged":
            batch[-1] ^= 1
        log += bytes(40) if kind == "zeros" else batch
        offset += count
    return bytes(log)


def map_of(segment: Segment, form: ViewFormat, shows: Callable[..., bool], bytes_max: int | None) -> tuple[object, ...]:
    made, problems = LineIndex(segment.base_offset, shows, view_format=form), list[str]()
    for _ in range(1000):
        made.extend(segment, segment.size, on_damage=lambda error: problems.append(str(error)), bytes_max=bytes_max)
        if made.log_bytes == segment.size:
            break
    return made, made.image(form.identity), made.reached, made.has_damage, problems


@pytest.mark.long
@pytest.mark.parametrize("form", [VALUES, JsonFormat(TopicPartition("orders", 3))], ids=["values", "json"])
@given(st.lists(KIND, max_size=40), st.sampled_from([50, 300, 1 << 20]), st.sampled_from([None, 200, 5000]))
@settings(max_examples=60)
def test_rows_and_batches_make_the_same_map_and_the_same_output(
    tmp_path_factory: pytest.TempPathFactory, form: ViewFormat, kinds: list[str], step: int, bytes_max: int | None
) -> None:
    path = tmp_path_factory.mktemp("log")
    (path / f"{0:020d}.log").write_bytes(log_of(kinds))
    segment = Segment(str(path), 0, DEFAULTS, FilePool(9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_index, "OUTPUT_BYTES_STEP", step)
        patch.setattr(line_index, "BATCHES_BEFORE_ROWS", 3)
        by_rows, *rows_say = map_of(segment, form, shows_data, bytes_max)
        _, *batches_say = map_of(segment, form, shows_data_too, bytes_max)
        assert rows_say == batches_say
        assert isinstance(by_rows, LineIndex)
        output = 0
        while output < by_rows.size:
            block = by_rows.block(output)
            joined = view_blocks.join_block(segment, block, view_format=form)
            assert joined == view_blocks.join_block(segment, block, view_format=form, shows=shows_data_too)
            output = block.output_end


def test_a_damaged_batch_in_a_block_is_reported_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(log_of(["plain"] * 5))
    segment = Segment(str(tmp_path), 0, DEFAULTS, FilePool(9))
    made = LineIndex(0)
    made.extend(segment, segment.size, on_damage=lambda error: pytest.fail(str(error)))
    block = made.block(0)
    file = tmp_path / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(UNREADABLE):
        view_blocks.join_block(segment, block)
