"""A map of values, and the values themselves, come out of rows as they come out batch by batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage.records.batch import build
from offsetfs.storage.segments.open_files import Pool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.time_search import shows_data
from offsetfs.storage.settings.config import DEFAULTS
from offsetfs.storage.views import view_blocks, view_map
from offsetfs.storage.views.view_map import ViewMap

pytestmark = pytest.mark.unit


def shows_data_too(header, *, nowait: bool = False) -> bool:
    """The same as `shows_data`, but another function: then nothing is taken in rows."""
    return shows_data(header, nowait=nowait)


KIND = st.sampled_from(["plain", "plain", "plain", "empty values", "many", "gzip", "control", "damaged", "zeros"])


def log_of(kinds: list[str]) -> bytes:
    log, offset = bytearray(), 0
    for kind in kinds:
        count = {"many": 30, "empty values": 50}.get(kind, 1)
        value = b"" if kind == "empty values" else b"v" * (offset * 37 % 500)
        fields: dict[str, object] = {"codec": "gzip"} if kind == "gzip" else {}
        if kind == "control":
            fields = {"control": True, "transactional": True, "producer_id": 1, "producer_epoch": 0}
        batch = build([(b"\0\0\0\1", value, (), 1)] * count, base_offset=offset, **fields)
        if kind == "damaged":
            batch[-1] ^= 1
        log += bytes(40) if kind == "zeros" else batch
        offset += count
    return bytes(log)


def map_of(segment: Segment, shows: view_blocks.Shows, bytes_max: int | None) -> tuple[object, ...]:
    made, problems = ViewMap(segment.base_offset, shows), list[str]()
    for _ in range(1000):
        made.extend(segment, segment.size, on_damage=lambda error: problems.append(str(error)), bytes_max=bytes_max)
        if made.log_bytes == segment.size:
            break
    return made, made._dump(), made.reached, made.has_damage, problems


@given(st.lists(KIND, max_size=40), st.sampled_from([50, 300, 1 << 20]), st.sampled_from([None, 200, 5000]))
@settings(max_examples=80)
def test_rows_and_batches_make_the_same_map_and_the_same_values(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], step: int, bytes_max: int | None
) -> None:
    path = tmp_path_factory.mktemp("log")
    (path / f"{0:020d}.log").write_bytes(log_of(kinds))
    segment = Segment(str(path), 0, DEFAULTS, Pool(9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_map, "OUTPUT_BYTES_STEP", step)
        patch.setattr(view_map, "BATCHES_BEFORE_ROWS", 3)
        by_rows, *rows_say = map_of(segment, shows_data, bytes_max)
        _, *batches_say = map_of(segment, shows_data_too, bytes_max)
        assert rows_say == batches_say
        assert isinstance(by_rows, ViewMap)
        output = 0
        while output < by_rows.size:
            block = by_rows.block(output)
            joined = view_blocks.join_block(segment, block)
            assert joined == view_blocks.join_block(segment, block, shows=shows_data_too)
            output = block.output_end


def test_a_damaged_batch_in_a_block_is_told_of_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(log_of(["plain"] * 5))
    segment = Segment(str(tmp_path), 0, DEFAULTS, Pool(9))
    made = ViewMap(0)
    made.extend(segment, segment.size, on_damage=lambda error: pytest.fail(str(error)))
    block = made.block(0)
    file = tmp_path / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(view_blocks.UNREADABLE):
        view_blocks.join_block(segment, block)
