"""What a task reports of batches that it leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import offsetfs
from offsetfs.pipeline.jobs.stats import _count, _options
from offsetfs.pipeline.log_directories import opened
from offsetfs.pipeline.read_options import ReadOptions
from offsetfs.pipeline.scan import scan
from offsetfs.pipeline.scan_range import resolve
from offsetfs.pipeline.schema import arrow_schema, schema_of

pytestmark = [pytest.mark.unit, pytest.mark.damages]


@pytest.fixture
def damaged(tmp_path: Path, expect_log: Any) -> Path:
    """Three batches, the second of which has a byte that changed."""
    expect_log("a batch is left out")
    with offsetfs.open(tmp_path, "a") as data:
        partition = data.create("orders")[0]
        for value in (b"first", b"second", b"third"):
            partition.append(value)
    segment = tmp_path / "orders-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes().replace(b"second", b"sEcond"))
    return tmp_path


def offsets(path: Path, mode: str, *, without: str = "") -> list[int]:
    options = ReadOptions.parse({"path": str(path), "mode": mode})
    schema = arrow_schema(schema_of(options))
    if without:
        schema = schema.remove(schema.get_field_index(without))
    with opened(options.paths) as directory:
        ranges = tuple(resolve(directory, options))
    return [offset for batch in scan(ranges, options, schema) for offset in batch.column("offset").to_pylist()]


def is_the_warning(messages: list[str], path: Path) -> bool:
    (message,) = messages
    return all(
        part in message
        for part in ("orders-0: ", str(path / "orders-0"), "position", "offset 1", "checksum", "FAILFAST")
    )


def test_a_batch_that_dropmalformed_leaves_out_is_a_warning_with_its_place(
    damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert offsets(damaged, "DROPMALFORMED") == [0, 2]
    assert is_the_warning(caplog.messages, damaged)


def test_permissive_warns_only_where_no_row_reports_the_batch(damaged: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert sorted(offsets(damaged, "PERMISSIVE")) == [0, 1, 2] and not caplog.messages
    assert offsets(damaged, "PERMISSIVE", without="_corrupt_record") == [0, 2]
    assert is_the_warning(caplog.messages, damaged)


def test_stats_count_the_batches_that_they_leave_out_and_warn_of_each(
    damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = _options(str(damaged), ())
    with opened(options.paths) as directory:
        ranges = tuple(resolve(directory, options))
    (part,) = _count(options, ranges)["parts"]
    assert (part["records"], part["unreadable"]) == (2, 1)
    assert is_the_warning(caplog.messages, damaged)
